/**
 * Compares text generation with transformers.js: the same folders, weights, device and prompts, alternating in one
 * process per device, medians of several rounds.
 *
 *     deno task bench decode
 *     deno run -A test/bench/decode_bench.ts webgpu stories
 *
 * @module
 */
import { basename } from "node:path";
import type { Backend } from "../../src/device/backend.ts";
import { benchEachDevice, type IsWanted } from "./each_device.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import type { Dtype } from "../../src/base/config.ts";
import type { EngineLoop } from "../../src/engine/loop.ts";
import { openDevice } from "../../src/gpu/device.ts";
import type { Transformers } from "../../src/device/ort/hook.ts";
import { loadWithModels } from "../fixtures/engine/transformers_sessions.ts";
import { peerSessions } from "./peer_sessions.ts";
import { generate, withEngine } from "../fixtures/engine/generate.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { smallQwen3Folder } from "./real/qwen3.ts";
import { median, printTable, time } from "./report.ts";

const ROUNDS = 3;
const NEW_TOKENS = 64;
/** Tokens that transformers.js generates: few, since it needs 100 ms for each on a software adapter. */
const PEER_NEW_TOKENS = 16;
const NUM_STREAMS = 8;

interface Case {
  readonly model: string;
  readonly dtype: Dtype;
  readonly vocabSize: number;
}

/** Qwen3-0.6B's graph, a quarter as wide. */
const SMALL_TWIN = "qwen3-small-twin";

const CASES: Readonly<Record<string, readonly Case[]>> = {
  cpu: [
    { model: "hearth-demo-chat", dtype: "q4", vocabSize: 2000 },
    { model: "stories260k-llama", dtype: "fp32", vocabSize: 500 },
  ],
  webgpu: [
    { model: "hearth-demo-chat", dtype: "q4f16", vocabSize: 2000 },
    { model: "stories260k-llama", dtype: "fp32", vocabSize: 500 },
    { model: SMALL_TWIN, dtype: "q4f16", vocabSize: 2000 },
  ],
};

/** A program that generates greedily, ignoring end tokens. */
interface Contender {
  generate(prompts: readonly (readonly number[])[], newTokens: number): Promise<unknown>;
}

/** A prompt that shares no prefix with the prompts of other seeds. */
function makePrompt(seed: number, length: number, { vocabSize }: Case): number[] {
  return Array.from(
    { length },
    (_, i) => 3 + (seed * 7919 + i * 31 + (i * i) % 13) % (vocabSize - 3),
  );
}

function ours(engine: EngineLoop): Contender {
  return {
    generate: (prompts, maxTokens) =>
      Promise.all(prompts.map((tokens) => generate(engine, { tokens, maxTokens }))),
  };
}

/** Runs requests in transformers.js one after the other, as its pipeline serves separate requests. */
async function theirs(
  transformers: Transformers,
  model: string,
  { dtype }: Case,
): Promise<Contender> {
  const decoder = await transformers.AutoModelForCausalLM.from_pretrained(model, {
    dtype: dtype as "fp32",
    device: "auto",
  });
  const row = (values: readonly number[]) =>
    new transformers.Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
  return {
    generate: async (prompts, max_new_tokens) => {
      for (const prompt of prompts) {
        await decoder.generate({
          inputs: row(prompt),
          attention_mask: row(prompt.map(() => 1)),
          max_new_tokens,
          do_sample: false,
          eos_token_id: -1,
          // deno-lint-ignore no-explicit-any -- its declaration wants every option there is
        } as any);
      }
    },
  };
}

/**
 * Tokens per second over prompts of 20 tokens and their answers. transformers.js serves separate requests one after the
 * other, so its rate for several is its rate for one.
 */
async function compareThroughput(contenders: { ours: Contender; theirs: Contender }, one: Case) {
  const rates = { one: [] as number[], many: [] as number[], theirs: [] as number[] };
  let seed = 0;
  const computeRate = async (
    contender: Contender,
    { numStreams, newTokens }: { readonly numStreams: number; readonly newTokens: number },
  ) => {
    const prompts = Array.from({ length: numStreams }, () => makePrompt(seed++, 20, one));
    const ms = await time(() => contender.generate(prompts, newTokens));
    return 1000 * numStreams * newTokens / ms;
  };
  for (let round = 0; round <= ROUNDS; round++) {
    const single = await computeRate(contenders.ours, { numStreams: 1, newTokens: NEW_TOKENS });
    const many = await computeRate(contenders.ours, {
      numStreams: NUM_STREAMS,
      newTokens: NEW_TOKENS,
    });
    const theirs = await computeRate(contenders.theirs, {
      numStreams: 1,
      newTokens: PEER_NEW_TOKENS,
    });
    // The first round warms up.
    if (round === 0) continue;
    rates.one.push(single);
    rates.many.push(many);
    rates.theirs.push(theirs);
  }
  return { one: median(rates.one), many: median(rates.many), theirs: median(rates.theirs) };
}

