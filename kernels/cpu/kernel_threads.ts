/**
 * Helper threads that run the CPU's kernels on shared memory.
 *
 * A job is divided into parts, and each thread takes the next one that is left. Which thread does a part does not
 * affect the result. Helpers sleep between jobs, end after a long time without one, and do not keep the process alive.
 *
 * @module
 */
import { startThread, type Thread } from "../../src/base/threads.ts";
import type { KernelExports } from "./kernel_module.ts";
import {
  type KernelName,
  KERNELS,
  type MemoryMessage,
  NUM_WORDS,
  OPEN,
  takeParts,
  type ThreadStart,
  WORD,
} from "./thread_control.ts";

/** A kernel to run on a memory. */
export interface KernelJob {
  readonly kernel: KernelName;
  readonly memory: WebAssembly.Memory;
  readonly exports: KernelExports;
  /** Addresses of the kernel's parameters, of the step, and of the step's items. */
  readonly node: number;
  readonly step: number;
  readonly items: number;
  /** Number of parts of the work. */
  readonly numParts: number;
  /** Address of scratch memory with one region per thread, and the size of a region in bytes. */
  readonly scratch: number;
  readonly scratchBytes: number;
  /** Approximate number of multiplications and additions in all parts together. */
  readonly flops: number;
  /** Number of times that a helper polls for the next job, a few nanoseconds each, before it sleeps; 0 if absent. */
  readonly polls?: number;
}

/** Options for starting helpers and waiting for them. */
export interface ThreadsOptions {
  /** The module that helpers run. */
  readonly module?: URL;
  /** Timeout for one part of the work, far longer than any part takes. */
  readonly patienceMs?: number;
  /** Helpers end after this long without a job; the next job starts new ones. */
  readonly idleMs?: number;
  /** Smaller jobs are not worth waking a helper. */
  readonly minFlops?: number;
  /** Overrides the jobs' `polls`; for tests. */
  readonly polls?: number;
}

/** A part takes about a millisecond, but the machine may be suspended in between. */
const PATIENCE_MS = 10_000;
/** Starting a helper takes some 100 ms, in which the caller works alone; each helper takes 34 MiB. */
const IDLE_MS = 20_000;
/** A job of this size takes one thread 80 to 400 µs, longer with fewer rows; waking a helper takes 30 to 50 µs. */
const MIN_FLOPS = 2e6;
/** While a helper is polling, even jobs of this size are worth dividing: it joins within a microsecond or two. */
const MIN_FLOPS_POLLING = 1e5;
/**
 * About 100 µs of polling. The work between two jobs of a step takes up to 40 µs, and waking a helper takes up to 50.
 */
export const STEP_POLLS = 16_000;
/** Number of polls of the gate before the caller sleeps. The caller waits at most for one part of each helper. */
const SPINS = 20_000;
/** After losing this many helpers, no more are started. */
const MAX_LOSSES = 3;

/** Runs jobs on helper threads. Only the thread that created an instance may use it. */
export class KernelThreads {
  /** Maximum number of threads working at once, including the caller. */
  readonly numThreads: number;
  readonly #options: Required<Omit<ThreadsOptions, "polls">>;
  readonly #polls: number | undefined;
  #helpers: Helper[] = [];
  #control = makeControl();
  #losses = 0;
  readonly #memories = new Map<WebAssembly.Memory, number>();
  #nextMemory = 1;

