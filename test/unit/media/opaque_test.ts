import assert from "node:assert/strict";
import { assertSameData } from "../../fixtures/engine/compare_values.ts";
import { dropOpaqueAlpha, isOpaque, type Pixels } from "../../../src/media/pixels.ts";

/** RGBA that is opaque. */
function makeOpaque(width: number, height: number): Pixels {
  const data = Uint8Array.from(
    { length: 4 * width * height },
    (_, i) => i % 4 === 3 ? 255 : i * 7 % 251,
  );
  return { width, height, channels: 4, data };
}

const SIZES = [[1, 1], [2, 1], [3, 1], [5, 7], [255, 129], [400, 300]] as const;

Deno.test("dropOpaqueAlpha() leaves the colours", () => {
  for (const [width, height] of SIZES) {
    const pixels = makeOpaque(width, height);
    const want = pixels.data.filter((_, i) => i % 4 !== 3);
    const got = dropOpaqueAlpha(pixels);
    assertSameData(got, { width, height, channels: 3, data: want });
  }
});

Deno.test("isOpaque() finds a single pixel that is not, wherever it is; such an image keeps its alpha", () => {
  for (const [width, height] of SIZES) {
    const pixels = makeOpaque(width, height);
    const numPixels = width * height;
    for (const pixel of [0, 1, 2, 3, numPixels >> 1, numPixels - 2, numPixels - 1]) {
      if (pixel < 0 || pixel >= numPixels) continue;
      assert.ok(isOpaque(pixels));
      pixels.data[4 * pixel + 3] = 254;
      assert.ok(!isOpaque(pixels), `${pixel} of ${width} × ${height}`);
      assert.equal(dropOpaqueAlpha(pixels), pixels);
      pixels.data[4 * pixel + 3] = 255;
    }
  }
});
