import assert from "node:assert/strict";
import { assertSameValues } from "../fixtures/engine/compare_values.ts";
import {
  resizeNormalize,
  type TensorFormat,
  weighAxis,
} from "../../kernels/images/image_reference.ts";
import { ResizeNormalize } from "../../kernels/images/image_kernels.ts";
import { createBuffer, type GpuContext } from "../../src/gpu/device.ts";
import type { Pixels } from "../../src/media/pixels.ts";
import { resize } from "../../src/media/resample.ts";
import { kernelTest } from "../fixtures/engine/gpu.ts";
import { noiseImage, RESIZE_CASES } from "./image_case.ts";
import { runAndRead } from "./tensors.ts";

function roundHalfUp(sum: number): number {
  return Math.min(255, Math.max(0, Math.floor(sum + 0.5)));
}

/** Computes the formula element by element. */
function byTheFormula(image: Pixels, format: TensorFormat): Float32Array {
  const { layout, width, height, contentWidth, contentHeight, filter, scale, offset } = format;
  const across = weighAxis(image.width, contentWidth, filter);
  const down = weighAxis(image.height, contentHeight, filter);
  const output = new Float32Array(3 * width * height);
  const wideAt = (j: number, x: number, c: number) => {
    let sum = 0;
    for (let i = 0; i < across.count[x]!; i++) {
      const at = j * image.width + across.first[x]! + i;
      sum += across.values[x * across.stride + i]! * image.data[4 * at + c]!;
    }
    return roundHalfUp(sum);
  };
  for (let c = 0; c < 3; c++) {
    for (let y = 0; y < contentHeight; y++) {
      for (let x = 0; x < contentWidth; x++) {
        let sum = 0;
        for (let j = 0; j < down.count[y]!; j++) {
          sum += down.values[y * down.stride + j]! * wideAt(down.first[y]! + j, x, c);
        }
        const at = layout === "nchw" ? (c * height + y) * width + x : 3 * (y * width + x) + c;
        output[at] = roundHalfUp(sum) * scale[c]! + offset[c]!;
      }
    }
  }
  return output;
}

/** Asserts levels. At most a tenth may be one level off: a sum halfway between two levels may become either. */
function assertLevels(got: Float32Array, want: Float32Array, { scale }: TensorFormat): void {
  assert.equal(got.length, want.length);
  const level = Math.max(...scale);
  let numOff = 0;
  for (let i = 0; i < want.length; i++) {
    const error = Math.abs(got[i]! - want[i]!);
    if (error > 1e-5 + 1e-5 * Math.abs(want[i]!)) numOff++;
    if (!(error <= 1.001 * level)) assert.fail(`element ${i}: ${got[i]} where ${want[i]} is right`);
  }
  assert.ok(numOff <= want.length / 10, `${numOff} of ${want.length} are off by a level`);
}

for (const { name, image, format } of RESIZE_CASES) {
  Deno.test(`resizeNormalize() follows its formula: ${name}`, () => {
    // NaN shows elements that are not written.
    const output = new Float32Array(3 * format.width * format.height).fill(NaN);
    resizeNormalize(image, format, output);
    assertLevels(output, byTheFormula(image, format), format);
  });
}

Deno.test("resizeNormalize() equals resize(), and ignores alpha", () => {
  const opaque = noiseImage(211, 97);
  for (let i = 3; i < opaque.data.length; i += 4) opaque.data[i] = 255;
  const [width, height] = [31, 29];
  const resized = resize(opaque, { width, height, filter: "bilinear" });
  const output = new Float32Array(3 * width * height);
  const format: TensorFormat = {
    layout: "nhwc",
    width,
    height,
    contentWidth: width,
    contentHeight: height,
    filter: "bilinear",
    scale: [1, 1, 1],
    offset: [0, 0, 0],
  };
  resizeNormalize(opaque, format, output);
  assertSameValues(output, Float32Array.from(resized.data.filter((_, i) => i % 4 !== 3)));
  const clear = { ...opaque, data: opaque.data.map((level, i) => i % 4 === 3 ? 0 : level) };
  const same = new Float32Array(output.length);
  resizeNormalize(clear, format, same);
  assertSameValues(same, output);
  const rgb: Pixels = { ...opaque, channels: 3, data: opaque.data.filter((_, i) => i % 4 !== 3) };
  resizeNormalize(rgb, format, same);
  assertSameValues(same, output);
});

function uploadImage(gpu: GpuContext, { width, height, data }: Pixels) {
  const buffer = createBuffer(gpu, {
    size: data.byteLength,
    usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC,
  });
  gpu.device.queue.writeBuffer(buffer, 0, data);
  return { buffer, width, height };
}

kernelTest(
  "ResizeNormalize equals its reference, and writes nothing else",
  async (gpu) => {
    const kernel = new ResizeNormalize(gpu);
    for (const { name, image, format } of RESIZE_CASES) {
      const length = 3 * format.width * format.height;
      // The kernel writes the middle third of the buffer.
      const poison = new Float32Array(3 * length).fill(NaN);
      const buffer = createBuffer(gpu, {
        size: poison.byteLength,
        usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST | GPUBufferUsage.COPY_SRC,
      });
      gpu.device.queue.writeBuffer(buffer, 0, poison);
      const source = uploadImage(gpu, image);
      const got = await runAndRead(gpu, (pass) => {
        kernel.encode(pass, { image: source, format, output: { buffer, start: length } });
      }, { buffer, length: poison.length, elem: "f32" });
      const want = new Float32Array(length);
      resizeNormalize(image, format, want);
      try {
        assertLevels(got.subarray(length, 2 * length), want, format);
      } catch (error) {
        throw new Error(name, { cause: error });
      }
      assert.ok(got.subarray(0, length).every(Number.isNaN), name);
      assert.ok(got.subarray(2 * length).every(Number.isNaN), name);
      source.buffer.destroy();
      buffer.destroy();
    }
    kernel.dispose();
  },
);
