import assert from "node:assert/strict";
import { centerCrop, crop, pad, type Pixels } from "../../../src/media/pixels.ts";

/** A grey image whose every level tells its place. */
function numbered(width: number, height: number): Pixels {
  const data = Uint8Array.from({ length: width * height }, (_, i) => i + 1);
  return { width, height, channels: 1, data };
}

Deno.test("crop() takes a part, and black where there is nothing", () => {
  const pixels = numbered(3, 2);
  assert.deepEqual([...crop(pixels, [1, 0, 3, 2]).data], [2, 3, 5, 6]);
  assert.deepEqual([...crop(pixels, [-1, 1, 2, 3]).data], [0, 4, 5, 0, 0, 0]);
  assert.deepEqual([...crop(pixels, [5, 5, 6, 7]).data], [0, 0]);
  assert.throws(() => crop(pixels, [1, 0, 1, 2]), RangeError);
});

Deno.test("centerCrop() takes the middle, widens what is too small, and rounds as the models' preprocessing", () => {
  const row = numbered(5, 1);
  assert.deepEqual([...centerCrop(row, { width: 2, height: 1 }).data], [2, 3]);
  assert.deepEqual([...centerCrop(row, { width: 8, height: 1 }).data], [0, 0, 1, 2, 3, 4, 5, 0]);
});

Deno.test("pad() widens by a colour and by black", () => {
  const pixel = { width: 1, height: 1, channels: 3, data: Uint8Array.of(7, 8, 9) } as const;
  assert.deepEqual([...pad(pixel, { left: 1, bottom: 1, color: [1, 2, 3] }).data], [
    ...[1, 2, 3, 7, 8, 9],
    ...[1, 2, 3, 1, 2, 3],
  ]);
  assert.deepEqual([...pad(pixel, { right: 1 }).data], [7, 8, 9, 0, 0, 0]);
});
