/**
 * Downloads that wait for space on a disk that is full.
 *
 * @module
 */
import { StartupError } from "../base/errors.ts";
import { sleep } from "./retry.ts";

/** The disk has no room for a download. */
export class NoSpaceError extends StartupError {}

const ASK_AGAIN_MS = 30_000;

/** Whether the disk was full, at any level of an error's causes: ENOSPC, EDQUOT, ERROR_DISK_FULL. */
function isNoSpace(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return error instanceof NoSpaceError || /\(os error (28|122|112)\)/.test(error.message) ||
    isNoSpace(error.cause);
}

/**
 * Downloads, and once more every half a minute while there is no space for it. What has come is kept.
 *
 * @param options.onFull called with the reason each time.
 * @throws every other error of `download`.
 */
export async function waitForSpace<T>(
  download: () => Promise<T>,
  { onFull, signal, pause = sleep }: {
    readonly onFull: (reason: string) => void;
    readonly signal?: AbortSignal | undefined;
    readonly pause?: typeof sleep;
  },
): Promise<T> {
  while (true) {
    try {
      return await download();
    } catch (error) {
      signal?.throwIfAborted();
      if (!isNoSpace(error)) throw error;
      onFull((error as Error).message);
      await pause(ASK_AGAIN_MS, signal);
    }
  }
}
