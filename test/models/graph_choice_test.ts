/** The download and the loaders choose the same graphs of a folder. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import type { Dtype } from "../../src/base/config.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { identifyFamily } from "../../src/models/load/identify_family.ts";
import { loadModel } from "../../src/models/load/load.ts";
import { chooseFiles } from "../../src/models/load/choose_files.ts";
import { makeTinyOcr } from "../fixtures/models/tiny_ocr.ts";
import { makeTinySpeech } from "../fixtures/models/tiny_speech.ts";
import { makeVisionFolder } from "../fixtures/models/vision/vision_folder.ts";

/** Copies a folder's graphs under the names of other dtypes. */
async function addDtypes(folder: string, suffixes: Readonly<Record<string, readonly string[]>>) {
  for (const [graph, list] of Object.entries(suffixes)) {
    const path = join(folder, "onnx", graph);
    for (const suffix of list) await Deno.copyFile(`${path}.onnx`, `${path}${suffix}.onnx`);
  }
}

/** The downloaded and the loaded graphs. */
async function getGraphs(path: string, dtype?: Dtype): Promise<[string[], string[]]> {
  const folder = await openFolder(path);
  const { kind } = identifyFamily(folder);
  const { graphs } = chooseFiles(folder, { device: "cpu", dtype });
  const loaded = new Set<string>();
  const model = await loadModel({
    model: { id: "tiny", aliases: [], ownedBy: "test", folder: path },
    dtype,
    kind,
    engine: { prefixCache: true },
    backend: new CpuBackend(),
    onProgress: ({ what }) => {
      for (const [graph] of what.matchAll(/onnx\/\w+\.onnx/g)) loaded.add(graph);
    },
  });
  await model.dispose();
  return [[...graphs].sort(), [...loaded].sort()];
}

Deno.test("the downloaded graphs of Florence-2 are the loaded ones, in any dtype", async () => {
  await using tiny = await makeTinyOcr("florence");
  // The other graphs also exist in a dtype that the decoder lacks.
  await addDtypes(tiny.folder, {
    decoder_model_merged: ["_q4"],
    encoder_model: ["_q4", "_quantized"],
    vision_encoder: ["_quantized"],
    embed_tokens: [],
  });
  const [downloaded, loaded] = await getGraphs(tiny.folder);
  assert.deepEqual(loaded, downloaded);
  assert.deepEqual(downloaded, [
    "onnx/decoder_model_merged_q4.onnx",
    "onnx/embed_tokens.onnx",
    "onnx/encoder_model_q4.onnx",
    "onnx/vision_encoder_quantized.onnx",
  ]);
  const [asked, opened] = await getGraphs(tiny.folder, "fp32");
  assert.deepEqual(opened, asked);
});

Deno.test("the downloaded graphs of a vision model are the loaded ones", async () => {
  await using folder = await makeVisionFolder("llava_qwen2");
  await addDtypes(folder.path, {
    decoder_model_merged: ["_q4"],
    embed_tokens: ["_quantized"],
    vision_encoder: ["_q4", "_quantized"],
  });
  const [downloaded, loaded] = await getGraphs(folder.path);
  assert.deepEqual(loaded, downloaded);
  assert.ok(downloaded.includes("onnx/vision_encoder_q4.onnx"));
});

Deno.test("the downloaded graphs of a speech model are the loaded ones", async () => {
  await using tiny = await makeTinySpeech("moonshine");
  await addDtypes(tiny.folder, {
    decoder_model_merged: ["_q4"],
    encoder_model: ["_q4", "_quantized"],
  });
  const [downloaded, loaded] = await getGraphs(tiny.folder);
  assert.deepEqual(loaded, downloaded);
  assert.deepEqual(downloaded, [
    "onnx/decoder_model_merged_q4.onnx",
    "onnx/encoder_model_q4.onnx",
  ]);
});
