/**
 * Measures the cost of grammars: tokens per second with and without a schema on each device, and, if
 * `../shared/tokenizers/qwen3` exists, the time of compilation and masks with a vocabulary of 151,936 tokens.
 *
 *     deno task bench grammar
 *
 * @module
 */
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { GREEDY } from "../../src/decoder/decoder.ts";
import type { EngineLoop } from "../../src/engine/loop.ts";
import { openDevice } from "../../src/gpu/device.ts";
import type { GrammarCompiler } from "../../src/engine/grammar/compiler.ts";
import type { Grammar, GrammarMatcher, GrammarSpec } from "../../src/engine/grammar/grammar.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { createGrammars } from "../../src/models/text/text.ts";
import { loadTokenizer } from "../../src/models/text/tokenizer.ts";
import { withEngine } from "../fixtures/engine/generate.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { Random } from "../unit/engine/random.ts";
import { benchEachDevice, type DeviceName } from "./each_device.ts";
import { median, printTable, time } from "./report.ts";

const MODEL = "hearth-demo-chat";
/** Amounts of work. WebGPU gets fewer tokens, since a software adapter takes a tenth of a second for a step. */
const SIZES: Readonly<Record<DeviceName, { rounds: number; newTokens: number }>> = {
  cpu: { rounds: 7, newTokens: 96 },
  webgpu: { rounds: 10, newTokens: 24 },
};
const QWEN = new URL("../../../shared/tokenizers/qwen3", import.meta.url).pathname;
const QWEN_VOCABULARY = 151_936;

/** A schema whose answers have at least a hundred tokens. */
const LONG_LIST: GrammarSpec = {
  kind: "json_schema",
  param: "schema",
  schema: {
    type: "array",
    minItems: 200,
    items: {
      type: "object",
      properties: {
        name: { type: "string", maxLength: 30 },
        age: { type: "integer", minimum: 0, maximum: 120 },
        kind: { enum: ["cat", "dog", "bird"] },
      },
      required: ["name", "age", "kind"],
      additionalProperties: false,
    },
  },
};

function fiftyProperties(salt: number): GrammarSpec {
  const properties = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [
    `property_${salt}_${i}`,
    [
      { type: "integer", minimum: 0, maximum: 1000 },
      { type: "string", maxLength: 40 },
      { type: "string" },
      { type: "array", items: { type: "number" } },
      { enum: ["red", "green", "blue"] },
    ][i % 5],
  ]));
  const schema = {
    type: "object",
    properties,
    required: Object.keys(properties),
    additionalProperties: false,
  };
  return { kind: "json_schema", schema, param: "schema" };
}

async function makeGrammars(folder: string, vocabSize: number, end: string) {
  const tokenizer = await loadTokenizer(await openFolder(folder));
  return createGrammars({
    tokenizer,
    vocabSize,
    endTokenIds: new Set([tokenizer.tokenToId(end)!]),
  });
}

/** Tokens per second of several simultaneous streams. */
async function rate(
  engine: EngineLoop,
  { numStreams, newTokens, grammar, seed }: {
    readonly numStreams: number;
    readonly newTokens: number;
    readonly grammar: Grammar | undefined;
    readonly seed: number;
  },
): Promise<number> {
  let numTokens = 0;
  const run = (stream: number) =>
    new Promise<void>((resolve, reject) =>
      engine.add({
        promptTokens: Int32Array.from(
          { length: 20 },
          (_, i) => 3 + (seed * 97 + stream * 31 + i * 7) % 1900,
        ),
        samples: [{ ...GREEDY, temperature: 1, topK: 20, topP: 0.9, seed: seed + stream }],
        maxTokens: newTokens,
        topLogprobs: 0,
        grammar,
      }, {
        onToken: () => {
          numTokens++;
          return false;
        },
        onDone: () => resolve(),
        onError: reject,
      })
    );
  const ms = await time(() => Promise.all(Array.from({ length: numStreams }, (_, i) => run(i))));
  return 1000 * numTokens / ms;
}

