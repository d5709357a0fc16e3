/** Writing PNG files, and reading rows with every filter; another decoder verifies both. */
import assert from "node:assert/strict";
import { assertSameValues } from "../../fixtures/engine/compare_values.ts";
import { Buffer } from "node:buffer";
import { deflateSync, inflateSync } from "node:zlib";
import { decode } from "fast-png";
import type { Channels } from "../../../src/media/pixels.ts";
import { encodePng, joinPng, packPngStripe, splitBands } from "../../../src/media/image/png.ts";
import { decodeImage } from "../../../src/media/image.ts";
import { pngChunk, pngFile } from "../../fixtures/images/image_writer.ts";
import { Random } from "../engine/random.ts";

function noise(width: number, height: number, channels: Channels) {
  let state = width * 31 + height * 17 + channels;
  const data = Uint8Array.from({ length: width * height * channels }, () => {
    state = Math.imul(state, 1_664_525) + 1_013_904_223 >>> 0;
    return state >>> 24;
  });
  return { width, height, channels, data };
}

Deno.test("encodePng() writes files that another decoder reads, for all channels and odd sizes", () => {
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

Deno.test("encodePng() writes very long rows, and images of very many rows", () => {
  for (const [width, height] of [[700_000, 2], [3, 900_000]] as const) {
    const pixels = noise(width, height, 3);
    assertSameValues(new Uint8Array(decode(encodePng(pixels)).data), pixels.data);
  }
});

Deno.test("encodePng() compresses an image of one colour well", () => {
  const data = new Uint8Array(1000 * 1000 * 4);
  const png = encodePng({ width: 1000, height: 1000, channels: 4, data });
  assert.ok(png.length < 20_000, `${png.length} bytes`);
});

/** The contents of the IDAT chunks; zlib refuses a wrong checksum. */
function unpack(png: Uint8Array): Uint8Array {
  const view = new DataView(png.buffer);
  const parts: Uint8Array[] = [];
  for (let at = 8; at < png.length; at += 12 + view.getUint32(at)) {
    if (view.getUint32(at + 4) !== 0x49_44_41_54) continue;
    parts.push(png.subarray(at + 8, at + 8 + view.getUint32(at)));
  }
  return inflateSync(Buffer.concat(parts));
}

Deno.test("joinPng() joins stripes of any height to one file, with the checksum of the whole", () => {
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

interface Rows {
  readonly width: number;
  readonly height: number;
  readonly depth: 8 | 16;
  readonly colorType: 0 | 2 | 4 | 6;
}

const SAMPLES = { 0: 1, 2: 3, 4: 2, 6: 4 } as const;

/** Rows of random bytes, each of which begins with the number of a filter. */
function noiseFile({ width, height, depth, colorType }: Rows): Uint8Array<ArrayBuffer> {
  const random = new Random(width + height + depth + colorType);
  const rowBytes = width * SAMPLES[colorType] * depth / 8;
  const rows = Buffer.alloc(height * (rowBytes + 1));
  for (let i = 0; i < rows.length; i++) {
    rows[i] = random.between(0, i % (rowBytes + 1) === 0 ? 4 : 255);
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([depth, colorType], 8);
  const [signatureBytes, headerBytes] = [8, 25];
  const grey = pngFile(width, height, [pngChunk("IDAT", deflateSync(rows))]);
  return Buffer.concat([
    grey.subarray(0, signatureBytes),
    pngChunk("IHDR", header),
    grey.subarray(signatureBytes + headerBytes),
  ]);
}

/** The samples of an image without alpha: one for each pixel of grey, otherwise three. */
function readColors({ data, channels }: { data: ArrayLike<number>; channels: number }): number[] {
  const numColors = channels < 3 ? 1 : 3;
  return Array.from(data).filter((_, i) => i % channels < numColors);
}

for (const colorType of [0, 2, 4, 6] as const) {
  for (const depth of [8, 16] as const) {
    Deno.test(`decodeImage() reverses every filter of ${SAMPLES[colorType]} samples of ${depth} bits`, async () => {
      for (
        const [width, height] of [[1, 40], [3, 40], [33, 40], [151, 300], [30_001, 8]] as const
      ) {
        const file = noiseFile({ width, height, depth, colorType });
        const got = await decodeImage(file);
        const { data, channels } = decode(file);
        const want = Array.from(data, (sample) => sample >> (depth - 8));
        const colors = readColors(got);
        const isGrey = colorType === 0 || colorType === 4;
        assertSameValues(
          isGrey ? colors.filter((_, i) => i % 3 === 0) : colors,
          readColors({ data: want, channels }),
          `${width} × ${height}`,
        );
      }
    });
  }
}
