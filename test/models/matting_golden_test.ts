/** Background removal agrees with independent references and true alphas, on both backends. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { WebGpuImages } from "../../src/device/webgpu/media.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import { identifyFamily } from "../../src/models/matting/matting_family.ts";
import {
  IMAGES,
  inspectMatting,
  MASKS,
  unifyMatting,
} from "../../src/models/matting/matting_graph.ts";
import { FolderFiles } from "../../src/graph/file/external_data.ts";
import { Tensor } from "../../src/device/ort/ort.ts";
import { readModel } from "../../src/graph/file/proto_read.ts";
import { cpuTest } from "../fixtures/engine/cpu.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import {
  alphaOfFile,
  compareAlpha,
  DRAWINGS,
  imageGpuTest,
  imageTest,
  matte,
} from "../fixtures/images/matting.ts";
import { openModel } from "../fixtures/engine/model.ts";

const DEMO = findModelFolder("hearth-demo-matting")!;
const SELFIE = findModelFolder("selfie-segmentation");

interface DemoGolden {
  readonly points: readonly (readonly [y: number, x: number])[];
  readonly alphas: readonly number[];
  readonly mean: number;
}

/** Runs the built-in graph on the input of its golden values, and compares. */
async function assertDemoGolden(
  backend: Backend,
  file: string,
  tolerance: number,
): Promise<void> {
  const golden: DemoGolden = JSON.parse(await Deno.readTextFile(`${DEMO}/golden.json`));
  await using files = new FolderFiles(join(DEMO, "onnx"));
  const model = await readModel(files, file);
  const graph = inspectMatting(model, { family: identifyFamily({}), outputName: undefined });
  assert.deepEqual([graph.values, graph.takesBatches], ["probabilities", true]);
  const form = { isLogits: false, stretches: false };
  const session = await backend.openModel(unifyMatting(model, graph, form), files);
  const input = Float32Array.from({ length: 3 * 256 * 256 }, (_, i) => {
    const [c, y, x] = [i >> 16, i >> 8 & 255, i & 255];
    return Math.sin(0.031 * (x + 1) * (c + 1)) * Math.cos(0.017 * (y + 1));
  });
  const feeds = { [IMAGES]: new Tensor("float32", input, [1, 3, 256, 256]) };
  const masks = (await session.run(feeds))[MASKS]!;
  const alphas = await backend.read(masks);
  golden.points.forEach(([y, x], i) => {
    const error = Math.abs(alphas[256 * y + x]! - golden.alphas[i]!);
    assert.ok(error <= tolerance, `${alphas[256 * y + x]} where ${golden.alphas[i]} is right`);
  });
  const mean = alphas.reduce((sum, alpha) => sum + alpha, 0) / alphas.length;
  assert.ok(Math.abs(mean - golden.mean) <= tolerance / 4);
  masks.dispose();
  await session.release();
}

interface DemoImage {
  readonly file: string;
  readonly alpha: string;
  readonly iou: number;
  readonly mae: number;
}

/**
 * Allowed difference from the published figures, which were measured with Pillow's filters and another JPEG decoder.
 */
const SLACK = 0.002;

async function assertDemoImages(backend: Backend, only?: readonly string[]): Promise<void> {
  const { images } = JSON.parse(await Deno.readTextFile(`${DRAWINGS}/golden.json`));
  await using model = await openModel(DEMO, { backend });
  for (const { file, alpha, iou, mae } of images as DemoImage[]) {
    if (only?.includes(file) === false) continue;
    const { png } = await matte(model, await Deno.readFile(`${DRAWINGS}/${file}`));
    const want = await alphaOfFile(await Deno.readFile(`${DRAWINGS}/${alpha}`));
    const got = compareAlpha(await alphaOfFile(png), want);
    assert.ok(got.iou >= iou - SLACK, `${file}: IoU ${got.iou}, ${iou} wanted`);
    assert.ok(got.mae <= mae + SLACK, `${file}: error ${got.mae}, ${mae} wanted`);
  }
}

/** The model card's values by image. */
const CARD: Readonly<Record<string, number>> = {
  "animal-1": 0.676,
  "car-1": 0.270,
  "girl-1": 0.897,
  "girl-2": 0.796,
  "girl-3": 0.526,
};

interface SelfieCase {
  readonly name: string;
  readonly person: boolean;
  readonly iou_with_rembg: number;
  readonly output: { readonly index: readonly number[]; readonly value: readonly number[] };
}

async function readSelfieCases(): Promise<readonly SelfieCase[]> {
  return JSON.parse(await Deno.readTextFile(`${SELFIE}/golden.json`)).cases;
}

