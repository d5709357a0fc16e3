import assert from "node:assert/strict";
import { assertSameValues } from "../fixtures/engine/compare_values.ts";
import { Buffer } from "node:buffer";
import { CompositeAlpha } from "../../kernels/images/image_kernels.ts";
import {
  compositeAlpha,
  compositeBands,
  type MaskFormat,
  weighAxis,
} from "../../kernels/images/image_reference.ts";
import { createBuffer, type GpuContext } from "../../src/gpu/device.ts";
import { Readback } from "../../src/gpu/readback.ts";
import type { Pixels } from "../../src/media/pixels.ts";
import { kernelTest } from "../fixtures/engine/gpu.ts";
import { upload } from "./tensors.ts";
import { Random } from "../unit/engine/random.ts";
import { noiseImage } from "./image_case.ts";

interface Case {
  readonly name: string;
  readonly image: Pixels;
  readonly format: MaskFormat;
}

function makeFormat(width: number, height: number, changes: Partial<MaskFormat> = {}): MaskFormat {
  return {
    width,
    height,
    contentWidth: width,
    contentHeight: height,
    filter: "bilinear",
    ...changes,
  };
}

const CASES: readonly Case[] = [
  { name: "growing", image: noiseImage(101, 67), format: makeFormat(16, 12) },
  { name: "shrinking", image: noiseImage(7, 5), format: makeFormat(64, 64) },
  { name: "the same size", image: noiseImage(9, 9), format: makeFormat(9, 9) },
  { name: "to one pixel", image: noiseImage(1, 1), format: makeFormat(64, 48) },
  { name: "from one pixel", image: noiseImage(31, 3), format: makeFormat(1, 1) },
  {
    name: "one row of pixels",
    image: noiseImage(2000, 1),
    format: makeFormat(32, 32, { filter: "lanczos" }),
  },
  { name: "wide and short", image: noiseImage(301, 3), format: makeFormat(64, 64) },
  { name: "narrow and tall", image: noiseImage(3, 301), format: makeFormat(64, 64) },
  { name: "bicubic", image: noiseImage(77, 91), format: makeFormat(20, 30, { filter: "bicubic" }) },
  {
    name: "a mask with padding",
    image: noiseImage(50, 40),
    format: makeFormat(16, 16, { contentWidth: 16, contentHeight: 12.8 }),
  },
];

/** Makes probabilities, some of them outside 0 to 1. The padding contains 1000. */
function makeMask({ width, height, contentHeight }: MaskFormat): Float32Array<ArrayBuffer> {
  const random = new Random(7);
  return Float32Array.from(
    { length: width * height },
    (_, i) =>
      Math.floor(i / width) < Math.ceil(contentHeight) ? random.between(-300, 1300) / 1000 : 1000,
  );
}

/** Computes alpha by the formula, without rounding. */
function byTheFormula({ width, height, data }: Pixels, mask: Float32Array, format: MaskFormat) {
  const across = weighAxis(format.contentWidth, width, format.filter);
  const down = weighAxis(format.contentHeight, height, format.filter);
  return Float64Array.from({ length: width * height }, (_, at) => {
    const [x, y] = [at % width, Math.floor(at / width)];
    let sum = 0;
    for (let j = 0; j < down.count[y]!; j++) {
      for (let i = 0; i < across.count[x]!; i++) {
        sum += down.values[y * down.stride + j]! * across.values[x * across.stride + i]! *
          mask[(down.first[y]! + j) * format.width + across.first[x]! + i]!;
      }
    }
    return Math.min(1, Math.max(0, sum)) * data[4 * at + 3]!;
  });
}

/** Asserts rounded alpha; if the exact value is halfway between two integers, either is accepted. */
function assertAlpha(got: Pixels, exact: Float64Array, name: string): void {
  exact.forEach((alpha, at) => {
    const error = Math.abs(got.data[4 * at + 3]! - alpha);
    assert.ok(error <= 0.501, `${name}: ${got.data[4 * at + 3]} for ${alpha} at ${at}`);
  });
}

/** Asserts that visible pixels keep their colours, and that invisible ones are black. */
function assertColors(got: Pixels, want: Pixels): void {
  const seen = want.data.map((level, i) => got.data[i | 3] === 0 ? 0 : level);
  const colors = (data: Uint8Array) => data.filter((_, i) => i % 4 !== 3);
  assertSameValues(colors(got.data), colors(seen));
}

for (const { name, image, format } of CASES) {
  Deno.test(`compositeAlpha() follows its formula: ${name}`, () => {
    const mask = makeMask(format);
    const got = { ...image, data: image.data.slice() };
    compositeAlpha(got, { values: mask, format });
    assertAlpha(got, byTheFormula(image, mask, format), name);
    assertColors(got, image);
  });
}

