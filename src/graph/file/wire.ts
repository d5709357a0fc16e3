/**
 * Protocol Buffers' wire format: reads and writes fields, but knows no message types. It is hand-written because the
 * byte fields here are gigabytes of weights: libraries need a whole file in memory to decode it, and copy every byte
 * field to encode it.
 *
 * @see https://protobuf.dev/programming-guides/encoding/
 * @module
 */

/** The layout of a field's payload. */
export const WireType = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;

/** One encoded field. `payload` is a view, not a copy. */
export interface Field {
  readonly number: number;
  readonly wireType: number;
  /** The field without its tag and, for {@linkcode WireType.bytes}, without its length. */
  readonly payload: Uint8Array;
}

/** Maximum number of bytes of a varint: 64 bits, 7 in each byte. */
export const MAX_VARINT_BYTES = 10;

const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** The length in bytes of the varint that starts at `offset`; `undefined` if `bytes` end before the varint does. */
export function readVarintLength(bytes: Uint8Array, offset: number): number | undefined {
  for (let i = offset; i < bytes.length; i++) {
    if (bytes[i]! < 0x80) return i - offset + 1;
    if (i - offset === MAX_VARINT_BYTES - 1) {
      throw new Error(
        "The file is not a Protocol Buffers message: a varint of more than 10 bytes.",
      );
    }
  }
  return undefined;
}

/** The unsigned value of a varint of at most 53 bits: tags, lengths, enums. */
export function readSmallVarint(bytes: Uint8Array, offset = 0): number {
  let value = 0;
  for (let i = offset, scale = 1; i < bytes.length; i++, scale *= 128) {
    value += (bytes[i]! & 0x7f) * scale;
    if (bytes[i]! < 0x80) return value;
  }
  throw new Error("The file is not a Protocol Buffers message: it ends inside a number.");
}

/** The value of an `int64` varint. */
export function readInt64Varint(bytes: Uint8Array, offset = 0): bigint {
  let value = 0n;
  for (let i = offset, shift = 0n; i < bytes.length; i++, shift += 7n) {
    value |= BigInt(bytes[i]! & 0x7f) << shift;
    if (bytes[i]! < 0x80) return BigInt.asIntN(64, value);
  }
  throw new Error("The file is not a Protocol Buffers message: it ends inside a number.");
}

/** The length in bytes of a payload of this wire type; `undefined` for `bytes` fields, which store their length. */
export function getFixedLength(wireType: number): number | undefined {
  switch (wireType) {
    case WireType.fixed64:
      return 8;
    case WireType.fixed32:
      return 4;
    case WireType.bytes:
      return undefined;
    default:
      throw new Error(`The file is not a Protocol Buffers message: wire type ${wireType}.`);
  }
}

/** Reads the fields of a message that is in memory. */
export function* readFields(bytes: Uint8Array): Generator<Field> {
  let offset = 0;
  const varint = () => {
    const length = readVarintLength(bytes, offset);
    if (length === undefined) readSmallVarint(bytes, offset);
    const start = offset;
    offset += length!;
    return start;
  };
  while (offset < bytes.length) {
    const tag = readSmallVarint(bytes, varint());
    const wireType = tag % 8;
    let start: number;
    if (wireType === WireType.varint) {
      start = varint();
    } else {
      const length = getFixedLength(wireType) ?? readSmallVarint(bytes, varint());
      start = offset;
      offset += length;
    }
    if (offset > bytes.length) {
      throw new Error(
        "The file is not a Protocol Buffers message: a field is longer than the rest.",
      );
    }
    yield { number: Math.floor(tag / 8), wireType, payload: bytes.subarray(start, offset) };
  }
}

/** Whether a message has a field with one of these numbers. Unlike {@linkcode readFields} it makes no views. */
export function hasField(bytes: Uint8Array, numbers: readonly number[]): boolean {
  for (let offset = 0; offset < bytes.length;) {
    const tag = readSmallVarint(bytes, offset);
    if (numbers.includes(Math.floor(tag / 8))) return true;
    offset += readVarintLength(bytes, offset)!;
    const wireType = tag % 8;
    const length = wireType === WireType.varint
      ? readVarintLength(bytes, offset)
      : getFixedLength(wireType);
    offset += length ?? readSmallVarint(bytes, offset) + readVarintLength(bytes, offset)!;
  }
  return false;
}

/** The text of a string field. */
export function decodeText(field: Field): string {
  return decoder.decode(field.payload);
}

/** Decodes the numbers of an `int64`, `int32` or enum field, packed or single. */
export function* decodeInt64s(field: Field): Generator<bigint> {
  for (let offset = 0; offset < field.payload.length;) {
    yield readInt64Varint(field.payload, offset);
    offset += readVarintLength(field.payload, offset) ?? field.payload.length;
  }
}

/** All one-byte varints: most tags and lengths of a graph take one byte. */
const SHORT_VARINTS = Array.from({ length: 0x80 }, (_, value) => Uint8Array.of(value));

function varintBytes(value: number | bigint): Uint8Array {
  if (value >= 0 && value < 0x80) return SHORT_VARINTS[Number(value)]!;
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  do {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    bytes.push(rest === 0n ? low : low | 0x80);
  } while (rest !== 0n);
  return Uint8Array.from(bytes);
}

/** Collects the fields of one message. Byte fields are not copied before {@linkcode MessageWriter.finish}. */
export class MessageWriter {
  readonly #chunks: Uint8Array[] = [];
  #length = 0;

  #push(chunk: Uint8Array): void {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
  }

  /** Adds a field that is already encoded. */
  field({ number, wireType, payload }: Field): this {
    this.#push(varintBytes(number * 8 + wireType));
    if (wireType === WireType.bytes) this.#push(varintBytes(payload.length));
    this.#push(payload);
    return this;
  }

  /** Adds a number. */
  int(number: number, value: number | bigint): this {
    return this.field({ number, wireType: WireType.varint, payload: varintBytes(value) });
  }

  /** Adds a `float`. */
  float(number: number, value: number): this {
    const payload = new Uint8Array(4);
    new DataView(payload.buffer).setFloat32(0, value, true);
    return this.field({ number, wireType: WireType.fixed32, payload });
  }

  /** Adds bytes. */
  bytes(number: number, payload: Uint8Array): this {
    return this.field({ number, wireType: WireType.bytes, payload });
  }

  /** Adds a string. */
  text(number: number, value: string): this {
    return this.bytes(number, encoder.encode(value));
  }

  /** Adds a message. */
  message(number: number, message: MessageWriter): this {
    this.#push(varintBytes(number * 8 + WireType.bytes));
    this.#push(varintBytes(message.#length));
    for (const chunk of message.#chunks) this.#push(chunk);
    return this;
  }

  /** Copies all fields to the encoded message. */
  finish(): Uint8Array {
    const bytes = new Uint8Array(this.#length);
    let offset = 0;
    for (const chunk of this.#chunks) {
      bytes.set(chunk, offset);
      offset += chunk.length;
    }
    return bytes;
  }
}
