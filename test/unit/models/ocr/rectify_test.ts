import assert from "node:assert/strict";
import type { Pixels } from "../../../../src/media/pixels.ts";
import { rectify } from "../../../../src/models/ocr/line_boxes.ts";

const PICTURE: Pixels = {
  width: 4,
  height: 3,
  channels: 1,
  // deno-fmt-ignore
  data: Uint8Array.of(
    10, 20, 30, 40,
    50, 60, 70, 80,
    90, 100, 110, 120,
  ),
};

Deno.test("rectify() copies a part on whole pixels unchanged", () => {
  const part = rectify(PICTURE, {
    topLeft: [1, 1],
    topRight: [4, 1],
    bottomLeft: [1, 3],
    width: 3,
    height: 2,
  });
  assert.deepEqual(part, {
    width: 3,
    height: 2,
    channels: 1,
    data: Uint8Array.of(60, 70, 80, 100, 110, 120),
  });
});

Deno.test("rectify() rotates a part by the order of its corners", () => {
  const turned = rectify(PICTURE, {
    topLeft: [4, 0],
    topRight: [4, 3],
    bottomLeft: [0, 0],
    width: 3,
    height: 4,
  });
  assert.deepEqual([...turned.data], [40, 80, 120, 30, 70, 110, 20, 60, 100, 10, 50, 90]);
});

Deno.test("rectify() interpolates between pixels and repeats the edge outside of the image", () => {
  const between = { topLeft: [0.5, 0], topRight: [1.5, 0], bottomLeft: [0.5, 1] } as const;
  assert.deepEqual([...rectify(PICTURE, { ...between, width: 1, height: 1 }).data], [15]);
  const outside = { topLeft: [-3, -3], topRight: [-2, -3], bottomLeft: [-3, -2] } as const;
  assert.deepEqual([...rectify(PICTURE, { ...outside, width: 1, height: 1 }).data], [10]);
});
