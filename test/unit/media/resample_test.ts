/** Resizing, compared with Pillow. */
import assert from "node:assert/strict";
import type { Channels, Pixels } from "../../../src/media/pixels.ts";
import { type ResampleFilter, resize } from "../../../src/media/resample.ts";
import cases from "../../fixtures/images/resizes.json" with { type: "json" };

type Case = typeof cases[number];

function makeOptions({ toWidth, toHeight, filter }: Case) {
  return {
    width: toWidth,
    height: toHeight,
    filter: filter as ResampleFilter,
  };
}

function getName({ mode, width, height, toWidth, toHeight, filter }: Case): string {
  return `${mode} ${width} × ${height} → ${toWidth} × ${toHeight} ${filter}`;
}

Deno.test("resize() equals Pillow for every filter, with and without alpha, to and from one pixel", () => {
  assert.ok(cases.length > 180);
  for (const golden of cases) {
    const { width, height } = golden;
    const channels = golden.channels as Channels;
    const data = Uint8Array.fromBase64(golden.input);
    const resized = resize({ width, height, channels, data }, makeOptions(golden));
    assert.deepEqual(
      [resized.width, resized.height, resized.channels],
      [golden.toWidth, golden.toHeight, channels],
    );
    assert.deepEqual(resized.data, Uint8Array.fromBase64(golden.output), getName(golden));
  }
});

/** An image whose levels encode their position. */
function numbered(width: number, height: number, channels: Channels = 3): Pixels {
  const data = Uint8Array.from({ length: width * height * channels }, (_, i) => i + 1);
  return { width, height, channels, data };
}

Deno.test("resize() to the same size copies", () => {
  const pixels = numbered(4, 3, 4);
  const resized = resize(pixels, { width: 4, height: 3, filter: "bicubic" });
  assert.deepEqual(resized, pixels);
  assert.notEqual(resized.data.buffer, pixels.data.buffer);
});

Deno.test("resize() keeps an image of one colour unchanged, with every filter", () => {
  for (const filter of ["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"] as const) {
    const data = new Uint8Array(37 * 29 * 3).fill(255);
    const resized = resize({ width: 37, height: 29, channels: 3, data }, {
      width: 11,
      height: 53,
      filter,
    });
    assert.ok(resized.data.every((level) => level === 255), filter);
  }
});

Deno.test("resize() refuses invalid sizes", () => {
  const pixels = numbered(4, 3);
  const filter = "box";
  for (const width of [0, -1, 1.5, NaN]) {
    assert.throws(() => resize(pixels, { width, height: 2, filter }), RangeError);
  }
});
