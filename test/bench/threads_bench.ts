/**
 * Measures how much more CPU threads speed up a decoder of Qwen3-0.6B's sizes in q4, and how much of a step a single
 * thread does: the time outside the jobs that threads share. A helper that is woken more than once in a step has slept
 * during the step.
 *
 *     deno task bench threads
 *     deno run -A test/bench/threads_bench.ts <layers> <threads>…
 *
 * @module
 */
import { KernelThreads } from "../../kernels/cpu/kernel_threads.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { GREEDY } from "../../src/decoder/decoder.ts";
import { EngineLoop } from "../../src/engine/loop.ts";
import { warmUp } from "../../src/engine/generate.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { loadDecoder } from "../../src/models/folder/decoder_load.ts";
import { makeContext } from "../fixtures/engine/open_folder.ts";
import { QWEN3, writeQwen3 } from "./real/qwen3.ts";
import { twinFolder } from "./real/twin.ts";
import { median, printTable, time } from "./report.ts";

/** A tenth of the model: all layers are alike, and there is only one vocabulary projection in any case. */
const LAYERS = 3;
const ROUNDS = 5;
const NEW_TOKENS = 32;
const PROMPT_TOKENS = 464;
/** Numbers of streams: small ones run in Hearth's kernels, larger ones in ONNX Runtime. */
const STREAMS = [1, 4, 8];

const [layers = LAYERS, ...threadCounts] = Deno.args.map(Number);
const folder = await openFolder(
  await twinFolder(
    `qwen3-0.6b-q4-${layers}-layers-1`,
    (path) => writeQwen3(path, { sizes: { ...QWEN3, layers }, dtypes: ["q4"] }),
  ),
);

/**
 * Measures this thread's milliseconds in jobs that threads share, and counts the helpers that were woken since the
 * first of these jobs.
 */
class JobMeter implements Disposable {
  sharedMs = 0;
  #threads: KernelThreads | undefined;
  #wakesBefore = 0;
  readonly #run = KernelThreads.prototype.run;

  constructor() {
    // deno-lint-ignore no-this-alias -- the threads are another object
    const meter = this;
    KernelThreads.prototype.run = function (job) {
      if (meter.#threads === undefined) meter.#wakesBefore = this.numWakes;
      meter.#threads = this;
      const startedAt = performance.now();
      meter.#run.call(this, job);
      meter.sharedMs += performance.now() - startedAt;
    };
  }

  get numWakes(): number {
    return (this.#threads?.numWakes ?? 0) - this.#wakesBefore;
  }

  [Symbol.dispose](): void {
    KernelThreads.prototype.run = this.#run;
  }
}

/** Runs a request without log-probabilities. */
function run(engine: EngineLoop, seed: number, length: number, maxTokens: number): Promise<void> {
  const promptTokens = Int32Array.from({ length }, (_, i) => (seed * 977 + i * 131) % QWEN3.vocab);
  return new Promise((resolve, reject) =>
    engine.add({ promptTokens, samples: [GREEDY], maxTokens }, {
      onToken: () => false,
      onDone: () => resolve(),
      onError: reject,
    })
  );
}

async function benchThreads(threads: number): Promise<string[]> {
  const backend = await CpuBackend.open({ threads });
  const engine = { prefixCache: false };
  const { decoder } = await loadDecoder(makeContext(folder, { backend, dtype: "q4", engine }));
  await warmUp(decoder);
  const loop = new EngineLoop(decoder, { prefixCache: false });
  const cells: string[] = [];
  for (const numStreams of STREAMS) {
    const speeds: number[] = [];
    const serial: number[] = [];
    const wakes: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      using meter = new JobMeter();
      const ms = await time(() =>
        Promise.all(
          Array.from({ length: numStreams }, (_, seed) => run(loop, seed, 1, NEW_TOKENS)),
        )
      );
      speeds.push(numStreams * NEW_TOKENS / ms * 1000);
      serial.push((ms - meter.sharedMs) / NEW_TOKENS);
      wakes.push(meter.numWakes / NEW_TOKENS / Math.max(1, threads - 1));
    }
    cells.push(median(speeds).toFixed(1));
    if (numStreams === 1) cells.push(median(serial).toFixed(2), median(wakes).toFixed(2));
  }
  const prompts: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const ms = await time(() => run(loop, round, PROMPT_TOKENS, 1));
    prompts.push(PROMPT_TOKENS / ms * 1000);
  }
  cells.push(median(prompts).toFixed(0));
  await decoder.dispose();
  await backend.dispose();
  return [`${threads}`, ...cells];
}

const counts = threadCounts.length > 0
  ? threadCounts
  : [1, 2, 4, 8, 16].filter((count) => count <= navigator.hardwareConcurrency);
const rows: string[][] = [];
for (const threads of counts) rows.push(await benchThreads(threads));
printTable([
  "threads",
  "1 stream, tokens/s",
  "of one thread alone, ms a step",
  "wakes of a helper, a step",
  ...STREAMS.slice(1).map((count) => `${count} streams`),
  `prompts of ${PROMPT_TOKENS}`,
], rows);
Deno.exit(0);
