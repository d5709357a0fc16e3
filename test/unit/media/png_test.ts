/** PNG files that are written, read back by another decoder. */
import assert from "node:assert/strict";
import { decode } from "fast-png";
import type { Channels } from "../../../src/media/pixels.ts";
import { encodePng } from "../../../src/media/png.ts";

function noise(width: number, height: number, channels: Channels) {
  let state = width * 31 + height * 17 + channels;
  const data = Uint8Array.from({ length: width * height * channels }, () => {
    state = Math.imul(state, 1_664_525) + 1_013_904_223 >>> 0;
    return state >>> 24;
  });
  return { width, height, channels, data };
}

Deno.test("encodePng() writes what another decoder reads, for all channels and odd sizes", async () => {
  for (const channels of [1, 2, 3, 4] as const) {
    for (const [width, height] of [[1, 1], [1, 9], [7, 1], [13, 5], [640, 481]] as const) {
      const pixels = noise(width, height, channels);
      const { data, ...file } = decode(await encodePng(pixels));
      assert.deepEqual([file.width, file.height, file.channels, file.depth], [
        width,
        height,
        channels,
        8,
      ]);
      assert.deepEqual(new Uint8Array(data), pixels.data);
    }
  }
});

Deno.test("encodePng() writes rows longer than it filters at a time, and pictures of more rows than that", async () => {
  for (const [width, height] of [[700_000, 2], [3, 900_000]] as const) {
    const pixels = noise(width, height, 3);
    assert.deepEqual(new Uint8Array(decode(await encodePng(pixels)).data), pixels.data);
  }
});

Deno.test("encodePng() makes a picture of one colour small", async () => {
  const data = new Uint8Array(1000 * 1000 * 4);
  const png = await encodePng({ width: 1000, height: 1000, channels: 4, data });
  assert.ok(png.length < 20_000, `${png.length} bytes`);
});
