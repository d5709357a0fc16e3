/** Rows of every filter, as another decoder reads them. */
import { assertSameValues } from "../../fixtures/engine/compare_values.ts";
import { Buffer } from "node:buffer";
import { deflateSync } from "node:zlib";
import { decode } from "fast-png";
import { decodeImage } from "../../../src/media/image.ts";
import { pngChunk, pngFile } from "../../fixtures/images/image_writer.ts";
import { Random } from "../engine/random.ts";

interface Rows {
  readonly width: number;
  readonly height: number;
  readonly depth: 8 | 16;
  readonly colorType: 0 | 2 | 4 | 6;
}

const SAMPLES = { 0: 1, 2: 3, 4: 2, 6: 4 } as const;

/** Any bytes are rows, as long as each begins with the number of a filter. */
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

/** An image's colours: grey has three that are equal. */
function readColors({ data, channels }: { data: ArrayLike<number>; channels: number }): number[] {
  const numColors = channels < 3 ? 1 : 3;
  return Array.from(data).filter((_, i) => i % channels < numColors);
}

for (const colorType of [0, 2, 4, 6] as const) {
  for (const depth of [8, 16] as const) {
    Deno.test(`decodeImage() undoes every filter of ${SAMPLES[colorType]} samples of ${depth} bits`, async () => {
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
