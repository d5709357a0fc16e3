/**
 * The control words through which a thread and its helpers coordinate: 32 bits each, in shared memory.
 *
 * @module
 */

/** Number of words in a cache line. When one thread writes to a line, the others must fetch it again. */
const LINE = 16;

/** Word numbers. Words that many threads write have a cache line of their own. */
export const WORD = {
  /** Number of jobs so far; helpers sleep on it. */
  job: 0,
  /**
   * Number of helpers working on the job, plus a flag that says whether more may join. The job's words change only
   * while the gate is 0.
   */
  gate: LINE,
  /** Number of the next part that nobody has taken. */
  next: 2 * LINE,
  /** Number of helpers that are polling for the next job. */
  polling: 3 * LINE,
  /** Number of parts done by helpers. */
  helped: 4 * LINE,
  /** Number of times that helpers were woken. */
  woken: 4 * LINE + 1,
  kernel: 5 * LINE,
  memory: 5 * LINE + 1,
  node: 5 * LINE + 2,
  step: 5 * LINE + 3,
  items: 5 * LINE + 4,
  numParts: 5 * LINE + 5,
  scratch: 5 * LINE + 6,
  scratchBytes: 5 * LINE + 7,
  /** Not 0 after a helper's part has failed. */
  failed: 5 * LINE + 8,
  /** Number of times that helpers poll for the next job before they sleep. */
  polls: 5 * LINE + 9,
  /** Not 0 if helpers must end. */
  ended: 5 * LINE + 10,
} as const;

export const NUM_WORDS = 6 * LINE;

/** Flag in the gate: set while helpers may join. */
export const OPEN = 1 << 16;

/** Kernels by number. */
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

/** The data with which a helper is started. */
export interface ThreadStart {
  readonly control: SharedArrayBuffer;
  /** Number of the thread, 1 for the first helper: selects its part of the scratch memory. */
  readonly thread: number;
  /** The port on which memories arrive, each before the first job on it. */
  readonly port: MessagePort;
  /** The helper ends after this long without a job. */
  readonly idleMs: number;
}

/** A memory, and the id by which jobs refer to it. */
export interface MemoryMessage {
  readonly id: number;
  readonly memory: WebAssembly.Memory;
}

/** Takes parts of the open job until none is left. */
export function takeParts(
  control: Int32Array,
  work: (first: number, end: number) => void,
): void {
  const numParts = control[WORD.numParts]!;
  while (true) {
    const next = Atomics.add(control, WORD.next, 1);
    if (next >= numParts) return;
    work(next, next + 1);
  }
}