Deno.test("compositeAlpha() adds an alpha channel to RGB images", () => {
  const opaque = noiseImage(21, 13);
  for (let i = 3; i < opaque.data.length; i += 4) opaque.data[i] = 255;
  const rgb: Pixels = { ...opaque, channels: 3, data: opaque.data.filter((_, i) => i % 4 !== 3) };
  const before = rgb.data.slice();
  const format = makeFormat(5, 6);
  const mask = { values: makeMask(format), format };
  const got = compositeAlpha(rgb, mask);
  assert.deepEqual(rgb.data, before);
  assert.deepEqual(got, compositeAlpha(opaque, mask));
});

Deno.test("compositeBands() gives the same rows as compositeAlpha() for the whole image", () => {
  for (const { name, image, format } of CASES) {
    const { width, height, channels, data } = image;
    const mask = { values: makeMask(format), format };
    const whole = compositeAlpha({ ...image, data: data.slice() }, mask).data;
    for (const [firstRow, endRow] of [[0, 1], [Math.floor(height / 3), height]] as const) {
      const [start, end] = [channels * width * firstRow, channels * width * endRow];
      const rows = { ...image, height: endRow - firstRow, data: data.subarray(start, end) };
      const bands = Array.from(
        compositeBands(rows, { ...mask, firstRow, height }),
        (band) => band.slice(),
      );
      assertSameValues(new Uint8Array(Buffer.concat(bands)), whole.slice(start, end), name);
    }
  }
});

Deno.test("compositeAlpha() treats NaN as 0", () => {
  const image = noiseImage(4, 4);
  compositeAlpha(image, { values: new Float32Array(4).fill(NaN), format: makeFormat(2, 2) });
  assert.ok(image.data.every((level, i) => i % 4 !== 3 || level === 0));
});

async function readImage(gpu: GpuContext, buffer: GPUBuffer, like: Pixels): Promise<Pixels> {
  const readback = await Readback.create(gpu, { maxBytes: buffer.size, slots: 1 });
  const encoder = gpu.device.createCommandEncoder();
  const data = await readback.read(encoder, [{ buffer, offset: 0, size: buffer.size }]);
  readback.dispose();
  return { ...like, data };
}

kernelTest("CompositeAlpha computes the formula in place", async (gpu) => {
  const kernel = new CompositeAlpha(gpu);
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
  for (const { name, image, format } of CASES) {
    const mask = makeMask(format);
    // Uses the second of two masks; the first must not be read.
    const masks = new Float32Array(2 * mask.length).fill(NaN);
    masks.set(mask, mask.length);
    const maskBuffer = createBuffer(gpu, { size: masks.byteLength, usage });
    gpu.device.queue.writeBuffer(maskBuffer, 0, masks);
    const buffer = createBuffer(gpu, { size: image.data.byteLength, usage });
    gpu.device.queue.writeBuffer(buffer, 0, image.data);
    const encoder = gpu.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    kernel.encode(pass, {
      image: { buffer, width: image.width, height: image.height },
      mask: { buffer: maskBuffer, start: mask.length },
      format,
    });
    pass.end();
    gpu.device.queue.submit([encoder.finish()]);
    const got = await readImage(gpu, buffer, image);
    assertAlpha(got, byTheFormula(image, mask, format), name);
    assertColors(got, image);
    buffer.destroy();
    maskBuffer.destroy();
  }
  kernel.dispose();
});

kernelTest("CompositeAlpha treats NaN and infinite mask values like its reference", async (gpu) => {
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC;
  const values = Float32Array.of(NaN, Infinity, -Infinity, 0.5, 3e38, -3e38, 1, NaN, 0.25);
  const format = makeFormat(3, 3);
  const image = { width: 17, height: 7, channels: 4, data: new Uint8Array(17 * 7 * 4).fill(255) };
  const want = { ...image, data: image.data.slice() } as Pixels;
  compositeAlpha(want, { values, format });
  const mask = upload(gpu, values, "f32");
  const buffer = createBuffer(gpu, { size: image.data.byteLength, usage });
  gpu.device.queue.writeBuffer(buffer, 0, image.data);
  const kernel = new CompositeAlpha(gpu);
  const encoder = gpu.device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  const source = { buffer, width: image.width, height: image.height };
  kernel.encode(pass, { image: source, mask: { buffer: mask, start: 0 }, format });
  pass.end();
  gpu.device.queue.submit([encoder.finish()]);
  const got = await readImage(gpu, buffer, want);
  assert.deepEqual(got.data, want.data);
  kernel.dispose();
  buffer.destroy();
  mask.destroy();
});
