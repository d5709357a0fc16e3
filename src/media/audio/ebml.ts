/**
 * Parses EBML (RFC 8794), the structure of Matroska files.
 *
 * @module
 */

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
