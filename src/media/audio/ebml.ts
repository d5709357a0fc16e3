/**
 * Parses EBML (RFC 8794), the structure of Matroska files, and splits and decompresses
 * Matroska's frames.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import { joinBytes } from "../../base/bytes.ts";
import { inflateSync } from "node:zlib";
import { UnreadSoundError } from "./sound.ts";

/** An element without children, or the start of an element with children. */
interface EbmlElement {
  readonly id: number;
  /** Content of an element without children; empty for others. */
  readonly data: Uint8Array<ArrayBuffer>;
  /** Offset in the file where the content should end; `undefined` if the element has no size. */
  readonly end: number | undefined;
  /** Whether the file ends within the element. */
  readonly isCut?: boolean;
}

/** A variable-length number, and the offset after it. */
interface EbmlNumber {
  readonly value: number;
  readonly next: number;
  /** Whether all bits of the value are set, which means an unknown size. */
  readonly isUnknown: boolean;
}

/**
 * Yields the elements of a file, depth first. Ends at the first invalid element.
 *
 * @param parents ids of the elements whose children are read.
 */
export function* walkEbml(
  file: Uint8Array<ArrayBuffer>,
  parents: ReadonlySet<number>,
): Generator<EbmlElement> {
  for (let at = 0; at < file.length;) {
    const id = readEbmlNumber(file, at, { keepsMarker: true });
    const size = id && readEbmlNumber(file, id.next);
    if (size === undefined) return;
    const end = size.isUnknown ? undefined : size.next + size.value;
    if (parents.has(id!.value)) {
      yield { id: id!.value, data: file.subarray(0, 0), end };
      at = size.next;
    } else {
      // Only an element with children may have an unknown size.
      if (end === undefined) return;
      yield { id: id!.value, data: file.subarray(size.next, end), end, isCut: end > file.length };
      at = end;
    }
  }
}

/** Reads a variable-length number; `undefined` if it is invalid. */
export function readEbmlNumber(
  data: Uint8Array,
  at: number,
  { keepsMarker = false }: { keepsMarker?: boolean } = {},
): EbmlNumber | undefined {
  const first = data[at];
  if (first === undefined || first === 0) return undefined;
  const length = Math.clz32(first) - 23;
  const next = at + length;
  if (next > data.length) return undefined;
  const marker = 0x80 >> (length - 1);
  let value = keepsMarker ? first : first & (marker - 1);
  let isUnknown = (first & (marker - 1)) === marker - 1;
  for (let i = at + 1; i < next; i++) {
    value = value * 256 + data[i]!;
    isUnknown &&= data[i] === 0xff;
  }
  return { value, next, isUnknown };
}

/** Reads an element's content as an unsigned integer. */
export function readEbmlUint(data: Uint8Array): number {
  return data.reduce((value, byte) => value * 256 + byte, 0);
}

/** Reads an element's content as a signed integer. */
export function readEbmlInt(data: Uint8Array): number {
  const value = readEbmlUint(data);
  return (data[0] ?? 0) < 0x80 ? value : value - 2 ** (8 * data.length);
}

/** Reads an element's content as a floating-point number of 4 or 8 bytes; NaN for other lengths. */
export function readEbmlFloat(data: Uint8Array): number {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  if (data.length === 4) return view.getFloat32(0);
  return data.length === 8 ? view.getFloat64(0) : NaN;
}

const LACING = { none: 0, xiph: 1, fixed: 2, ebml: 3 } as const;

/** Splits the content of a block into its frames, according to the block's lacing. */
export function* splitLaced(
  data: Uint8Array<ArrayBuffer>,
  start: number,
  lacing: number,
): Generator<Uint8Array<ArrayBuffer>> {
  if (lacing === LACING.none) yield data.subarray(start);
  else if (lacing === LACING.xiph) yield* splitXiph(data, start);
  else if (lacing === LACING.fixed) yield* splitFixed(data, start);
  else yield* splitEbml(data, start);
}

/**
 * Splits a block with Xiph lacing: the number of frames minus one, then the lengths of all but the last as sums of
 * bytes.
 */
