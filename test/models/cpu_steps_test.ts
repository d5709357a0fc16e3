/** Steps of few rows on the CPU run in our kernels; answers stay the same. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { type KernelRule, WITHOUT_KERNELS } from "../../src/decoder/kernel_rule.ts";
import { PagedDecoder } from "../../src/decoder/paged_decoder.ts";
import { EngineLoop } from "../../src/engine/loop.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { loadDecoder } from "../../src/models/folder/decoder_load.ts";
import { loadNative } from "../../src/device/ort/ort.ts";
import { type ChatDtype, copyChatModel, editChatModel } from "../fixtures/models/chat_model.ts";
import { countCalls } from "../fixtures/engine/count_calls.ts";
import { generate } from "../fixtures/engine/generate.ts";
import { runHearth } from "../fixtures/servers/hearth_process.ts";
import type { ModelFolder } from "../fixtures/models/model_folder.ts";
import { makeContext } from "../fixtures/engine/open_folder.ts";
import { makePrompt, Ties } from "../fixtures/engine/small_steps.ts";
import { firstTokens } from "../fixtures/engine/steps.ts";

const LAYERS = 4;
const NUM_TOKENS = 24;
/**
 * Two log-probabilities that differ by less than this are a tie. The last bit of a sum may decide whether one of a
 * row's 254 levels is rounded up or down, and the keys and values of a text retain the difference. The largest observed
 * difference is 0.042, between q4f16 and ONNX Runtime's kernels for AVX-512.
 */
const TIE = 0.05;

/** The built-in model in 4 bits, unchanged or with an accuracy level. */
async function openModel(
  backend: CpuBackend,
  { level, dtype = "q4", rule }: {
    readonly level?: number | undefined;
    readonly dtype?: ChatDtype;
    readonly rule?: KernelRule;
  } = {},
): Promise<PagedDecoder> {
  await using copy = await copyChatModel(level, dtype);
  const folder = await openFolder(copy.path);
  const context = makeContext(folder, { backend, dtype, engine: { prefixCache: false } });
  const { decoder } = await loadDecoder({ ...context, ...rule && { rule } });
  assert.ok(decoder instanceof PagedDecoder);
  return decoder;
}

/** The class behind ONNX Runtime's factory. */
interface RunsSessions {
  readonly prototype: Record<"run", (...args: never[]) => unknown>;
}

/** Number of session runs in `work`. */
async function countRuns(work: () => Promise<unknown>): Promise<number> {
  const { InferenceSession } = await loadNative();
  using runs = countCalls((InferenceSession as unknown as RunsSessions).prototype, "run");
  await work();
  return runs.count;
}

/** Number of session runs in a decoding step with the given number of tokens. */
function countDecoding(decoder: PagedDecoder, numRows: number): Promise<number> {
  const step = firstTokens(numRows, decoder.limits, { isDecoding: true });
  return countRuns(() => decoder.run(step));
}

for (const dtype of ["q4", "q4f16"] as const) {
  Deno.test(`a step of up to six tokens in ${dtype} on the CPU runs in our kernels, and answers like ONNX Runtime`, async () => {
    const backend = await CpuBackend.open({ threads: 2 });
    const open = async (rule?: KernelRule) => {
      const decoder = await openModel(backend, { level: 4, dtype, ...rule && { rule } });
      const engine = new EngineLoop(decoder, { prefixCache: false });
      const answer = async (seed: number) => {
        const request = { tokens: makePrompt(seed), maxTokens: NUM_TOKENS, topLogprobs: 2 };
        return (await generate(engine, request)).tokens;
      };
      return { decoder, answer };
    };
    const [ours, ort] = [await open(), await open(WITHOUT_KERNELS)];
    const ties = new Ties(TIE);
    const seeds = Array.from({ length: 8 }, (_, i) => i);
    // The segments before and after each attention.
    assert.equal(await countDecoding(ort.decoder, 1), LAYERS + 1);
    const wanted = await Promise.all(seeds.map(ort.answer));
    for (const numRows of [1, 6]) assert.equal(await countDecoding(ours.decoder, numRows), 0);
    assert.equal(await countDecoding(ours.decoder, 7), LAYERS + 1);
    for (const seed of seeds) ties.compare(await ours.answer(seed), wanted[seed]!);
    // Most steps of eight concurrent requests have several rows, as prompts do.
    const together = await Promise.all(seeds.map(ours.answer));
    together.forEach((tokens, seed) => ties.compare(tokens, wanted[seed]!));
    ties.requireAtMost(4);
    await ours.decoder.dispose();
    await ort.decoder.dispose();
    await backend.dispose();
  });
}

