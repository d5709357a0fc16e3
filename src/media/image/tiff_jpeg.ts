/**
 * Reads pieces of TIFF files that are JPEG streams (Adobe's TIFF Technical Note 2).
 *
 * @module
 */
import { joinBytes } from "../../base/join_bytes.ts";
import { invalidImage } from "./format.ts";
import { JPEG } from "./jpeg.ts";
import { TIFF_TAG, type TiffLayout } from "./tiff_tags.ts";

/** The tag that says how samples become colours. */
const RGB = 2;
const MARKER_BYTES = 2;
const START_OF_IMAGE = Uint8Array.of(0xff, 0xd8);

/**
 * Decodes one piece. Tables that pieces share come from the file's own tag.
 *
 * @param piece receives a byte a sample; `rows` rows of `width` pixels are filled.
 * @returns the number of bytes that were filled.
 * @throws {HearthError} `invalid_media` when the stream is damaged, or its pixels are of another kind than the file's.
 */
export async function readTiffJpeg(
  packed: Uint8Array,
  piece: Uint8Array,
  { layout, width, rows, inPiece }: {
    readonly layout: TiffLayout;
    readonly width: number;
    readonly rows: number;
    /** Samples of a pixel: 1 or 3. */
    readonly inPiece: number;
  },
): Promise<number> {
  if (layout.bits !== 8 || inPiece !== 1 && inPiece !== 3) {
    throw invalidImage(
      `The TIFF file cannot be read: it holds JPEG of ${inPiece} samples of ${layout.bits} bits; ` +
        "1 or 3 of 8 bits are wanted.",
    );
  }
  const tables = Uint8Array.from(layout.tags.get(TIFF_TAG.jpegTables) ?? []);
  const file = joinBytes([
    START_OF_IMAGE,
    makeAdobeSegment(layout.photometric === RGB ? 0 : 1),
    tables.subarray(MARKER_BYTES, -MARKER_BYTES),
    packed.subarray(MARKER_BYTES),
  ]);
  const size = JPEG.readSize(file);
  const maxHeight = piece.length / (width * inPiece);
  if (size.width !== width || size.height < rows || size.height > maxHeight) {
    throw invalidImage(
      `The TIFF file is damaged: a piece of ${width} × ${rows} pixels is a JPEG image of ` +
        `${size.width} × ${size.height}.`,
    );
  }
  const pixels = await JPEG.decode(file, size);
  const numPixels = width * rows;
  for (let i = 0; i < numPixels; i++) {
    for (let sample = 0; sample < inPiece; sample++) {
      piece[i * inPiece + sample] = pixels.data[i * pixels.channels + sample]!;
    }
  }
  return numPixels * inPiece;
}

/** Says whether the colours are RGB (0) or YCbCr (1), which decoders guess else. */
function makeAdobeSegment(transform: 0 | 1): Uint8Array {
  return Uint8Array.of(
    ...[0xff, 0xee, 0, 14, 0x41, 0x64, 0x6f, 0x62, 0x65],
    ...[0, 100, 0, 0, 0, 0, transform],
  );
}
