/**
 * Writes PNG files (ISO/IEC 15948).
 *
 * @module
 */
import { Readable } from "node:stream";
import { constants, crc32, createDeflate } from "node:zlib";
import type { Channels, Pixels } from "./pixels.ts";

const SIGNATURE = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);
const COLOR_TYPES: Readonly<Record<Channels, number>> = { 1: 0, 2: 4, 3: 2, 4: 6 };
/** Each byte of a row is stored as its difference from the same channel of the pixel before it. */
const SUB_FILTER = 1;
/** Rows are filtered and packed so many bytes at a time. */
const STRIPE_BYTES = 2 ** 20;

/**
 * Encodes a picture of 8 bits a channel, losing nothing.
 *
 * Tuned for time: on a photograph of 12 megapixels, `Sub` for every row with zlib's run-length strategy takes a third
 * of the time of zlib's default level and is smaller; choosing the best filter for each row would save 2 % more and
 * take as long again.
 */
export async function encodePng(pixels: Pixels): Promise<Uint8Array<ArrayBuffer>> {
  const header = new Uint8Array(13);
  const view = new DataView(header.buffer);
  view.setUint32(0, pixels.width);
  view.setUint32(4, pixels.height);
  header.set([8, COLOR_TYPES[pixels.channels], 0, 0, 0], 8);

  const deflate = createDeflate({ strategy: constants.Z_RLE, chunkSize: STRIPE_BYTES });
  const packed = Readable.from(filterRows(pixels)).pipe(deflate);
  const parts: Uint8Array<ArrayBuffer>[] = [SIGNATURE, chunk("IHDR", header)];
  for await (const data of packed) parts.push(chunk("IDAT", data));
  parts.push(chunk("IEND", new Uint8Array()));
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/** The rows, each after the number of its filter, in stripes of whole rows. */
function* filterRows({ width, height, channels, data }: Pixels): Generator<Uint8Array> {
  const rowBytes = width * channels;
  const rowsPerStripe = Math.max(1, Math.floor(STRIPE_BYTES / (rowBytes + 1)));
  for (let firstRow = 0; firstRow < height; firstRow += rowsPerStripe) {
    const numRows = Math.min(rowsPerStripe, height - firstRow);
    const stripe = new Uint8Array(numRows * (rowBytes + 1));
    let from = firstRow * rowBytes;
    let to = 0;
    for (let row = 0; row < numRows; row++) {
      stripe[to++] = SUB_FILTER;
      for (let i = 0; i < channels; i++) stripe[to++] = data[from++]!;
      for (let i = channels; i < rowBytes; i++, from++) {
        stripe[to++] = data[from]! - data[from - channels]!;
      }
    }
    yield stripe;
  }
}

function chunk(type: string, data: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(data.length + 12);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, data.length);
  for (let i = 0; i < 4; i++) bytes[4 + i] = type.charCodeAt(i);
  bytes.set(data, 8);
  view.setUint32(data.length + 8, crc32(bytes.subarray(4, data.length + 8)));
  return bytes;
}
