/**
 * The boxes of MP4 and QuickTime files (ISO/IEC 14496-12), and the frames of a track that these boxes list.
 *
 * @module
 */
import { invalidMedia } from "../../base/errors.ts";
import type { Decoding } from "./sound.ts";

/**
 * Maximum number of boxes in a box. Hours of one-second fragments have fewer; a hostile file of empty boxes has more.
 */
const MAX_CHILDREN = 2 ** 18;

/** A box of the file. */
export class Box {
  readonly type: string;
  /** Offset of the box in the file. */
  readonly start: number;
  /** Offset of the content in the file. */
  readonly contentStart: number;
  /** Offset in the file after the box. */
  readonly end: number;
  /** Whether the file ends within the box. */
  readonly isCut: boolean;
  readonly #file: Uint8Array<ArrayBuffer>;
  readonly #view: DataView;

  constructor(
    file: Uint8Array<ArrayBuffer>,
    range: { type: string; start: number; contentStart: number; end: number; isCut?: boolean },
  ) {
    this.isCut = range.isCut ?? false;
    this.type = range.type;
    this.start = range.start;
    this.contentStart = range.contentStart;
    this.end = range.end;
    this.#file = file;
    this.#view = new DataView(file.buffer, file.byteOffset + range.contentStart, this.length);
  }

  /** The whole file as a box. */
  static root(file: Uint8Array<ArrayBuffer>): Box {
    return new Box(file, { type: "", start: 0, contentStart: 0, end: file.length });
  }

  /** Number of bytes in the content. */
  get length(): number {
    return this.end - this.contentStart;
  }

  /** The content, beginning at `offset`. */
  bytes(offset = 0): Uint8Array<ArrayBuffer> {
    return this.#file.subarray(this.contentStart + offset, this.end);
  }

