/**
 * What media a server takes from where, and how it says no.
 *
 * @module
 */
import { HearthError } from "../errors.ts";

/** What references a server follows. */
export interface MediaPolicy {
  /** Whether only callers on this machine reach the server: they may name its files and its network's addresses. */
  readonly isLocal: boolean;
  /** Whether addresses of private networks and of this machine may be fetched from all the same. */
  readonly allowPrivate: boolean;
  /** Files below it may be named by anyone. */
  readonly mediaDir: string | undefined;
  readonly maxBytes: number;
  /** Longest wait for all of a reference's bytes. */
  readonly maxTotalMs: number;
}

/** The error for media that cannot be read; its message begins in the middle of a sentence. */
export function invalidMedia(why: string, cause?: unknown): HearthError {
  return new HearthError("invalid_media", why, { cause });
}

/** The error for media over the limit. */
export function tooLargeMedia({ maxBytes }: MediaPolicy): HearthError {
  return invalidMedia(
    `it has more than the ${Math.floor(maxBytes / 2 ** 20)} MiB that are allowed`,
  );
}
