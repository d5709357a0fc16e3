/**
 * The control words, 32 bits in shared memory, between the thread that runs a kernel and its helpers.
 *
 * @module
 */

/** Word numbers. */
export const WORD = {
  /** Counts jobs; helpers sleep on it. */
  job: 0,
  /** Helpers at work on the job, and whether more may join. The job's words change only while it is 0. */
  gate: 1,
  /** The next part of the work that nobody has taken. */
  next: 2,
  /** Not 0 once a helper's part has failed. */
  failed: 3,
  kernel: 4,
  memory: 5,
  site: 6,
  step: 7,
  items: 8,
  numWorks: 9,
  scratch: 10,
  scratchBytes: 11,
  /** Counts the parts that helpers have done. */
  helped: 12,
  /** How often helpers look for the next job before they sleep. */
  polls: 13,
  /** Not 0 once helpers are to end. */
  ended: 14,
  /** Helpers that look for the next job and do not sleep. */
  polling: 15,
} as const;

export const NUM_WORDS = 16;

/** Added to the gate while helpers may join. */
export const OPEN = 1 << 16;

/** Kernels, by number. */
export const KERNELS = [
  "pagedAttention",
  "packedAttention",
  "product",
  "floatProduct",
  "expertsProduct",
] as const;

export type KernelName = typeof KERNELS[number];

/** The start message of a helper. */
export interface ThreadStart {
  readonly control: SharedArrayBuffer;
  /** 1 for the first helper: its part of the scratch memory. */
  readonly thread: number;
  /** The port on which memories arrive, each before the first job on it. */
  readonly port: MessagePort;
  /** It ends after this long without a job. */
  readonly idleMs: number;
}

/** A memory and the id that jobs use for it. */
export interface MemoryMessage {
  readonly id: number;
  readonly memory: WebAssembly.Memory;
}

/** Takes parts of the open job until none is left. */
export function takeWorks(
  control: Int32Array,
  work: (first: number, end: number) => void,
): void {
  const numWorks = control[WORD.numWorks]!;
  while (true) {
    const next = Atomics.add(control, WORD.next, 1);
    if (next >= numWorks) return;
    work(next, next + 1);
  }
}
