/**
 * Partitions of the 256 bytes into classes that need not be distinguished.
 *
 * @module
 */

/** Classes of bytes that lead to the same. */
export interface ByteClasses {
  /** u8 `[256]`: the class of each byte. */
  readonly of: Uint8Array;
  /** A byte of each class. */
  readonly bytes: readonly number[];
}

/** The coarsest partition of bytes of which every set is a union. */
export function divideBytes(sets: readonly Uint32Array[]): ByteClasses {
  return divide(sets.map((bits) => (byte) => bits[byte >>> 5]! >>> (byte & 31) & 1));
}

/** Classes that distinguish all that any of these does. */
export function joinClasses(classes: readonly ByteClasses[]): ByteClasses {
  if (classes.length === 1) return classes[0]!;
  return divide(classes.map(({ of }) => (byte) => of[byte]!));
}

function divide(tests: readonly ((byte: number) => number)[]): ByteClasses {
  const of = new Uint8Array(256);
  let bytes = [0];
  for (const test of tests) {
    const indices = new Map<number, number>();
    bytes = [];
    for (let byte = 0; byte < 256; byte++) {
      const key = of[byte]! * 256 + test(byte);
      let index = indices.get(key);
      if (index === undefined) {
        indices.set(key, index = bytes.length);
        bytes.push(byte);
      }
      of[byte] = index;
    }
  }
  return { of, bytes };
}
