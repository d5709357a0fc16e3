/**
 * Which media references a server follows, and the errors for others.
 *
 * @module
 */
import { HearthError } from "../base/errors.ts";

/** The references that a server follows. */
export interface MediaPolicy {
  /** Whether the caller is on this machine, and so may refer to its files and its network's addresses. */
  readonly isLocal: boolean;
  /** Whether addresses of private networks and of this machine are allowed anyway. */
  readonly allowPrivate: boolean;
  /** Folder whose files anyone may refer to. */
  readonly mediaDir: string | undefined;
  readonly maxBytes: number;
  /** Longest time to wait for all bytes of a reference. */
  readonly maxTotalMs: number;
}

/** The error for media that cannot be read. Its message begins in the middle of a sentence. */
export function invalidMedia(why: string, cause?: unknown): HearthError {
  return new HearthError("invalid_media", why, { cause });
}

/** The error for media over the limit. */
export function tooLargeMedia({ maxBytes }: MediaPolicy): HearthError {
  return invalidMedia(
    `it has more than the ${Math.floor(maxBytes / 2 ** 20)} MiB that are allowed`,
  );
}
