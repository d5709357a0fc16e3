/**
 * Unpacks LZW codes (Welch 1984) in the variants of GIF and TIFF.
 *
 * @module
 */

const MAX_CODE_BITS = 12;
const MAX_CODES = 1 << MAX_CODE_BITS;

/**
 * Unpacks until the codes or the output end, or a code is invalid.
 *
 * @param codes packed codes; any bytes are accepted.
 * @param output receives the values; unpacking stops when it is full.
 * @returns the number of values.
 */
export function unpackLzw(
  codes: Uint8Array,
  output: Uint8Array,
  { valueBits, isLowFirst, earlyChange }: {
    /** Bits of an uncompressed value. */
    readonly valueBits: number;
    /** Whether codes begin at the lowest bit of a byte, as in GIF, or at the highest, as in TIFF. */
    readonly isLowFirst: boolean;
    /** How many entries early codes get longer: 1 in TIFF, 0 in GIF. */
    readonly earlyChange: 0 | 1;
  },
): number {
  const clearCode = 1 << valueBits;
  const endCode = clearCode + 1;
  // Each entry is the entry of its prefix plus one value.
  const prefixes = new Uint16Array(MAX_CODES);
  const lastValues = new Uint8Array(MAX_CODES);
  const firstValues = new Uint8Array(MAX_CODES);
  const lengths = new Uint16Array(MAX_CODES);
  for (let value = 0; value < clearCode; value++) {
    lastValues[value] = firstValues[value] = value;
    lengths[value] = 1;
  }
  let numCodes = endCode + 1;
  let codeBits = valueBits + 1;
  let previous = -1;
  let bits = 0;
  let numBits = 0;
  let at = 0;
  let length = 0;
  while (length < output.length) {
    while (numBits < codeBits && at < codes.length) {
      bits = isLowFirst ? bits | codes[at++]! << numBits : bits << 8 | codes[at++]!;
      numBits += 8;
    }
    if (numBits < codeBits) break;
    const mask = (1 << codeBits) - 1;
    const code = isLowFirst ? bits & mask : bits >>> (numBits - codeBits) & mask;
    numBits -= codeBits;
    bits = isLowFirst ? bits >>> codeBits : bits & ((1 << numBits) - 1);

    if (code === endCode) break;
    if (code === clearCode) {
      numCodes = endCode + 1;
      codeBits = valueBits + 1;
      previous = -1;
      continue;
    }
    const isNew = code === numCodes && previous !== -1;
    if (code >= numCodes && !isNew) break;
    const first = firstValues[isNew ? previous : code]!;
    if (previous !== -1 && numCodes < MAX_CODES) {
      prefixes[numCodes] = previous;
      lastValues[numCodes] = first;
      firstValues[numCodes] = firstValues[previous]!;
      lengths[numCodes] = lengths[previous]! + 1;
      numCodes++;
      if (numCodes + earlyChange === 1 << codeBits && codeBits < MAX_CODE_BITS) codeBits++;
    } else if (isNew) break;
    const end = length + lengths[code]!;
    let entry = code;
    // An entry is read from its last value to its first; values beyond the output are dropped.
    for (let to = end - 1; to >= length; to--) {
      output[to] = lastValues[entry]!;
      entry = prefixes[entry]!;
    }
    length = Math.min(end, output.length);
    previous = code;
  }
  return length;
}