/**
 * Milliseconds per token in transformers.js at a context of `length`: the difference between a long and a short answer
 * to one prompt, both after the prompt has been read once. Measured only once, because the prompt takes seconds on a
 * software adapter.
 */
async function timePerToken(contender: Contender, length: number, one: Case): Promise<number> {
  const prompt = makePrompt(0, length, one);
  await contender.generate([prompt], 1);
  const first = await time(() => contender.generate([prompt], 1));
  const all = await time(() => contender.generate([prompt], 9));
  return (all - first) / 8;
}

/** Milliseconds per token in Hearth once the prompt is cached, so that prefill does not blur the difference. */
async function timeContexts(
  engine: EngineLoop,
  one: Case,
): Promise<{ short: number; long: number }> {
  const short: number[] = [];
  const long: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    for (const [into, length] of [[short, 100], [long, 1500]] as const) {
      const tokens = makePrompt(1000 + round, length, one);
      await generate(engine, { tokens, maxTokens: 1 });
      const first = await time(() => generate(engine, { tokens, maxTokens: 1 }));
      const all = await time(() => generate(engine, { tokens, maxTokens: 33 }));
      into.push((all - first) / 32);
    }
  }
  return { short: median(short), long: median(long) };
}

async function timeCachedPrompt(
  engine: EngineLoop,
  one: Case,
): Promise<{ first: number; cached: number }> {
  const first: number[] = [];
  const cached: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const tokens = makePrompt(2000 + round, 1000, one);
    first.push(await time(() => generate(engine, { tokens, maxTokens: 1 })));
    cached.push(await time(() => generate(engine, { tokens, maxTokens: 1 })));
  }
  return { first: median(first), cached: median(cached) };
}

async function benchCase(
  one: Case,
  backend: Backend,
  device: GPUDevice | undefined,
): Promise<string[][]> {
  const folder = one.model === SMALL_TWIN ? await smallQwen3Folder() : findModelFolder(one.model);
  if (folder === undefined) return [[`${one.model} is not there`, "", "", "", ""]];
  const transformers = await loadWithModels({
    openModel: peerSessions(device),
    modelsFolder: `${folder}/..`,
  });
  const label = `${one.model} ${one.dtype}`;
  return await withEngine(
    { backend, folder, dtype: one.dtype },
    async (engine) => {
      const contenders = {
        ours: ours(engine),
        theirs: await theirs(transformers, basename(folder), one),
      };
      const rates = await compareThroughput(contenders, one);
      const rows = [1, NUM_STREAMS].map((numStreams) => {
        const [mine, other] = [numStreams === 1 ? rates.one : rates.many, rates.theirs];
        return [
          label,
          `${numStreams} ${numStreams === 1 ? "stream" : "streams"}, tokens/s`,
          mine.toPrecision(3),
          other.toPrecision(3),
          `${(mine / other).toFixed(1)}×`,
        ];
      });
      if (one.model !== "hearth-demo-chat") return rows;
      const contexts = await timeContexts(engine, one);
      const theirLong = await timePerToken(contenders.theirs, 1500, one);
      const prompts = await timeCachedPrompt(engine, one);
      await contenders.theirs.generate([makePrompt(2000, 1000, one)], 1);
      const theirFirst = await time(() =>
        contenders.theirs.generate([makePrompt(2001, 1000, one)], 1)
      );
      return [
        ...rows,
        [label, "ms/token at 100 tokens", contexts.short.toFixed(2), "", ""],
        [
          label,
          "ms/token at 1,500 tokens",
          contexts.long.toFixed(2),
          theirLong.toFixed(2),
          `${(contexts.long / contexts.short).toFixed(2)}× that at 100`,
        ],
        [
          label,
          "1,000-token prompt, ms to first token",
          prompts.first.toFixed(0),
          theirFirst.toFixed(0),
          "",
        ],
        [
          label,
          "the same again, from the prefix cache",
          prompts.cached.toFixed(0),
          "",
          `${(prompts.cached / prompts.first).toFixed(2)}× the first time`,
        ],
      ];
    },
  );
}

async function benchDevice(name: string, isWanted: IsWanted): Promise<void> {
  const gpu = name === "webgpu" ? await openDevice({ allowFallback: true }) : undefined;
  const backend = gpu ? await WebGpuBackend.create(gpu) : new CpuBackend();
  const rows: string[][] = [];
  for (const one of CASES[name]!.filter(({ model }) => isWanted(model))) {
    rows.push(...await benchCase(one, backend, gpu?.device));
  }
  printTable([backend.adapter, "", "Hearth", "transformers.js", "ratio"], rows);
}

await benchEachDevice(import.meta.filename!, benchDevice);
