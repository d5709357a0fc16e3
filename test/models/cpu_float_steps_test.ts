/** Decoders with weights in f32 give the same answers on the CPU in our kernels and in ONNX Runtime. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import type { SampledToken } from "../../src/decoder/decoder.ts";
import type { EncoderDecoder } from "../../src/decoder/encoder_decoder.ts";
import { type KernelRule, WITHOUT_KERNELS } from "../../src/decoder/kernel_rule.ts";
import { openEncoderDecoder as openDecoder } from "../../src/decoder/open_encoder_decoder.ts";
import { PagedDecoder } from "../../src/decoder/paged_decoder.ts";
import { EngineLoop } from "../../src/engine/loop.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { loadDecoder } from "../../src/models/folder/decoder_load.ts";
import { divideMerged } from "../../src/graph/cut/merged_decoder.ts";
import { FolderFiles } from "../../src/graph/file/external_data.ts";
import { readModel } from "../../src/graph/file/proto_read.ts";
import { loadNative, Tensor } from "../../src/device/ort/ort.ts";
import { countCalls } from "../fixtures/engine/count_calls.ts";
import {
  type Encoded,
  makeEncoded,
  openEncoderDecoder,
  SPEECH,
} from "../fixtures/models/encoded_decoder.ts";
import { generate } from "../fixtures/engine/generate.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { buildMergedDecoder } from "../fixtures/graphs/merged_decoder_graph.ts";
import { makeContext } from "../fixtures/engine/open_folder.ts";
import { makePrompt, TIES, Ties } from "../fixtures/engine/small_steps.ts";
import { firstTokens } from "../fixtures/engine/steps.ts";

/** The class behind ONNX Runtime's factory. */
async function sessionClass(): Promise<Record<"run", (...args: never[]) => unknown>> {
  const { InferenceSession } = await loadNative();
  return (InferenceSession as unknown as { prototype: Awaited<ReturnType<typeof sessionClass>> })
    .prototype;
}

/** Number of session runs in a step of the given number of rows. */
async function countRuns(
  decoder: PagedDecoder | EncoderDecoder<Encoded>,
  { numRows, encoderInput, isDecoding = false }: {
    readonly numRows: number;
    readonly encoderInput?: object;
    readonly isDecoding?: boolean;
  },
): Promise<number> {
  const batch = firstTokens(numRows, decoder.limits, { isDecoding });
  const sequences = batch.sequences.map((sequence) => ({ ...sequence, encoderInput }));
  using runs = countCalls(await sessionClass(), "run");
  await decoder.run({ ...batch, sequences });
  return runs.count;
}

const SEEDS = Array.from({ length: 8 }, (_, seed) => seed);
/**
 * Two layers, each with an attention to its own tokens and one to the sound, plus the last segment and the embeddings.
 */
const SEGMENTS = 6;

Deno.test("a step of a small speech decoder runs one session, otherwise our kernels, and writes the same tokens as ONNX Runtime", async () => {
  const backend = await CpuBackend.open({ threads: 2 });
  const folder = findModelFolder("hearth-demo-asr")!;
  const speech = { ...SPEECH, dtype: "fp32" } as const;
  const windows = SEEDS.map((seed) => makeEncoded(seed + 1, SPEECH));
  const ties = new Ties(TIES.fp32);
  const written: (readonly SampledToken[])[][] = [];
  for (const [rule, numRuns] of [[WITHOUT_KERNELS, SEGMENTS], [undefined, 1]] as const) {
    const decoder = await openEncoderDecoder(backend, folder, { ...speech, ...rule && { rule } });
    const engine = new EngineLoop(decoder, { prefixCache: false });
    const write = async (seed: number) =>
      (await generate(engine, {
        tokens: makePrompt(seed),
        maxTokens: 16,
        topLogprobs: 2,
        encoderInput: windows[seed]!,
      })).tokens;
    // Eight prompts are 48 rows, more than the kernels process at a time.
    const together = await Promise.all(SEEDS.map(write));
    ties.compare(await write(3), together[3]!);
    written.push(together);
    for (const numRows of [1, 8, 20]) {
      assert.equal(await countRuns(decoder, { numRows, encoderInput: windows[0]! }), numRuns);
    }
    await decoder.dispose();
  }
  const [wanted, got] = written as [SampledToken[][], SampledToken[][]];
  got.forEach((tokens, i) => ties.compare(tokens, wanted[i]!));
  ties.requireAtMost(1);
  await backend.dispose();
});

const small = findModelFolder("stories260k-llama");
Deno.test("a step of few tokens of a small chat model in f32 runs only in our kernels", {
  ignore: small === undefined,
}, async () => {
  const backend = await CpuBackend.open({ threads: 2 });
  const folder = await openFolder(small!);
  const context = makeContext(folder, { backend, dtype: "fp32", engine: { prefixCache: false } });
  const open = async (rule?: KernelRule) => {
    const { decoder } = await loadDecoder({ ...context, ...rule && { rule } });
    assert.ok(decoder instanceof PagedDecoder);
    const engine = new EngineLoop(decoder, { prefixCache: false });
    const answer = async (seed: number) => {
      const request = { tokens: makePrompt(seed), maxTokens: 24, topLogprobs: 2 };
      return (await generate(engine, request)).tokens;
    };
    return { decoder, answer };
  };
  const [ours, ort] = [await open(), await open(WITHOUT_KERNELS)];
  const wanted = await Promise.all(SEEDS.map(ort.answer));
  assert.equal(await countRuns(ours.decoder, { numRows: 4, isDecoding: true }), 0);
  const ties = new Ties(TIES.fp32);
  for (const seed of SEEDS) ties.compare(await ours.answer(seed), wanted[seed]!);
  (await Promise.all(SEEDS.map(ours.answer))).forEach((got, i) => ties.compare(got, wanted[i]!));
  ties.requireAtMost(1);
  await ours.decoder.dispose();
  await ort.decoder.dispose();
  await backend.dispose();
});

Deno.test("a later segment of a decoder on the CPU may read values that the first computes only from positions", async () => {
  const backend = await CpuBackend.open({ threads: 2 });
  const folder = await Deno.makeTempDir();
  const script = [7, 11, 5, 23, 19, 3, 17, 2];
  const sizes = { layers: 2, heads: 2, width: 64, vocab: 53, positions: 40 };
  await Deno.writeFile(
    join(folder, "model.onnx"),
    buildMergedDecoder({ ...sizes, seed: 3, takesEmbeddings: false, script }),
  );
  await using files = new FolderFiles(folder);
  const parts = divideMerged(await readModel(files, "model.onnx"))!;
  const decoder = await openDecoder<Encoded>(parts, {
    ...{ backend, files, contextLength: 32, numPositions: 12, maxSequences: 2 },
    encoder: {
      maxInputs: 1,
      encode: ([input]) => Promise.resolve(new Tensor("float32", input!.hidden, [1, 12, 64])),
    },
  });
  assert.ok(!("refused" in decoder));
  const engine = new EngineLoop(decoder, { prefixCache: false });
  const encoderInput = makeEncoded(1, { kind: "asr", vocabSize: 53, numPositions: 12, width: 64 });
  const { ids } = await generate(engine, { tokens: [1, 4], maxTokens: 7, encoderInput });
  // The token depends only on the position.
  assert.deepEqual(ids, script.slice(1));
  assert.equal(await countRuns(decoder, { numRows: 2, encoderInput }), 1);
  await decoder.dispose();
  await backend.dispose();
  await Deno.remove(folder, { recursive: true });
});