export function* splitXiph(
  data: Uint8Array<ArrayBuffer>,
  start: number,
): Generator<Uint8Array<ArrayBuffer>> {
  const lengths: number[] = [];
  let at = start + 1;
  for (let i = 0; i < (data[start] ?? 0); i++) {
    let length = 0;
    while (data[at] === 255) length += data[at++]!;
    lengths.push(length + (data[at++] ?? 0));
  }
  yield* splitByLengths(data, at, lengths);
}

/** Splits a block with EBML lacing: lengths as variable-length numbers, the first one, then differences. */
function* splitEbml(
  data: Uint8Array<ArrayBuffer>,
  start: number,
): Generator<Uint8Array<ArrayBuffer>> {
  const lengths: number[] = [];
  let at = start + 1;
  for (let i = 0; i < (data[start] ?? 0); i++) {
    const number = readEbmlNumber(data, at);
    if (number === undefined) return;
    const bias = 2 ** (7 * (number.next - at) - 1) - 1;
    lengths.push(i === 0 ? number.value : lengths[i - 1]! + number.value - bias);
    at = number.next;
  }
  yield* splitByLengths(data, at, lengths);
}

function* splitByLengths(
  data: Uint8Array<ArrayBuffer>,
  start: number,
  lengths: readonly number[],
): Generator<Uint8Array<ArrayBuffer>> {
  let at = start;
  for (const length of lengths) {
    if (length < 0 || at + length > data.length) return;
    yield data.subarray(at, at += length);
  }
  yield data.subarray(at);
}

function* splitFixed(
  data: Uint8Array<ArrayBuffer>,
  start: number,
): Generator<Uint8Array<ArrayBuffer>> {
  const numFrames = (data[start] ?? 0) + 1;
  const length = Math.floor((data.length - start - 1) / numFrames);
  for (let i = 0, at = start + 1; i < numFrames; i++) yield data.subarray(at, at += length);
}

/** A transformation of a track's bytes (RFC 9559, section 5.1.4.1.31). */
export interface ContentEncoding {
  /** 1: frames are transformed, 2: the codec's header is. */
  scope: number;
  isEncrypted: boolean;
  algorithm: number;
  /** The bytes that were removed from the beginning of each frame. */
  settings: Uint8Array<ArrayBuffer>;
}

const COMPRESSION = { zlib: 0, removedBeginning: 3 } as const;
/** Maximum number of bytes of a frame; a second of uncompressed sound has fewer. */
const MAX_FRAME_BYTES = 2 ** 22;

/**
 * Undoes the encodings of a track that apply to `scope`, the last one first.
 *
 * @param options.scope what the bytes are, as in {@linkcode ContentEncoding}.
 * @throws {HearthError} `invalid_media` when the encoding is not supported, or the bytes are damaged.
 */
export function undoEncoding(
  bytes: Uint8Array<ArrayBuffer>,
  { encodings, scope }: { readonly encodings: readonly ContentEncoding[]; readonly scope: 1 | 2 },
): Uint8Array<ArrayBuffer> {
  // The last encoding was applied last.
  return encodings.filter((encoding) => (encoding.scope & scope) !== 0)
    .reduceRight((data, encoding) => undoOne(data, encoding), bytes);
}

function undoOne(
  bytes: Uint8Array<ArrayBuffer>,
  { isEncrypted, algorithm, settings }: ContentEncoding,
): Uint8Array<ArrayBuffer> {
  if (isEncrypted) throw new UnreadSoundError("The WebM file's sound is encrypted.");
  if (algorithm === COMPRESSION.removedBeginning) return joinBytes([settings, bytes]);
  if (algorithm !== COMPRESSION.zlib) {
    throw new UnreadSoundError(
      `The WebM file's frames are compressed by algorithm ${algorithm}; zlib (0) or a removed ` +
        "beginning (3) is expected.",
    );
  }
  try {
    return new Uint8Array(inflateSync(bytes, { maxOutputLength: MAX_FRAME_BYTES }));
  } catch (error) {
    throw invalidMedia("The WebM file is damaged: a compressed frame cannot be read.", error);
  }
}
