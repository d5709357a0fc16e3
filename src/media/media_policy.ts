/**
 * Which media references a server follows, and the errors for others.
 *
 * @module
 */
import { HearthError } from "../base/errors.ts";

/** The references that a server follows. */
export interface MediaPolicy {
  /** Whether the caller is on this machine, and so may name its files and its network's addresses. */
  readonly isLocal: boolean;
  /** Whether addresses of private networks and of this machine are allowed anyway. */
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