  /** The boxes in the content, beginning at `offset`. A truncated box ends where its parent does. */
  *children(offset = 0): Generator<Box> {
    const headerBytes = 8;
    for (
      let at = offset, count = 0;
      at + headerBytes <= this.length && count < MAX_CHILDREN;
      count++
    ) {
      const type = String.fromCharCode(...this.bytes(at + 4).subarray(0, 4));
      const size32 = this.u32(at);
      const isLarge = size32 === 1;
      const size = isLarge ? this.u64(at + headerBytes) : size32 === 0 ? this.length - at : size32;
      const contentOffset = at + (isLarge ? 2 * headerBytes : headerBytes);
      if (at + size < contentOffset) return;
      yield new Box(this.#file, {
        type,
        start: this.contentStart + at,
        contentStart: Math.min(this.end, this.contentStart + contentOffset),
        end: Math.min(this.end, this.contentStart + at + size),
        isCut: this.contentStart + at + size > this.#file.length,
      });
      at += size;
    }
  }

  /** The first box at a path of types. */
  find(...path: readonly string[]): Box | undefined {
    const [type, ...rest] = path;
    if (type === undefined) return this;
    for (const child of this.children()) {
      const found = child.type === type ? child.find(...rest) : undefined;
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** An unsigned integer of 8 bits. */
  u8(offset: number): number {
    return this.#check(offset, 1).getUint8(offset);
  }

  /** An unsigned integer of 16 bits. */
  u16(offset: number): number {
    return this.#check(offset, 2).getUint16(offset);
  }

  /** An unsigned integer of 32 bits. */
  u32(offset: number): number {
    return this.#check(offset, 4).getUint32(offset);
  }

  /** A signed integer of 32 bits. */
  i32(offset: number): number {
    return this.#check(offset, 4).getInt32(offset);
  }

  /** A floating-point number of 64 bits. */
  f64(offset: number): number {
    return this.#check(offset, 8).getFloat64(offset);
  }

  /** An unsigned integer of 64 bits, exact up to 2 ** 53. */
  u64(offset: number): number {
    return this.u32(offset) * 2 ** 32 + this.u32(offset + 4);
  }

  #check(offset: number, size: number): DataView {
    if (offset + size <= this.#view.byteLength) return this.#view;
    throw invalidMedia(`The MP4 file is damaged: its box ${this.type} is too short.`);
  }
}

/** Position of one frame in the file; MP4 calls a frame a sample. */
interface FrameRange {
  readonly offset: number;
  readonly size: number;
}

const FRAGMENT_FLAG = {
  baseOffset: 0x1,
  description: 0x2,
  duration: 0x8,
  size: 0x10,
} as const;
const RUN_FLAG = {
  offset: 0x1,
  firstFlags: 0x4,
  duration: 0x100,
  size: 0x200,
  flags: 0x400,
  composition: 0x800,
} as const;

/** Types that the last box of a file may have. Bytes at the end that give another type are not a box. */
const LAST_TYPES = "ftyp moov moof mdat mfra free skip wide meta udta uuid sidx styp emsg".split(
  " ",
);

/** Offset, in version 1 of a sample entry, of the number of samples in a block. */
const SAMPLES_AT = 28;
/** Offset, in version 1 of a sample entry, of the number of bytes in a block. */
export const BLOCK_BYTES_AT = 36;

/**
 * The frames of a track in order; those in fragments come last.
 *
 * @param root the file.
 * @throws {HearthError} `invalid_media` when the frames have more bytes than the file.
 */
export function* readMp4Frames(
  root: Box,
  { track, trackId, decoding }: {
    readonly track: Box;
    readonly trackId: number;
    readonly decoding: Decoding;
  },
): Generator<Uint8Array<ArrayBuffer>> {
  const file = root.bytes();
  let total = 0;
  for (const { offset, size } of listRanges(root, track, trackId)) {
    total += size;
    if (offset + size > file.length) {
      decoding.onTruncated(
        `a frame should end at byte ${offset + size}, and the file has ${file.length} bytes`,
      );
      return;
    }
    // More frame bytes than the file has: the tables are invalid, and could be endless.
    if (total > file.length) throw invalidMedia("The MP4 file is damaged: its frames overlap.");
    if (size > 0) yield file.subarray(offset, offset + size);
  }
  const last = [...root.children()].at(-1);
  // Other bytes after the boxes are not a part of the file.
  if (last?.isCut && LAST_TYPES.includes(last.type)) {
    decoding.onTruncated(`its last box, ${last.type}, is cut`);
  }
}

function* listRanges(root: Box, track: Box, trackId: number): Generator<FrameRange> {
  const table = track.find("mdia", "minf", "stbl");
  if (table !== undefined) yield* listTabled(table);
  let defaultSize = 0;
  for (const extend of root.find("moov", "mvex")?.children() ?? []) {
    if (extend.type === "trex" && extend.u32(4) === trackId) defaultSize = extend.u32(16);
  }
  for (const movie of root.children()) {
    // In a truncated table no entry is reliable.
    if (movie.type !== "moof" || movie.isCut) continue;
    for (const fragment of movie.children()) {
      const header = fragment.type === "traf" ? fragment.find("tfhd") : undefined;
      if (header?.u32(4) === trackId) {
        yield* listFragment(movie, fragment, header, defaultSize);
      }
    }
  }
}

/** Lists the frames in a track's own tables: offsets of chunks, frames per chunk, and sizes of frames. */
function* listTabled(table: Box): Generator<FrameRange> {
  const sizes = table.find("stsz");
  const chunks = table.find("stco") ?? table.find("co64");
  const runs = table.find("stsc");
  if (sizes === undefined || chunks === undefined || runs === undefined) return;
  const commonSize = sizes.u32(4);
  const block = readBlock(table, commonSize);
  const numFrames = sizes.u32(8);
  const numRuns = runs.u32(4);
  let frame = 0;
  let run = -1;
  for (let chunk = 0; chunk < chunks.u32(4) && frame < numFrames; chunk++) {
    while (run + 1 < numRuns && runs.u32(8 + 12 * (run + 1)) <= chunk + 1) run++;
    const framesInChunk = run < 0 ? 1 : runs.u32(12 + 12 * run);
    let offset = chunks.type === "co64" ? chunks.u64(8 + 8 * chunk) : chunks.u32(8 + 4 * chunk);
    if (block !== undefined) {
      const samples = Math.min(framesInChunk, numFrames - frame);
      frame += samples;
      for (let left = samples; left > 0; left -= block.samples, offset += block.bytes) {
        yield { offset, size: block.bytes };
      }
      continue;
    }
    for (let i = 0; i < framesInChunk && frame < numFrames; i++, frame++) {
      const size = commonSize || sizes.u32(12 + 4 * frame);
      yield { offset, size };
      offset += size;
    }
  }
}

/**
 * The samples and bytes of a packed block. QuickTime's tables count samples inside blocks; version 1 of the sample
 * entry gives the size of a block.
 */
function readBlock(
  table: Box,
  commonSize: number,
): { readonly samples: number; readonly bytes: number } | undefined {
  const [entry] = table.find("stsd")?.children(8) ?? [];
  if (commonSize !== 1 || entry === undefined || entry.u16(8) !== 1) return undefined;
  const [samples, bytes] = [entry.u32(SAMPLES_AT), entry.u32(BLOCK_BYTES_AT)];
  return samples > 1 && bytes > 1 ? { samples, bytes } : undefined;
}

/** Lists the frames of one track in one fragment. */
function* listFragment(
  movie: Box,
  fragment: Box,
  header: Box,
  trackDefaultSize: number,
): Generator<FrameRange> {
  const flags = header.u32(0);
  let at = 8;
  let offset = movie.start;
  if (flags & FRAGMENT_FLAG.baseOffset) {
    offset = header.u64(at);
    at += 8;
  }
  if (flags & FRAGMENT_FLAG.description) at += 4;
  if (flags & FRAGMENT_FLAG.duration) at += 4;
  const defaultSize = flags & FRAGMENT_FLAG.size ? header.u32(at) : trackDefaultSize;
  const base = offset;
  for (const run of fragment.children()) {
    if (run.type !== "trun") continue;
    const runFlags = run.u32(0);
    const numFrames = run.u32(4);
    let field = 8;
    if (runFlags & RUN_FLAG.offset) {
      offset = base + run.i32(field);
      field += 4;
    }
    if (runFlags & RUN_FLAG.firstFlags) field += 4;
    if (defaultSize === 0 && !(runFlags & RUN_FLAG.size)) continue;
    for (let i = 0; i < numFrames; i++) {
      if (runFlags & RUN_FLAG.duration) field += 4;
      const size = runFlags & RUN_FLAG.size ? run.u32(field) : defaultSize;
      if (runFlags & RUN_FLAG.size) field += 4;
      if (runFlags & RUN_FLAG.flags) field += 4;
      if (runFlags & RUN_FLAG.composition) field += 4;
      yield { offset, size };
      offset += size;
    }
  }
}
