/**
 * Converts the samples of a PNG file to 8-bit RGB or RGBA. Of 16-bit samples the upper 8 bits are kept, as in Pillow.
 * Also reads the header, and the texts that hold metadata.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import type { Pixels } from "../pixels.ts";
import { hasText, viewData } from "../file_bytes.ts";
import { inflateSync } from "node:zlib";

interface PngSamples {
  readonly header: PngHeader;
  readonly passes: readonly PngPass[];
  /**
   * The rows of all passes, one after the other. If they are in the right format already, the pixels take over their
   * memory.
   */
  readonly rows: Uint8Array<ArrayBuffer>;
  readonly palette: Uint8Array | undefined;
  /** The `tRNS` chunk: alpha values of the palette, or the one colour that is transparent. */
  readonly transparency: Uint8Array | undefined;
}

/** Writes the pixels of a row of samples; pixels are `step` bytes apart. */
type RowWriter = (
  samples: Uint16Array,
  target: { readonly output: Uint8Array; readonly start: number; readonly step: number },
) => void;

/** @throws {HearthError} `invalid_media` when a palette is needed and missing. */
export function expandPng({ header, passes, rows, palette, transparency }: PngSamples): Pixels {
  const { width, height, depth, colorType } = header;
  const numSamples = PNG_SAMPLES[colorType];
  const channels = numSamples % 2 === 0 || transparency !== undefined ? 4 : 3;
  const numBytes = width * height * channels;
  if (depth === 8 && numSamples === channels && !header.isInterlaced) {
    return { width, height, channels, data: takeBytes(rows, numBytes) };
  }
  const output = new Uint8Array(numBytes);
  const write = colorType === 3
    ? makePaletteWriter(palette, transparency)
    : makeColorWriter(header, transparency);
  const buffer = new Uint16Array(width * numSamples);
  let at = 0;
  for (const pass of passes) {
    for (let y = 0; y < pass.height; y++, at += pass.rowBytes) {
      const row = rows.subarray(at, at + pass.rowBytes);
      const start = ((pass.top + y * pass.stepY) * width + pass.left) * channels;
      const samples = buffer.subarray(0, pass.width * numSamples);
      unpack(row, depth, samples);
      write(samples, { output, start, step: pass.stepX * channels });
    }
  }
  return { width, height, channels, data: output };
}

/** Returns the first bytes in a buffer of their own, since Node's small buffers share memory. */
function takeBytes(rows: Uint8Array<ArrayBuffer>, numBytes: number): Uint8Array<ArrayBuffer> {
  const isShared = rows.length < rows.buffer.byteLength;
  return isShared ? rows.slice(0, numBytes) : rows.subarray(0, numBytes);
}

/** Unpacks the samples of a row; the highest bits of a byte come first. */
function unpack(row: Uint8Array, depth: number, samples: Uint16Array): void {
  if (depth === 8) samples.set(row);
  else if (depth === 16) {
    for (let i = 0; i < samples.length; i++) samples[i] = row[2 * i]! << 8 | row[2 * i + 1]!;
  } else {
    const mask = (1 << depth) - 1;
    for (let i = 0; i < samples.length; i++) {
      const bit = i * depth;
      samples[i] = row[bit >> 3]! >> (8 - depth - (bit & 7)) & mask;
    }
  }
}

/** A writer for palettes. A colour beyond the palette is black, as in other decoders. */
function makePaletteWriter(
  palette: Uint8Array | undefined,
  transparency: Uint8Array | undefined,
): RowWriter {
  if (palette === undefined) throw invalidMedia("The PNG file has no palette, but needs one.");
  return (samples, { output, start, step }) => {
    for (let i = 0, to = start; i < samples.length; i++, to += step) {
      const index = samples[i]!;
      output[to] = palette[3 * index]!;
      output[to + 1] = palette[3 * index + 1]!;
      output[to + 2] = palette[3 * index + 2]!;
      if (transparency !== undefined) output[to + 3] = transparency[index] ?? 255;
    }
  };
}

/** A writer for grey or RGB: with alpha, with one transparent colour, or opaque. */
function makeColorWriter(
  { depth, colorType }: PngHeader,
  transparency: Uint8Array | undefined,
): RowWriter {
  const numSamples = PNG_SAMPLES[colorType];
  const numColors = numSamples < 3 ? 1 : 3;
  const hasAlpha = numSamples > numColors;
  const key = transparency && new Uint16Array(numColors);
  if (key !== undefined) unpack(transparency!, 16, key);
  const scale = depth < 8 ? 255 / ((1 << depth) - 1) : 1;
  const shift = depth === 16 ? 8 : 0;
  const [green, blue] = numColors === 3 ? [1, 2] : [0, 0];
  return (samples, { output, start, step }) => {
    for (let i = 0, to = start; i < samples.length; i += numSamples, to += step) {
      const r = samples[i]!, g = samples[i + green]!, b = samples[i + blue]!;
      output[to] = (r >> shift) * scale;
      output[to + 1] = (g >> shift) * scale;
      output[to + 2] = (b >> shift) * scale;
      if (hasAlpha) output[to + 3] = samples[i + numColors]! >> shift;
      else if (key !== undefined) {
        const isKey = r === key[0] && (numColors === 1 || (g === key[1] && b === key[2]));
        output[to + 3] = isKey ? 0 : 255;
      }
    }
  };
}

