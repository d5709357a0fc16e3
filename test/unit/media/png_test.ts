/** PNG files that are written, read back by another decoder. */
import assert from "node:assert/strict";
import { assertSameValues } from "../../fixtures/engine/compare_values.ts";
import { Buffer } from "node:buffer";
import { inflateSync } from "node:zlib";
import { decode } from "fast-png";
import type { Channels } from "../../../src/media/pixels.ts";
import { encodePng, joinPng, packPngStripe, splitBands } from "../../../src/media/png.ts";

function noise(width: number, height: number, channels: Channels) {
  let state = width * 31 + height * 17 + channels;
  const data = Uint8Array.from({ length: width * height * channels }, () => {
    state = Math.imul(state, 1_664_525) + 1_013_904_223 >>> 0;
    return state >>> 24;
  });
  return { width, height, channels, data };
}

Deno.test("encodePng() writes what another decoder reads, for all channels and odd sizes", () => {
  for (const channels of [1, 2, 3, 4] as const) {
    for (const [width, height] of [[1, 1], [1, 9], [7, 1], [13, 5], [640, 481]] as const) {
      const pixels = noise(width, height, channels);
      const { data, ...file } = decode(encodePng(pixels));
      assert.deepEqual([file.width, file.height, file.channels, file.depth], [
        width,
        height,
        channels,
        8,
      ]);
      assertSameValues(new Uint8Array(data), pixels.data);
    }
  }
});

Deno.test("encodePng() writes rows longer than it filters at a time, and images of more rows than that", () => {
  for (const [width, height] of [[700_000, 2], [3, 900_000]] as const) {
    const pixels = noise(width, height, 3);
    assertSameValues(new Uint8Array(decode(encodePng(pixels)).data), pixels.data);
  }
});

Deno.test("encodePng() makes an image of one colour small", () => {
  const data = new Uint8Array(1000 * 1000 * 4);
  const png = encodePng({ width: 1000, height: 1000, channels: 4, data });
  assert.ok(png.length < 20_000, `${png.length} bytes`);
});

/** What the IDAT chunks hold; zlib refuses a wrong checksum. */
function unpack(png: Uint8Array): Uint8Array {
  const view = new DataView(png.buffer);
  const parts: Uint8Array[] = [];
  for (let at = 8; at < png.length; at += 12 + view.getUint32(at)) {
    if (view.getUint32(at + 4) !== 0x49_44_41_54) continue;
    parts.push(png.subarray(at + 8, at + 8 + view.getUint32(at)));
  }
  return inflateSync(Buffer.concat(parts));
}

Deno.test("joinPng() makes one file of stripes of any height, with the checksum of the whole", () => {
  const pixels = noise(601, 999, 4);
  pixels.data.fill(255, 601 * 4 * 500);
  const heights = [1, 0, 2, 497, 300, 199];
  let row = 0;
  const stripes = heights.map((height) => {
    const data = pixels.data.subarray(601 * 4 * row, 601 * 4 * (row += height));
    return packPngStripe(pixels, splitBands({ ...pixels, height, data }));
  });
  const png = joinPng(pixels, stripes);
  assertSameValues(new Uint8Array(decode(png).data), pixels.data);
  assertSameValues(unpack(png), unpack(encodePng(pixels)));
});