/** Compares the masks of images of the model's own size, where nothing is resized. */
async function assertSelfieGolden(folder: string, backend: Backend, only?: number): Promise<void> {
  await using model = await openModel(SELFIE!, { backend });
  for (const { name, output } of (await readSelfieCases()).slice(0, only)) {
    const image = await Deno.readFile(`${folder}/${name}.256.png`);
    const { data } = await alphaOfFile((await matte(model, image, { maskOnly: true })).png);
    output.index.forEach((at, i) => {
      const error = Math.abs(data[at]! / 255 - output.value[i]!);
      // Half a level of rounding, plus the error of float32 in a steep sigmoid.
      assert.ok(error <= 0.5 / 255 + 0.004, `${name}: ${data[at]! / 255}, ${output.value[i]}`);
    });
  }
}

cpuTest("the built-in model's graphs equal their golden values on the CPU", async (backend) => {
  await assertDemoGolden(backend, "model.onnx", 2e-5);
  await assertDemoGolden(backend, "model_fp16.onnx", 0.02);
});

gpuTest("the built-in model's graphs equal their golden values on WebGPU", async (gpu) => {
  const backend = await WebGpuBackend.create(gpu);
  await assertDemoGolden(backend, "model.onnx", 2e-4);
  await assertDemoGolden(backend, "model_fp16.onnx", 0.02);
});

Deno.test("drawings have the reference's alpha, on the CPU", async () => {
  await assertDemoImages(new CpuBackend());
});

/** A backend that processes images on the device, even on a software adapter. */
async function openWholly(gpu: GpuContext): Promise<Backend> {
  const backend = await WebGpuBackend.create(gpu);
  backend.openImages = () => WebGpuImages.create(gpu, { takesImages: true });
  return backend;
}

gpuTest("drawings have the reference's alpha, on WebGPU", async (gpu) => {
  await assertDemoImages(await openWholly(gpu), ["demo-b.png", "demo-e.jpg"]);
  await assertDemoImages(await WebGpuBackend.create(gpu), ["demo-f.png"]);
});

imageTest(
  "photographs are cut out as accurately as the built-in model's card says",
  async (folder) => {
    await using model = await openModel(DEMO);
    for (const [name, iou] of Object.entries(CARD)) {
      const { png } = await matte(model, await Deno.readFile(`${folder}/${name}.jpg`));
      const want = await alphaOfFile(await Deno.readFile(`${folder}/${name}.out.png`));
      const got = compareAlpha(await alphaOfFile(png), want);
      assert.ok(got.iou >= iou - SLACK, `${name}: IoU ${got.iou}, ${iou} wanted`);
    }
  },
);

Deno.test("refine brings alphas closer to the true ones", async () => {
  const { images } = JSON.parse(await Deno.readTextFile(`${DRAWINGS}/golden.json`));
  await using model = await openModel(DEMO);
  const errors = { plain: 0, refined: 0 };
  for (const { file, alpha } of images as DemoImage[]) {
    const image = await Deno.readFile(`${DRAWINGS}/${file}`);
    const want = await alphaOfFile(await Deno.readFile(`${DRAWINGS}/${alpha}`));
    const agreement = async (refine: boolean) =>
      compareAlpha(await alphaOfFile((await matte(model, image.slice(), { refine })).png), want);
    const [plain, refined] = [await agreement(false), await agreement(true)];
    assert.ok(refined.iou > plain.iou - 0.003, `${file}: IoU ${refined.iou} after ${plain.iou}`);
    assert.ok(refined.mae < plain.mae, `${file}: error ${refined.mae} after ${plain.mae}`);
    errors.plain += plain.mae;
    errors.refined += refined.mae;
  }
  assert.ok(errors.refined < 0.95 * errors.plain);
});

imageTest("selfie segmentation reaches its golden values and overlaps", async (folder) => {
  await assertSelfieGolden(folder, new CpuBackend());
  await using model = await openModel(SELFIE!);
  for (const { name, person, iou_with_rembg: iou } of await readSelfieCases()) {
    if (!person) continue;
    const { png } = await matte(model, await Deno.readFile(`${folder}/${name}.jpg`));
    const want = await alphaOfFile(await Deno.readFile(`${folder}/${name}.out.png`));
    const got = compareAlpha(await alphaOfFile(png), want);
    // The golden figures were measured without antialiasing. Hearth uses it, as the folder's
    // processor says.
    assert.ok(got.iou >= iou - 0.01, `${name}: IoU ${got.iou}, ${iou} wanted`);
  }
}, { ignore: SELFIE === undefined });

imageGpuTest("selfie segmentation reaches its golden values on WebGPU", async (folder, gpu) => {
  await assertSelfieGolden(folder, await openWholly(gpu), 1);
}, { ignore: SELFIE === undefined });
