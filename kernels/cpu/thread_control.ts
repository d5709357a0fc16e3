/**
 * The control words, 32 bits in shared memory, between the thread that runs a kernel and its helpers.
 *
 * @module
 */

/** Words of a line of the processor's cache: what one thread writes there, others have to fetch again. */
const LINE = 16;

/** Word numbers. What many threads write is in a line of its own. */
export const WORD = {
  /** Counts jobs; helpers sleep on it. */
  job: 0,
  /** Helpers at work on the job, and whether more may join. The job's words change only while it is 0. */
  gate: LINE,
  /** The next part of the work that nobody has taken. */
  next: 2 * LINE,
  /** Helpers that look for the next job and do not sleep. */
  polling: 3 * LINE,
  /** Counts the parts that helpers have done. */
  helped: 4 * LINE,
  /** Counts how often helpers were woken. */
  woken: 4 * LINE + 1,
  kernel: 5 * LINE,
  memory: 5 * LINE + 1,
  node: 5 * LINE + 2,
  step: 5 * LINE + 3,
  items: 5 * LINE + 4,
  numWorks: 5 * LINE + 5,
  scratch: 5 * LINE + 6,
  scratchBytes: 5 * LINE + 7,
  /** Not 0 once a helper's part has failed. */
  failed: 5 * LINE + 8,
  /** How often helpers look for the next job before they sleep. */
  polls: 5 * LINE + 9,
  /** Not 0 once helpers are to end. */
  ended: 5 * LINE + 10,
} as const;

export const NUM_WORDS = 6 * LINE;

/** Added to the gate while helpers may join. */
export const OPEN = 1 << 16;

/** Kernels, by number. */
export const KERNELS = [
  "pagedAttention",
  "packedAttention",
  "product",
  "floatProduct",
  "expertsProduct",
  "causalConv",
  "linearAttention",
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
