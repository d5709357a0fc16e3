/**
 * Waits for helper threads, even if a busy machine starts them slowly.
 *
 * @module
 */
import type { KernelThreads } from "../../kernels/cpu/kernel_threads.ts";

const PATIENCE_MS = 60_000;

/**
 * Calls `work` until helpers have done `numParts` parts of its jobs. @throws {Error} if they have not within a minute.
 */
export async function untilHelped(
  threads: KernelThreads,
  numParts: number,
  work: (round: number) => void,
): Promise<void> {
  const end = performance.now() + PATIENCE_MS;
  for (let round = 0; threads.numHelpedParts < numParts; round++) {
    if (performance.now() > end) throw new Error(`helpers did too few parts in ${round} rounds`);
    work(round);
    // Lets the helpers receive the memory.
    await new Promise((resolve) => setTimeout(resolve));
  }
}
