/** Decoders with weights in f32 run on the CPU in our kernels or in ONNX Runtime, whichever is faster, and answer alike. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { CpuBackend } from "../../src/backend/cpu.ts";
import { CpuSegments } from "../../src/backend/cpu_segments.ts";
import { firstTokens } from "../../src/decoder/crossover.ts";
import type { EncoderDecoder } from "../../src/decoder/encoder_decoder.ts";
import { openEncoderDecoder as openDecoder } from "../../src/decoder/open_encoder_decoder.ts";
import { PagedDecoder } from "../../src/decoder/paged_decoder.ts";
import { EngineLoop } from "../../src/engine/loop.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { loadDecoder } from "../../src/models/decoder_load.ts";
import { divideMerged } from "../../src/onnx/cut/merged_decoder.ts";
import { FolderFiles } from "../../src/onnx/file/external_data.ts";
import { readModel } from "../../src/onnx/file/proto_read.ts";
import { loadNative, Tensor } from "../../src/onnx/runtime/ort.ts";
import { countCalls } from "../fixtures/count_calls.ts";
import {
  type Encoded,
  encodedOf,
  openEncoderDecoder,
  SPEECH,
} from "../fixtures/encoded_decoder.ts";
import { generate } from "../fixtures/generate.ts";
import { findModelFolder } from "../fixtures/goldens.ts";
import { buildMergedDecoder } from "../fixtures/merged_decoder_graph.ts";
import { contextOf } from "../fixtures/open_folder.ts";
import { promptOf, TIES, Ties } from "../fixtures/small_steps.ts";

/** A method whose calls take 5 ms longer, until it is disposed of. */
function slowDown<Name extends string>(
  prototype: Record<Name, (...args: never[]) => unknown>,
  name: Name,
): Disposable {
  const method = prototype[name];
  const word = new Int32Array(new SharedArrayBuffer(4));
  prototype[name] = function (this: unknown, ...args) {
    Atomics.wait(word, 0, 0, 5);
    return method.apply(this, args);
  };
  return { [Symbol.dispose]: () => prototype[name] = method };
}

/** The class behind ONNX Runtime's factory. */
async function sessionClass(): Promise<Record<"run", (...args: never[]) => unknown>> {
  const { InferenceSession } = await loadNative();
  return (InferenceSession as unknown as { prototype: Awaited<ReturnType<typeof sessionClass>> })
    .prototype;
}

/** Runs of sessions that a step of so many rows takes. */
async function countRuns(
  decoder: PagedDecoder | EncoderDecoder<Encoded>,
  { numRows, encoderInput }: { readonly numRows: number; readonly encoderInput?: object },
): Promise<number> {
  const batch = firstTokens(numRows, decoder.limits);
  const sequences = batch.sequences.map((sequence) => ({ ...sequence, encoderInput }));
  using runs = countCalls(await sessionClass(), "run");
  await decoder.run({ ...batch, sequences });
  return runs.count;
}

const SEEDS = Array.from({ length: 8 }, (_, seed) => seed);
/** One of two layers, each with an attention to its own tokens and one to the sound, the last, and the embeddings. */
const SEGMENTS = 6;

for (const faster of ["our kernels", "ONNX Runtime"] as const) {
  Deno.test(`a decoder of speech runs in ${faster} alone where that is faster`, async () => {
    const backend = await CpuBackend.open({ threads: 2 });
    const folder = findModelFolder("hearth-demo-asr")!;
    const decoder = await openEncoderDecoder(backend, folder, { ...SPEECH, dtype: "fp32" });
    const engine = new EngineLoop(decoder, { prefixCache: false });
    const windows = SEEDS.map((seed) => encodedOf(seed + 1, SPEECH));
    const write = async (seed: number) =>
      (await generate(engine, {
        tokens: promptOf(seed),
        maxTokens: 16,
        topLogprobs: 2,
        encoderInput: windows[seed]!,
      })).tokens;
    decoder.limitCompiledRows(0);
    const wanted = await Promise.all(SEEDS.map(write));
    {
      using _ = faster === "our kernels"
        ? slowDown(await sessionClass(), "run")
        : slowDown(CpuSegments.prototype as never, "record");
      await decoder.calibrate();
    }
    const ties = new Ties(TIES.fp32);
    // Prompts of eight are 48 rows, more than the kernels take at a time.
    (await Promise.all(SEEDS.map(write))).forEach((got, i) => ties.compare(got, wanted[i]!));
    ties.compare(await write(3), wanted[3]!);
    ties.requireAtMost(1);
    const numRuns = faster === "our kernels" ? 1 : SEGMENTS;
    for (const numRows of [1, 8, 20]) {
      assert.equal(await countRuns(decoder, { numRows, encoderInput: windows[0]! }), numRuns);
    }
    await decoder.dispose();
    await backend.dispose();
  });
}

const small = findModelFolder("stories260k-llama");
Deno.test("a step of few tokens of a small chat model in f32 runs in our kernels alone", {
  ignore: small === undefined,
}, async () => {
  const backend = await CpuBackend.open({ threads: 2 });
  const folder = await openFolder(small!);
  const context = contextOf(folder, { backend, dtype: "fp32", engine: { prefixCache: false } });
  const { decoder } = await loadDecoder(context);
  assert.ok(decoder instanceof PagedDecoder);
  const engine = new EngineLoop(decoder, { prefixCache: false });
  const answer = async (seed: number) => {
    const request = { tokens: promptOf(seed), maxTokens: 24, topLogprobs: 2 };
    return (await generate(engine, request)).tokens;
  };
  decoder.limitCompiledRows(0);
  const wanted = await Promise.all(SEEDS.map(answer));
  decoder.limitCompiledRows(8);
  assert.equal(await countRuns(decoder, { numRows: 8 }), 0);
  const ties = new Ties(TIES.fp32);
  for (const seed of SEEDS) ties.compare(await answer(seed), wanted[seed]!);
  (await Promise.all(SEEDS.map(answer))).forEach((got, i) => ties.compare(got, wanted[i]!));
  ties.requireAtMost(1);
  await decoder.dispose();
  await backend.dispose();
});

Deno.test("a later segment of a decoder on the CPU may read what the first computes from positions alone", async () => {
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
  {
    using _ = slowDown(await sessionClass(), "run");
    await decoder.calibrate();
  }
  const engine = new EngineLoop(decoder, { prefixCache: false });
  const encoderInput = encodedOf(1, { kind: "asr", vocabSize: 53, numPositions: 12, width: 64 });
  const { ids } = await generate(engine, { tokens: [1, 4], maxTokens: 7, encoderInput });
  // Each position has its token, whatever came before.
  assert.deepEqual(ids, script.slice(1));
  assert.equal(await countRuns(decoder, { numRows: 2, encoderInput }), 1);
  await decoder.dispose();
  await backend.dispose();
  await Deno.remove(folder, { recursive: true });
});
