/**
 * Parses MP4 and QuickTime files (ISO/IEC 14496-12).
 *
 * @module
 */
import { invalidAudio } from "./sound.ts";

/** Most boxes: hours of fragments of one second have fewer, a hostile file of empty boxes has more. */
const MAX_CHILDREN = 2 ** 18;

/** A box of the file. */
export class Box {
  readonly type: string;
  /** Offsets in the file: of the box, of its content, and after the box. */
  readonly start: number;
  readonly contentStart: number;
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

  /** The content from `offset` on. */
  bytes(offset = 0): Uint8Array<ArrayBuffer> {
    return this.#file.subarray(this.contentStart + offset, this.end);
  }

  /** The boxes in the content from `offset` on. A truncated box ends where its parent does. */
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
    throw invalidAudio(`The MP4 file is damaged: its box ${this.type} is too short.`);
  }
}
