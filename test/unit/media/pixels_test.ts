import assert from "node:assert/strict";
import {
  centerCrop,
  type Channels,
  compositeOnWhite,
  crop,
  dropOpaqueAlpha,
  isOpaque,
  pad,
  PixelRoom,
  type Pixels,
  toRgba,
} from "../../../src/media/pixels.ts";
import { assertSameData } from "../../fixtures/engine/compare_values.ts";
import { compileWasm, WASM_MODULES } from "../../../scripts/wasm.ts";
import binary from "../../../src/media/pixel_simd.wasm.base64" with { type: "text" };

/** A grey image whose levels encode their position. */
function numbered(width: number, height: number): Pixels {
  const data = Uint8Array.from({ length: width * height }, (_, i) => i + 1);
  return { width, height, channels: 1, data };
}

Deno.test("crop() copies a part, with black outside of the image", () => {
  const pixels = numbered(3, 2);
  assert.deepEqual([...crop(pixels, [1, 0, 3, 2]).data], [2, 3, 5, 6]);
  assert.deepEqual([...crop(pixels, [-1, 1, 2, 3]).data], [0, 4, 5, 0, 0, 0]);
  assert.deepEqual([...crop(pixels, [5, 5, 6, 7]).data], [0, 0]);
  assert.throws(() => crop(pixels, [1, 0, 1, 2]), RangeError);
});

Deno.test("centerCrop() copies the middle, pads small images, and rounds like the models' preprocessing", () => {
  const row = numbered(5, 1);
  assert.deepEqual([...centerCrop(row, { width: 2, height: 1 }).data], [2, 3]);
  assert.deepEqual([...centerCrop(row, { width: 8, height: 1 }).data], [0, 0, 1, 2, 3, 4, 5, 0]);
});

Deno.test("pad() adds a border of 0", () => {
  const pixel = { width: 1, height: 1, channels: 3, data: Uint8Array.of(7, 8, 9) } as const;
  assert.deepEqual([...pad(pixel, { left: 1, bottom: 1 }).data], [
    ...[0, 0, 0, 7, 8, 9],
    ...[0, 0, 0, 0, 0, 0],
  ]);
  assert.deepEqual([...pad(pixel, { right: 1 }).data], [7, 8, 9, 0, 0, 0]);
});

Deno.test("compositeOnWhite() renders transparency on white", () => {
  const data = Uint8Array.of(10, 20, 30, 255, 10, 20, 30, 0, 0, 100, 200, 128);
  assert.deepEqual(compositeOnWhite({ width: 3, height: 1, channels: 4, data }), {
    width: 3,
    height: 1,
    channels: 3,
    data: Uint8Array.of(10, 20, 30, 255, 255, 255, 127, 177, 227),
  });
  const grey = { width: 2, height: 1, channels: 2, data: Uint8Array.of(0, 51, 9, 255) } as const;
  assert.deepEqual([...compositeOnWhite(grey).data], [204, 9]);
});

Deno.test("compositeOnWhite() does not change opaque images", () => {
  const image = { width: 1, height: 1, channels: 3, data: Uint8Array.of(1, 2, 3) } as const;
  assert.equal(compositeOnWhite(image), image);
});

/** An opaque RGBA image. */
function makeOpaque(width: number, height: number): Pixels {
  const data = Uint8Array.from(
    { length: 4 * width * height },
    (_, i) => i % 4 === 3 ? 255 : i * 7 % 251,
  );
  return { width, height, channels: 4, data };
}

const SIZES = [[1, 1], [2, 1], [3, 1], [5, 7], [255, 129], [400, 300]] as const;

Deno.test("dropOpaqueAlpha() keeps the colours", () => {
  for (const [width, height] of SIZES) {
    const pixels = makeOpaque(width, height);
    const want = pixels.data.filter((_, i) => i % 4 !== 3);
    const got = dropOpaqueAlpha(pixels);
    assertSameData(got, { width, height, channels: 3, data: want });
  }
});

Deno.test("isOpaque() finds a single transparent pixel at any position; such an image keeps its alpha", () => {
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

function makeRgba(channels: Channels, ...levels: number[]): number[] {
  const pixels = { width: levels.length / channels, height: 1, channels };
  const rgba = toRgba({ ...pixels, data: Uint8Array.from(levels) });
  assert.deepEqual([rgba.width, rgba.height, rgba.channels], [pixels.width, 1, 4]);
  return [...rgba.data];
}

Deno.test("toRgba() converts any number of channels to four", () => {
  assert.deepEqual(makeRgba(1, 7, 255), [7, 7, 7, 255, 255, 255, 255, 255]);
  assert.deepEqual(makeRgba(2, 7, 3, 9, 0), [7, 7, 7, 3, 9, 9, 9, 0]);
  assert.deepEqual(makeRgba(3, 1, 2, 3, 250, 251, 252), [1, 2, 3, 255, 250, 251, 252, 255]);
});

Deno.test("toRgba() does not copy images with four channels", () => {
  const pixels = { width: 1, height: 1, channels: 4, data: Uint8Array.of(1, 2, 3, 4) } as const;
  assert.equal(toRgba(pixels), pixels);
});

/** A room of the given number of bytes. */
function makeRoom(numBytes: number): PixelRoom {
  const room = new PixelRoom();
  room.reserve(numBytes);
  return room;
}

Deno.test("PixelRoom allocates addresses that do not overlap", () => {
  const room = new PixelRoom();
  const [first, second] = [room.reserve(100), room.reserve(100)];
  assert.ok(first % 16 === 0 && second % 16 === 0 && second >= first + 100);
  using memory = room.open();
  assert.ok(memory.bytes.length >= second + 100);
});

Deno.test("PixelRoom.open() reuses the last memory, unless it is in use, too small or too large", () => {
  const opened = (numBytes: number) => {
    using memory = makeRoom(numBytes).open();
    return memory;
  };
  const first = opened(2 ** 20);
  assert.equal(opened(1000), first);
  {
    using inUse = makeRoom(1000).open();
    assert.equal(inUse, first);
    assert.notEqual(opened(1000), first);
  }
  assert.equal(opened(1000), first);
  const larger = opened(2 ** 22);
  assert.notEqual(larger, first);
  opened(2 ** 25);
  assert.equal(opened(1000), larger);
});

Deno.test("pixel_simd.wasm.base64 is compiled from the current sources", async () => {
  assert.equal((await compileWasm(WASM_MODULES.images)).toBase64(), binary);
});
