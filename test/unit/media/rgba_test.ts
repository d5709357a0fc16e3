import assert from "node:assert/strict";
import { type Channels, toRgba } from "../../../src/media/pixels.ts";

function makeRgba(channels: Channels, ...levels: number[]): number[] {
  const pixels = { width: levels.length / channels, height: 1, channels };
  const rgba = toRgba({ ...pixels, data: Uint8Array.from(levels) });
  assert.deepEqual([rgba.width, rgba.height, rgba.channels], [pixels.width, 1, 4]);
  return [...rgba.data];
}

Deno.test("toRgba() gives pixels of any channels four", () => {
  assert.deepEqual(makeRgba(1, 7, 255), [7, 7, 7, 255, 255, 255, 255, 255]);
  assert.deepEqual(makeRgba(2, 7, 3, 9, 0), [7, 7, 7, 3, 9, 9, 9, 0]);
  assert.deepEqual(makeRgba(3, 1, 2, 3, 250, 251, 252), [1, 2, 3, 255, 250, 251, 252, 255]);
});

Deno.test("toRgba() does not copy what has four channels", () => {
  const pixels = { width: 1, height: 1, channels: 4, data: Uint8Array.of(1, 2, 3, 4) } as const;
  assert.equal(toRgba(pixels), pixels);
});
