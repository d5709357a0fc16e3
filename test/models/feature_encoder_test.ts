/** An audio encoder cut at its attentions equals the whole graph. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { openFeatureEncoder } from "../../src/models/asr/whisper_load.ts";
import { FolderFiles } from "../../src/graph/file/external_data.ts";
import { openSession, Tensor } from "../../src/device/ort/ort.ts";
import { readModel } from "../../src/graph/file/proto_read.ts";
import { cutFeatures } from "../../src/graph/cut/cut_features.ts";
import { disguiseSoftmax } from "../fixtures/graphs/disguised_softmax.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { makeNormal } from "../kernels/exact_sampling.ts";

const EXPORTS = fileURLToPath(new URL("../fixtures/graphs/exports", import.meta.url));
const [MELS, FRAMES, PLACES, WIDTH] = [8, 24, 12, 16];
const [INPUT, OUTPUT] = ["input_features", "last_hidden_state"];
const OPTIONS = { maxInputs: 3, maxWholeInputs: 2 };
const TOLERANCE = 1e-4;

function makeFeatures(numInputs: number): Tensor {
  const normal = makeNormal(numInputs);
  const data = new Float32Array(numInputs * MELS * FRAMES).map(() => normal());
  return new Tensor("float32", data, [numInputs, MELS, FRAMES]);
}

async function assertSameAsWhole(backend: Backend, file: string): Promise<void> {
  const whole = await openSession(await Deno.readFile(`${EXPORTS}/${file}`));
  await using files = new FolderFiles(EXPORTS);
  const model = await readModel(files, file);
  assert.equal(cutFeatures(model, OUTPUT)?.attentions.length, 2);
  const encoder = await openFeatureEncoder(model, { backend, files, ...OPTIONS });
  // The native runtime runs the graph whole.
  const { maxInputs } = encoder;
  assert.equal(maxInputs, backend.runtime === "native" ? 1 : 3);
  for (const numInputs of [maxInputs, 1, 2]) {
    const features = makeFeatures(numInputs);
    const want = (await whole.run({ [INPUT]: features }))[OUTPUT]!.data as Float32Array;
    const hidden = await encoder.encode(features);
    assert.deepEqual(hidden.dims, [numInputs, PLACES, WIDTH]);
    const got = backend.kind === "cpu" ? hidden.data as Float32Array : await backend.read(hidden);
    want.forEach((x, i) => {
      assert.ok(Math.abs(got[i]! - x) <= TOLERANCE * (1 + Math.abs(x)), `${i}: ${got[i]} for ${x}`);
    });
    hidden.dispose();
  }
  await encoder.release();
}

for (const attention of ["sdpa", "eager"]) {
  const name = `openFeatureEncoder() returns the whole graph's output, ${attention}`;
  const file = `whisper_encoder_${attention}_17.onnx`;
  for (const choice of ["native", "web"] as const) {
    Deno.test(`${name}, on the CPU, ${choice}`, () =>
      assertSameAsWhole(new CpuBackend({ choice }), file));
  }
  gpuTest(`${name}, on WebGPU`, async (gpu) => {
    await assertSameAsWhole(await WebGpuBackend.create(gpu), file);
  });
}

Deno.test("openFeatureEncoder() runs graphs whole that it cannot cut, with fewer inputs at a time", async () => {
  const folder = await Deno.makeTempDir();
  const file = "whisper_encoder_sdpa_17.onnx";
  const bytes = await Deno.readFile(`${EXPORTS}/${file}`);
  await Deno.writeFile(`${folder}/${file}`, disguiseSoftmax(bytes));
  await using files = new FolderFiles(folder);
  const model = await readModel(files, file);
  assert.equal(cutFeatures(model, OUTPUT), undefined);
  const backend = new CpuBackend({ choice: "web" });
  const encoder = await openFeatureEncoder(model, { backend, files, ...OPTIONS });
  assert.equal(encoder.maxInputs, 2);
  const features = makeFeatures(2);
  const whole = await openSession(bytes);
  const want = (await whole.run({ [INPUT]: features }))[OUTPUT]!;
  const got = await encoder.encode(features);
  (want.data as Float32Array).forEach((x, i) => {
    assert.ok(Math.abs((got.data as Float32Array)[i]! - x) < TOLERANCE);
  });
  await encoder.release();
  await Deno.remove(folder, { recursive: true });
});
