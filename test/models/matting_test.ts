/** Background removal of images of every size, concurrent and cancelled. */
import assert from "node:assert/strict";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { WebGpuImages } from "../../src/device/webgpu/media.ts";
import { decodeImage } from "../../src/media/image.ts";
import { encodePng } from "../../src/media/image/png.ts";
import type { MattingModel } from "../../src/models/matting/matting.ts";
import { MattingBatcher, MattingNetwork } from "../../src/models/matting/matting_network.ts";
import { holdCalls } from "../fixtures/engine/count_calls.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { gpuTest, withLimits } from "../fixtures/engine/gpu.ts";
import {
  alphaOfFile,
  compareAlpha,
  discFile,
  discImage,
  matte,
} from "../fixtures/images/matting.ts";
import { IMAGES } from "../fixtures/images/images.ts";
import { openModel } from "../fixtures/engine/model.ts";
import { Random } from "../unit/engine/random.ts";

const DEMO = findModelFolder("hearth-demo-matting")!;
/** Difficult sizes for resizing and encoding. */
const SIZES = [[1, 1], [1, 300], [300, 1], [2, 3], [255, 257], [333, 77]] as const;

async function assertSizes(
  model: MattingModel,
  sizes: readonly (readonly [number, number])[] = SIZES,
): Promise<void> {
  for (const [width, height] of sizes) {
    const result = await matte(model, discFile(width, height));
    const pixels = await decodeImage(result.png);
    assert.deepEqual([pixels.width, pixels.height], [width, height]);
  }
}

Deno.test("MattingModel returns an image in its own size, on the CPU", async () => {
  await using model = await openModel(DEMO);
  await assertSizes(model as unknown as MattingModel);
});

gpuTest("MattingModel returns an image in its own size, on WebGPU", async (gpu) => {
  const backend = await WebGpuBackend.create(gpu);
  backend.openImages = () => WebGpuImages.create(gpu, { takesImages: true });
  await using model = await openModel(DEMO, { backend });
  await assertSizes(model as unknown as MattingModel, [[1, 1], [255, 257], [1, 300]]);
});

Deno.test("MattingModel turns images upright, and accepts PNG, BMP, TIFF, JPEG, WebP and GIF", async () => {
  await using model = await openModel(DEMO);
  const turned = IMAGES.filter(({ name }) => /orientation [168]$/.test(name));
  const formats = ["png", "bmp", "tiff", "jpeg", "webp", "gif"].map((format) =>
    IMAGES.find(({ name }) => name.startsWith(`${format} `))!
  );
  assert.ok(turned.length >= 9);
  for (const { name, file, width, height } of [...turned, ...formats]) {
    const { png } = await matte(model, file.slice());
    const cut = await decodeImage(png);
    assert.deepEqual([cut.width, cut.height], [width, height], name);
  }
});

Deno.test("MattingModel cuts out 48 megapixels with two threads", async () => {
  await using model = await openModel(DEMO, { cpuThreads: 2 });
  const [width, height] = [8000, 6000];
  const small = discImage(80, 60);
  const data = new Uint8Array(3 * width * height);
  for (let y = 0; y < height; y++) {
    const row = y * width * 3;
    if (y % 100 > 0) {
      data.copyWithin(row, row - 3 * width, row);
      continue;
    }
    for (let x = 0; x < width; x++) {
      const from = 3 * (Math.floor(y / 100) * 80 + Math.floor(x / 100));
      for (let c = 0; c < 3; c++) data[row + 3 * x + c] = small.data[from + c]!;
    }
  }
  const file = encodePng({ width, height, channels: 3, data });
  const { png } = await matte(model, file);
  const cut = await decodeImage(png);
  assert.deepEqual([cut.width, cut.height, cut.channels], [width, height, 4]);
  const alphaAt = (x: number, y: number) => cut.data[4 * (y * width + x) + 3]!;
  assert.ok(alphaAt(4000, 3000) > 200);
  assert.ok(alphaAt(100, 100) < 20 && alphaAt(7900, 5900) < 20);
  for (let i = 0; i < 1000; i++) {
    const at = i * 47_963;
    const isSeen = cut.data[4 * at + 3] !== 0;
    assert.equal(cut.data[4 * at + 1], isSeen ? data[3 * at + 1] : 0);
  }
});

gpuTest(
  "WebGpuImages leaves images that exceed a binding of the device to the CPU",
  async (gpu) => {
    const backend = await WebGpuBackend.create(gpu);
    const small = withLimits(gpu, { maxStorageBufferBindingSize: 20_000 });
    backend.openImages = () => WebGpuImages.create(small, { takesImages: true });
    await using model = await openModel(DEMO, { backend });
    await using whole = await openModel(DEMO, { backend: new CpuBackend() });
    // The first image exceeds a binding, the second only between two shaders, the third never.
    for (const [width, height] of [[100, 90], [10, 200], [40, 30]] as const) {
      const file = discFile(width, height);
      const got = await alphaOfFile((await matte(model, file.slice())).png);
      const want = await alphaOfFile((await matte(whole, file)).png);
      assert.ok(compareAlpha(got, want).mae < 0.002);
    }
  },
);

Deno.test("MattingModel gives concurrent images the same results as each alone", async () => {
  await using model = await openModel(DEMO);
  const files = await Promise.all(
    [[64, 48], [100, 100], [31, 77], [200, 20], [48, 64], [90, 91], [64, 64]].map((
      [width, height],
    ) => discFile(width, height)),
  );
  // The first run waits until all images are read.
  using _held = holdCalls([MattingNetwork.prototype, "run"], {
    awaited: [MattingBatcher.prototype, "mask"],
    count: files.length,
  });
  const together = await Promise.all(files.map((file) => matte(model, file.slice())));
  for (const [index, file] of files.entries()) {
    const [got, want] = [together[index]!.png, (await matte(model, file)).png];
    const [alphas, alone] = [await alphaOfFile(got), await alphaOfFile(want)];
    // Products of a batch may be summed in another order.
    assert.ok(alphas.data.every((alpha, i) => Math.abs(alpha - alone.data[i]!) <= 1));
  }
  const text = await model.metrics.metrics();
  const makeValue = (part: string) =>
    Number(new RegExp(`^hearth_batch_images${part} (\\d+)$`, "m").exec(text)![1]);
  assert.equal(makeValue("_sum"), 2 * files.length);
  assert.ok(makeValue("_count") < 2 * files.length, "no two images shared a batch");
});

Deno.test("MattingModel emits nothing for cancelled requests, and continues", async () => {
  await using model = await openModel(DEMO);
  const random = new Random(9);
  const events: string[] = [];
  for (let i = 0; i < 30; i++) {
    const image = discFile(120, 80);
    const task = { type: "matte", requestId: `${i}`, image, param: "image", options: {} } as const;
    const end = model.start(task, (event) => {
      events.push(`${i} ${event.type}`);
      return Promise.resolve();
    });
    if (i % 3 === 0) await new Promise((resolve) => setTimeout(resolve, random.between(0, 60)));
    const before = events.length;
    end();
    await Promise.resolve();
    assert.equal(events.length, before);
  }
  const told = events.length;
  const { png } = await matte(model, discFile());
  assert.equal((await decodeImage(png)).channels, 4);
  assert.equal(events.length, told);
  const figures = await model.metrics.metrics();
  assert.match(figures, /^hearth_sequences_running 0$/m);
  assert.match(figures, /^hearth_sequences_waiting 0$/m);
});
