/** Chatterbox's language model in engine requests, compared with a loop over its graphs. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { SpeechTokenGenerator } from "../../src/models/tts/speech_token_generator.ts";
import { Tensor, type Tensors } from "../../src/device/ort/ort.ts";
import { cpuTest } from "../fixtures/engine/cpu.ts";
import { gpuTest, openTestDevice } from "../fixtures/engine/gpu.ts";
import { makeContext } from "../fixtures/engine/open_folder.ts";
import { makeTinyTts } from "../fixtures/models/tiny_tts.ts";
import { plainDecoder } from "../fixtures/models/vision/vision_decoder.ts";

const VOCAB = 6_564;
const WIDTH = 16;
const SIZES = { hidden: WIDTH, heads: 2, headDim: 16, kvHeads: 1, layers: 2, vocab: VOCAB };
const LANGUAGE_MODEL = plainDecoder({
  decoder: SIZES,
  vision: { layers: 1, width: 1, heads: 1 },
  contextLength: 2_400,
});
const RULES = {
  // Enough end tokens that a sound has a few dozen tokens.
  endTokens: Array.from({ length: 220 }, (_, i) => 30 * i),
  repetitionPenalty: 1.2,
};
const [LIVELY, BEGIN] = [6_563, 6_561];
const TEXTS = [[20, 3, 4, 5], [7, 8, 9, 10, 11, 12, 13], [1]]
  .map((text) => [LIVELY, ...text, BEGIN, BEGIN]);
const PREFIX = {
  values: Float32Array.from({ length: 6 * WIDTH }, (_, i) => Math.sin(i)),
  dims: [1, 6, WIDTH],
};

/** Like transformers.js: the whole prefix in one run, then one token at a time. */
async function loop(folder: string, text: readonly number[]): Promise<number[]> {
  const backend = new CpuBackend();
  const open = async (name: string) =>
    await backend.openSession(await Deno.readFile(join(folder, "onnx", `${name}.onnx`)));
  const [embedder, decoder] = [await open("embed_tokens"), await open("language_model")];
  const int64 = (values: readonly number[], dims = [1, values.length]) =>
    new Tensor("int64", BigInt64Array.from(values, BigInt), dims);
  const embed = async (ids: readonly number[], positions: readonly number[]) => {
    const outputs = await embedder.run({
      input_ids: int64(ids),
      position_ids: int64(positions),
      exaggeration: new Tensor("float32", Float32Array.of(0.5), [1]),
    });
    return outputs["inputs_embeds"]!.data as Float32Array;
  };
  let place = 0;
  const own = await embed(text, text.map((id) => id >= BEGIN ? 0 : place++));
  let rows = Float32Array.of(...PREFIX.values, ...own);
  let cache: Record<string, Tensor> = Object.fromEntries(
    decoder.inputs.filter(({ name }) => name.startsWith("past")).map(({ name }) => [
      name,
      new Tensor("float32", new Float32Array(0), [1, SIZES.kvHeads, 0, SIZES.headDim]),
    ]),
  );
  const seen = new Set(text);
  const written: number[] = [];
  for (let length = 0;;) {
    const numNew = rows.length / WIDTH;
    const feeds: Tensors = {
      ...cache,
      inputs_embeds: new Tensor("float32", rows, [1, numNew, WIDTH]),
      position_ids: int64(Array.from({ length: numNew }, (_, i) => length + i)),
      attention_mask: int64(new Array(length += numNew).fill(1)),
    };
    const outputs = await decoder.run(feeds);
    cache = Object.fromEntries(
      Object.keys(cache).map((
        name,
      ) => [name, outputs[name.replace("past_key_values", "present")]!]),
    );
    const logits = (outputs["logits"]!.data as Float32Array).slice(-VOCAB);
    for (const id of seen) logits[id]! *= logits[id]! < 0 ? 1.2 : 1 / 1.2;
    const token = logits.indexOf(logits.reduce((most, logit) => Math.max(most, logit)));
    if (RULES.endTokens.includes(token)) break;
    seen.add(token);
    written.push(token);
    rows = await embed([token], [written.length]) as Float32Array<ArrayBuffer>;
  }
  for (const session of [embedder, decoder]) await session.release();
  return written;
}

async function compare(backend: Backend): Promise<void> {
  await using tiny = await makeTinyTts("chatterbox", {
    changes: { "onnx/language_model.onnx": LANGUAGE_MODEL },
  });
  const folder = await openFolder(tiny.folder);
  const generator = await SpeechTokenGenerator.open(makeContext(folder, { backend }), RULES);
  const { signal } = new AbortController();
  try {
    const alone: number[][] = [];
    for (const text of TEXTS) {
      alone.push(await generator.generate(text, { prefix: PREFIX, signal }));
    }
    const together = await Promise.all(
      TEXTS.map((text) => generator.generate(text, { prefix: PREFIX, signal })),
    );
    assert.deepEqual(together, alone);
    for (const [i, text] of TEXTS.entries()) {
      assert.deepEqual(alone[i], await loop(tiny.folder, text));
    }
    assert.ok(
      alone.some(({ length }) => length > 5),
      `${alone.map(({ length }) => length)} tokens`,
    );
  } finally {
    await generator.dispose();
  }
}

cpuTest(
  "SpeechTokenGenerator equals a loop over the graphs, alone and together",
  compare,
);

gpuTest("SpeechTokenGenerator equals a loop over the graphs, on WebGPU", async () => {
  const backend = await WebGpuBackend.create(await openTestDevice());
  try {
    await compare(backend);
  } finally {
    backend.dispose();
  }
});
