import assert from "node:assert/strict";
import type { Pixels } from "../../../../src/media/pixels.ts";
import { makeCutOut } from "../../../../src/models/matting/codec.ts";
import { Random } from "../../engine/random.ts";

/** Four columns of two rows with the given alphas. */
function makeImage(...alphas: number[]): Pixels {
  const data = Uint8Array.from(alphas.flatMap((alpha, i) => [10 * i, 100, 200, alpha]));
  return { width: 4, height: 2, channels: 4, data };
}

const EMPTY = makeImage(0, 0, 0, 0, 0, 0, 0, 0);

Deno.test("makeCutOut() does not change the image without options", () => {
  const image = makeImage(0, 1, 2, 3, 4, 5, 6, 7);
  assert.equal(makeCutOut(image, {}), image);
});

Deno.test("makeCutOut() crops to the subject without its faint traces", () => {
  const image = makeImage(0, 7, 8, 0, 0, 0, 255, 0);
  const { width, height, data } = makeCutOut(image, { crop: true });
  assert.deepEqual([width, height], [1, 2]);
  assert.deepEqual([...data], [20, 100, 200, 8, 60, 100, 200, 255]);
  const corners = makeCutOut(makeImage(9, 0, 0, 0, 0, 0, 0, 9), { crop: true });
  assert.deepEqual([corners.width, corners.height], [4, 2]);
  assert.equal(makeCutOut(EMPTY, { crop: true }), EMPTY);
});

Deno.test("makeCutOut() crops to the same box as a check of every pixel", () => {
  const random = new Random(9);
  for (let round = 0; round < 200; round++) {
    const [width, height] = [random.between(1, 9), random.between(1, 9)];
    const data = new Uint8Array(4 * width * height);
    const points = Array.from({ length: random.between(1, 3) }, () => {
      const [x, y] = [random.between(0, width - 1), random.between(0, height - 1)];
      data[4 * (y * width + x) + 3] = 255;
      return { x, y };
    });
    const [xs, ys] = [points.map(({ x }) => x), points.map(({ y }) => y)];
    const got = makeCutOut({ width, height, channels: 4, data }, { crop: true });
    const sides = [xs, ys].map((all) => Math.max(...all) - Math.min(...all) + 1);
    assert.deepEqual([got.width, got.height], sides);
    const numSeen = (levels: Uint8Array) => levels.filter((level) => level === 255).length;
    assert.equal(numSeen(got.data), numSeen(data));
  }
});

Deno.test("makeCutOut() puts a colour behind the subject", () => {
  const { data } = makeCutOut(makeImage(0, 255, 128, 1, 0, 0, 0, 0), { background: [255, 0, 50] });
  assert.deepEqual([...data.subarray(0, 16)], [
    ...[255, 0, 50, 255],
    ...[10, 100, 200, 255],
    ...[137, 50, 125, 255],
    ...[254, 0, 51, 255],
  ]);
});

Deno.test("makeCutOut() puts a translucent colour behind the subject, like Pillow's alpha_composite()", () => {
  const pixels = [0, 255, 128, 1, 0, 0, 0, 0, 10, 20, 30, 255, 200, 100, 0, 100];
  const image = { width: 4, height: 1, channels: 4, data: Uint8Array.from(pixels) } as const;
  const { data } = makeCutOut(image, { background: [255, 0, 50, 128] });
  const want = [253, 2, 51, 128, 255, 0, 50, 128, 10, 20, 30, 255, 224, 56, 22, 178];
  assert.equal(data.length, want.length);
  for (const [i, level] of want.entries()) {
    // Pillow rounds fixed-point numbers.
    assert.ok(Math.abs(data[i]! - level) <= 1, `${i}: ${data[i]} instead of ${level}`);
  }
});

Deno.test("makeCutOut() returns only the alpha if requested, also cropped", () => {
  const mask = makeCutOut(makeImage(0, 90, 0, 0, 0, 80, 0, 0), { maskOnly: true });
  assert.deepEqual([mask.channels, ...mask.data], [1, 0, 90, 0, 0, 0, 80, 0, 0]);
  const options = { maskOnly: true, crop: true };
  assert.deepEqual([...makeCutOut(makeImage(0, 90, 0, 0, 0, 80, 0, 0), options).data], [90, 80]);
});