Deno.test("on the CPU an answer is bit-identical alone and together with prompts and five other answers", async () => {
  const backend = await CpuBackend.open({ threads: 2 });
  const decoder = await openModel(backend, { level: 4 });
  const engine = new EngineLoop(decoder, { prefixCache: false });
  const answer = async (tokens: readonly number[]) => {
    const request = { tokens, maxTokens: NUM_TOKENS, topLogprobs: 2 };
    return (await generate(engine, request)).tokens;
  };
  const alone = await answer(makePrompt(1));
  const beside = answer(makePrompt(1));
  // Long prompts arrive one after the other while the answer is written.
  const prompts = [2, 3, 4, 5, 6].map((seed) =>
    Array.from({ length: 9 }, () => makePrompt(seed)).flat()
  );
  for (const prompt of prompts) await generate(engine, { tokens: prompt, maxTokens: 2 });
  const others = prompts.map(answer);
  assert.deepEqual(await beside, alone);
  await Promise.all(others);
  await decoder.dispose();
  await backend.dispose();
});

for (const dtype of ["q4", "q4f16", "fp32", "fp16"] as const) {
  Deno.test(`with --batch-invariant an answer in ${dtype} on the CPU is the same alone and together with nine others`, async () => {
    const backend = await CpuBackend.open({ threads: 2 });
    await using copy = await copyChatModel(
      undefined,
      dtype.startsWith("q4") ? dtype as ChatDtype : undefined,
    );
    const engine = { prefixCache: false, batchInvariant: true };
    const context = makeContext(await openFolder(copy.path), { backend, dtype, engine });
    const { decoder } = await loadDecoder(context);
    const loop = new EngineLoop(decoder, { prefixCache: false });
    // Also with prompts of several steps, which are divided differently in a batch.
    const answer = async (seed: number) => {
      const tokens = Array.from({ length: 12 }, () => makePrompt(seed)).flat();
      const request = { tokens: tokens.slice(0, 6 + 7 * seed), maxTokens: 12, topLogprobs: 2 };
      return (await generate(loop, request)).tokens;
    };
    const seeds = Array.from({ length: 10 }, (_, i) => i);
    const alone = await Array.fromAsync(seeds, answer);
    assert.deepEqual(await Promise.all(seeds.map(answer)), alone);
    const late = seeds.map(async (seed) => {
      await new Promise((resolve) => setTimeout(resolve, 7 * seed));
      return await answer(seed);
    });
    assert.deepEqual(await Promise.all(late), alone);
    await decoder.dispose();
    await backend.dispose();
  });
}

Deno.test("hearth inspect lists the segments that the CPU's kernels run, and the reasons for the others", async () => {
  const inspected = async ({ path }: ModelFolder) => {
    const file = join(path, "onnx/model_q4.onnx");
    const { code, stdout } = await runHearth(["inspect", file]);
    assert.equal(code, 0);
    return stdout.match(/^ {4}CPU .*$/gm);
  };
  const lines = Array(LAYERS + 1).fill(
    "    CPU  Hearth's kernels for up to 6 decoding sequences, ONNX Runtime for other steps",
  );
  await using plain = await copyChatModel();
  assert.deepEqual(await inspected(plain), lines);
  await using other = await editChatModel(
    "q4",
    (node) => node.opType === "Sigmoid" ? { ...node, opType: "Softsign" } : node,
  );
  const [, second] = (await inspected(other))!;
  assert.match(second!, /CPU {2}ONNX Runtime, always\. It has no kernel for Softsign /);
});
