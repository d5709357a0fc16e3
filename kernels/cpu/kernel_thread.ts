/**
 * A helper thread for kernels: sleeps until there is a job, takes parts of it, and sleeps again. It ends when it is
 * told to, or after a long time without a job, since the thread that started it may have been terminated without
 * notice.
 *
 * @module
 */
import { receiveMessageOnPort, workerData } from "node:worker_threads";
import { instantiateKernels, type KernelExports } from "./kernel_module.ts";
import {
  KERNELS,
  type MemoryMessage,
  OPEN,
  takeParts,
  type ThreadStart,
  WORD,
} from "./thread_control.ts";

const { control: buffer, thread, port, idleMs } = workerData as ThreadStart;
const control = new Int32Array(buffer);
const instances = new Map<number, KernelExports>();

/** Joins the open job, unless it has finished. */
function join(): boolean {
  let gate = Atomics.load(control, WORD.gate);
  while ((gate & OPEN) !== 0) {
    const seen = Atomics.compareExchange(control, WORD.gate, gate, gate + 1);
    if (seen === gate) return true;
    gate = seen;
  }
  return false;
}

function leave(): void {
  if (Atomics.sub(control, WORD.gate, 1) === 1) Atomics.notify(control, WORD.gate);
}

function help(): void {
  const kernels = instances.get(control[WORD.memory]!);
  if (kernels === undefined) return;
  const kernel = kernels[KERNELS[control[WORD.kernel]!]!];
  const [node, step, items] = control.subarray(WORD.node, WORD.numParts);
  const scratch = control[WORD.scratch]! + thread * control[WORD.scratchBytes]!;
  let numDone = 0;
  takeParts(control, (first, end) => {
    kernel(node!, step!, items!, first, end, scratch);
    numDone++;
  });
  Atomics.add(control, WORD.helped, numDone);
}

/** Polls for the next job. @returns whether one came. */
function pollForJob(job: number): boolean {
  Atomics.add(control, WORD.polling, 1);
  let hasCome = false;
  for (let i = Atomics.load(control, WORD.polls); i > 0 && !hasCome; i--) {
    hasCome = Atomics.load(control, WORD.job) !== job;
  }
  Atomics.sub(control, WORD.polling, 1);
  return hasCome;
}

/** Sleeps until the next job. @returns whether one came. */
function sleepUntilJob(job: number): boolean {
  const outcome = Atomics.wait(control, WORD.job, job, idleMs);
  if (outcome === "ok") Atomics.add(control, WORD.woken, 1);
  return outcome !== "timed-out";
}

for (let job = 0;; job = Atomics.load(control, WORD.job)) {
  for (let got; (got = receiveMessageOnPort(port as never)) !== undefined;) {
    const { id, memory } = got.message as MemoryMessage;
    instances.set(id, instantiateKernels(memory));
  }
  if (join()) {
    try {
      help();
    } catch {
      // The thread that runs the job repeats the whole job, and so gets the error itself.
      Atomics.store(control, WORD.failed, 1);
    } finally {
      leave();
    }
  }
  const hasNext = pollForJob(job) || sleepUntilJob(job);
  if (!hasNext || Atomics.load(control, WORD.ended) !== 0) break;
}