/** The content of the header chunk. */
interface PngHeader {
  readonly width: number;
  readonly height: number;
  /** Bit depth of a sample: 1, 2, 4, 8 or 16. */
  readonly depth: number;
  readonly colorType: PngColorType;
  readonly isInterlaced: boolean;
}

/** Colour types: grey, RGB, palette, grey with alpha, RGB with alpha. */
type PngColorType = 0 | 2 | 3 | 4 | 6;

const DEPTHS: Readonly<Record<PngColorType, readonly number[]>> = {
  0: [1, 2, 4, 8, 16],
  2: [8, 16],
  3: [1, 2, 4, 8],
  4: [8, 16],
  6: [8, 16],
};

/** Number of samples in a pixel, by colour type. */
export const PNG_SAMPLES: Readonly<Record<PngColorType, number>> = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 };

/** A part of the image with its own rows: the whole image, or one of the seven passes of an interlaced one. */
export interface PngPass {
  readonly width: number;
  readonly height: number;
  readonly rowBytes: number;
  /** Pixel `(x, y)` of the pass is pixel `(left + x * stepX, top + y * stepY)` of the image. */
  readonly left: number;
  readonly top: number;
  readonly stepX: number;
  readonly stepY: number;
}

/** Adam7: left, top and steps of each pass. */
const PASSES = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
] as const;

/** @throws {HearthError} `invalid_media` when the header is missing or invalid. */
export function readPngHeader(file: Uint8Array): PngHeader {
  if (!hasText(file, 12, "IHDR")) throw invalidMedia("The PNG file has no header.");
  const view = viewData(file);
  const width = view.getUint32(16);
  const height = view.getUint32(20);
  const depth = view.getUint8(24);
  const colorType = view.getUint8(25) as PngColorType;
  const isKnown = DEPTHS[colorType]?.includes(depth) && view.getUint16(26) === 0 &&
    view.getUint8(28) <= 1;
  if (!isKnown) {
    throw invalidMedia(
      `The PNG file's header is damaged: no image has colour type ${colorType} at ${depth} bits.`,
    );
  }
  return { width, height, depth, colorType, isInterlaced: view.getUint8(28) === 1 };
}

/** The whole image as one pass, or the passes of an interlaced image that have pixels. */
export function listPasses(
  { width, height, depth, colorType, isInterlaced }: PngHeader,
): PngPass[] {
  const grids = isInterlaced ? PASSES : [[0, 0, 1, 1]] as const;
  const passes = grids.map(([left, top, stepX, stepY]) => {
    const passWidth = Math.ceil((width - left) / stepX);
    const rowBytes = Math.ceil(passWidth * PNG_SAMPLES[colorType] * depth / 8);
    const passHeight = Math.ceil((height - top) / stepY);
    return { width: passWidth, height: passHeight, rowBytes, left, top, stepX, stepY };
  });
  return passes.filter((pass) => pass.width > 0 && pass.height > 0);
}

/** A part of a PNG file. */
export interface PngChunk {
  readonly type: string;
  readonly data: Uint8Array<ArrayBuffer>;
}

/** Maximum number of bytes of a text. */
const MAX_TEXT_BYTES = 4 * 2 ** 20;
/** The types of text: plain in Latin-1, compressed, and in UTF-8, perhaps compressed. */
const TEXT = { plain: "tEXt", packed: "zTXt", international: "iTXt" } as const;

/** The text with a keyword; `undefined` if there is none, or if it is damaged. */
export function readPngText(
  chunks: readonly PngChunk[],
  keyword: string,
): Uint8Array | undefined {
  const types: readonly string[] = Object.values(TEXT);
  const chunk = chunks.find(({ type, data }) =>
    types.includes(type) && hasText(data, 0, `${keyword}\0`)
  );
  if (chunk === undefined) return undefined;
  const { type, data } = chunk;
  const content = data.subarray(keyword.length + 1);
  if (type === TEXT.plain) return content;
  // A compressed text begins with the method. In an international text come a flag, the method, and two names.
  const language = content.indexOf(0, 2);
  const text = type === TEXT.packed
    ? content.subarray(1)
    : content.subarray(content.indexOf(0, language + 1) + 1);
  if (type === TEXT.international && content[0] === 0) return text;
  try {
    return inflateSync(text, { maxOutputLength: MAX_TEXT_BYTES });
  } catch {
    return undefined;
  }
}

/** The data that ImageMagick writes as text: a line break, a name, the number of bytes, then hexadecimal digits. */
export function readPngProfile(
  chunks: readonly PngChunk[],
  name: string,
): Uint8Array | undefined {
  const text = readPngText(chunks, `Raw profile type ${name}`);
  const [, , , ...lines] = new TextDecoder("latin1").decode(text).split("\n");
  try {
    return Uint8Array.fromHex(lines.join(""));
  } catch {
    return undefined;
  }
}