  constructor(numThreads: number, options: ThreadsOptions = {}) {
    this.numThreads = Math.max(1, numThreads);
    this.#options = {
      // A literal URL, so that `deno compile` finds the file.
      module: options.module ?? new URL("./kernel_thread.ts", import.meta.url),
      patienceMs: options.patienceMs ?? PATIENCE_MS,
      idleMs: options.idleMs ?? IDLE_MS,
      minFlops: options.minFlops ?? MIN_FLOPS,
    };
    this.#polls = options.polls;
  }

  /** Number of running helpers. */
  get numHelpers(): number {
    return this.#helpers.length;
  }

  /** Whether helpers are disabled because too many were lost. */
  get isAlone(): boolean {
    return this.#losses >= MAX_LOSSES;
  }

  /** Number of parts done by helpers. */
  get numHelpedParts(): number {
    return Atomics.load(this.#control, WORD.helped);
  }

  /** Number of times that the current helpers slept and were woken. */
  get numWakes(): number {
    return Atomics.load(this.#control, WORD.woken);
  }

  /**
   * Runs a job to its end.
   *
   * @throws the error of the kernel.
   */
  run(job: KernelJob): void {
    const wanted = Math.min(this.numThreads, job.numParts) - 1;
    const arePolling = Atomics.load(this.#control, WORD.polling) > 0;
    const minFlops = arePolling ? MIN_FLOPS_POLLING : this.#options.minFlops;
    if (wanted < 1 || job.flops < minFlops || this.isAlone) {
      runAlone(job);
      return;
    }
    this.start();
    const control = this.#control;
    control.set([
      KERNELS.indexOf(job.kernel),
      this.#share(job.memory),
      job.node,
      job.step,
      job.items,
      job.numParts,
      job.scratch,
      job.scratchBytes,
    ], WORD.kernel);
    control[WORD.failed] = 0;
    Atomics.store(control, WORD.polls, this.#polls ?? job.polls ?? 0);
    Atomics.store(control, WORD.next, 0);
    Atomics.store(control, WORD.gate, OPEN);
    Atomics.add(control, WORD.job, 1);
    Atomics.notify(control, WORD.job, wanted);
    const kernel = job.exports[job.kernel];
    takeParts(
      control,
      (first, end) => kernel(job.node, job.step, job.items, first, end, job.scratch),
    );
    // A part may be done twice: it writes the same result each time.
    if (!this.#close()) runAlone(job);
  }

  /** Drops a memory. Helpers that hold it end, so that it can be freed; the next job starts new ones. */
  release(memory: WebAssembly.Memory): void {
    if (this.#memories.delete(memory)) this.#endHelpers();
  }

  /** Ends the helpers. Later jobs start new ones. */
  dispose(): void {
    this.#endHelpers();
    this.#memories.clear();
  }

  /** Starts helpers that are not running yet. Otherwise they would join only some 100 ms after the first job. */
  start(): void {
    while (this.#helpers.length < this.numThreads - 1) {
      const { port1, port2 } = new MessageChannel();
      const taken = new Set(this.#helpers.map(({ thread }) => thread));
      let thread = 1;
      while (taken.has(thread)) thread++;
      const { idleMs } = this.#options;
      const workerData: ThreadStart = {
        control: this.#control.buffer,
        thread,
        port: port2,
        idleMs,
      };
      const helper: Helper = {
        running: startThread(this.#options.module, {
          workerData,
          ports: [port2],
          onEnd: (failure) => this.#drop(helper, { isLoss: failure !== undefined }),
        }),
        port: port1,
        thread,
      };
      for (const [memory, id] of this.#memories) port1.postMessage({ id, memory });
      this.#helpers.push(helper);
    }
  }

  /** Handles a helper that has ended by itself. */
  #drop(helper: Helper, { isLoss }: { readonly isLoss: boolean }): void {
    if (!this.#helpers.includes(helper)) return;
    this.#helpers = this.#helpers.filter((other) => other !== helper);
    helper.port.close();
    if (isLoss) this.#losses++;
  }

  /** Returns the id by which helpers know a memory, and sends them the memory if it is new. */
  #share(memory: WebAssembly.Memory): number {
    const known = this.#memories.get(memory);
    if (known !== undefined) return known;
    const id = this.#nextMemory++;
    this.#memories.set(memory, id);
    const message: MemoryMessage = { id, memory };
    for (const { port } of this.#helpers) port.postMessage(message);
    return id;
  }

  /**
   * Waits for the helpers that have joined.
   *
   * @returns whether every part is done.
   */
  #close(): boolean {
    const control = this.#control;
    let gate = Atomics.and(control, WORD.gate, ~OPEN) & ~OPEN;
    for (let i = 0; i < SPINS && gate > 0; i++) gate = Atomics.load(control, WORD.gate);
    while (gate > 0) {
      if (Atomics.wait(control, WORD.gate, gate, this.#options.patienceMs) === "timed-out") {
        this.#abandon();
        return false;
      }
      gate = Atomics.load(control, WORD.gate);
    }
    return control[WORD.failed] === 0;
  }

  /** Ends all helpers after one of them has timed out. */
  #abandon(): void {
    const control = this.#control;
    const helpers = this.#helpers;
    Atomics.store(control, WORD.next, 2 ** 31 - 1);
    this.#losses++;
    this.#endHelpers();
    // If the helper is alive after all, it finishes its part before the work is repeated.
    const gate = Atomics.load(control, WORD.gate);
    if (gate > 0) Atomics.wait(control, WORD.gate, gate, 100);
    for (const { running } of helpers) running.terminate();
  }

  /**
   * Tells the helpers to end. They are not terminated: Deno keeps the memory of a thread that is terminated while it
   * waits.
   */
  #endHelpers(): void {
    for (const { port } of this.#helpers) port.close();
    this.#helpers = [];
    Atomics.store(this.#control, WORD.ended, 1);
    Atomics.add(this.#control, WORD.job, 1);
    Atomics.notify(this.#control, WORD.job);
    // Replaces the control words that an ended helper may still write to.
    this.#control = makeControl();
  }
}

interface Helper {
  readonly running: Thread;
  readonly port: MessagePort;
  readonly thread: number;
}

function makeControl(): Int32Array<SharedArrayBuffer> {
  return new Int32Array(new SharedArrayBuffer(NUM_WORDS * 4));
}

function runAlone({ kernel, exports, node, step, items, numParts, scratch }: KernelJob): void {
  exports[kernel](node, step, items, 0, numParts, scratch);
}