async function benchDevice(device: DeviceName): Promise<void> {
  const backend = device === "cpu"
    ? new CpuBackend()
    : await WebGpuBackend.create((await openDevice({ allowFallback: true }))!);
  const folder = findModelFolder(MODEL)!;
  const dtype = device === "cpu" ? "q4" : "q4f16";
  const rows: string[][] = [];
  await withEngine({ backend, folder, dtype }, async (engine) => {
    const grammars = await makeGrammars(folder, engine.limits.vocabSize, "<|im_end|>");
    const grammar = grammars.compile(LONG_LIST);
    for (const numStreams of [1, 8]) {
      const plain: number[] = [];
      const bound: number[] = [];
      const { rounds, newTokens } = SIZES[device];
      const options = { numStreams, newTokens };
      // The two alternate, and so does their order; the first round warms up.
      for (let round = 0; round <= rounds; round++) {
        const runs = [
          { grammar: undefined, rates: plain },
          { grammar, rates: bound },
        ];
        for (const { grammar, rates } of round % 2 === 0 ? runs : runs.toReversed()) {
          const each = await rate(engine, { ...options, grammar, seed: round * 100 });
          if (round > 0) rates.push(each);
        }
      }
      const ratio = median(bound.map((each, i) => each / plain[i]!));
      rows.push([
        device,
        String(numStreams),
        median(plain).toFixed(0),
        median(bound).toFixed(0),
        `${((1 - ratio) * 100).toFixed(1)} %`,
      ]);
    }
  });
  printTable(["device", "streams", "tokens/s", "with a schema", "slower by"], rows);
  backend.dispose();
  if (device === "cpu") await benchLargeVocabulary();
}

/** Milliseconds of each mask and token along a random answer. */
function walk(matcher: GrammarMatcher, random: Random): { masks: number[]; accepts: number[] } {
  const masks: number[] = [];
  const accepts: number[] = [];
  for (let step = 0; step < 300 && !matcher.isFinished; step++) {
    const start = performance.now();
    const { mask } = matcher;
    masks.push(performance.now() - start);
    let id = random.between(0, QWEN_VOCABULARY - 1);
    while ((mask[id >>> 5]! >>> (id & 31) & 1) === 0) id = (id + 1) % QWEN_VOCABULARY;
    const then = performance.now();
    matcher.accept(id);
    accepts.push(performance.now() - then);
  }
  return { masks, accepts };
}

async function benchLargeVocabulary(): Promise<void> {
  let grammars: GrammarCompiler;
  try {
    grammars = await makeGrammars(QWEN, QWEN_VOCABULARY, "<|im_end|>");
  } catch {
    // deno-lint-ignore no-console -- says what is left out
    return console.log(`No ${QWEN}: the large vocabulary is left out.`);
  }
  const first = await time(() => Promise.resolve(grammars.compile({ kind: "json_object" })));
  const compiles: number[] = [];
  for (let salt = 0; salt < 9; salt++) {
    compiles.push(await time(() => Promise.resolve(grammars.compile(fiftyProperties(salt)))));
  }
  const random = new Random(7);
  const mean = (values: readonly number[]) =>
    values.reduce((sum, each) => sum + each, 0) / values.length;
  const grammar = grammars.compile(fiftyProperties(0));
  const cold = walk(grammar.createMatcher(), random);
  for (let i = 0; i < 5; i++) walk(grammar.createMatcher(), random);
  const warm = Array.from({ length: 10 }, () => walk(grammar.createMatcher(), random));
  const ms = (value: number) => `${value.toFixed(3)} ms`;
  printTable(["151,936 tokens", "time"], [
    ["the vocabulary, once a process", ms(first)],
    ["compiling 50 properties, median of 9", ms(median(compiles))],
    ["a mask, mean of the first answer", ms(mean(cold.masks))],
    ["a mask, worst of the first answer", ms(Math.max(...cold.masks))],
    ["a mask, mean of later answers", ms(mean(warm.flatMap(({ masks }) => masks)))],
    ["a token taken, mean of later answers", ms(mean(warm.flatMap(({ accepts }) => accepts)))],
  ]);
}

await benchEachDevice(import.meta.url, benchDevice);
