/**
 * The size of HEVC pictures, from their decoder configuration (ISO/IEC 14496-15, 8.3.3.1; ITU-T H.265, 7.3.2.2).
 *
 * @module
 */

const ARRAYS_AT = 22;
const SEQUENCE_PARAMETERS = 33;
/** Only of this kind of chroma does a bit say whether its planes are separate. */
const FULL_CHROMA = 3;

/**
 * The largest width and height of the sequence parameter sets; `undefined` if there are none that can be read, of which
 * the decoder makes nothing either.
 */
export function readHevcSize(
  configuration: DataView,
): { readonly width: number; readonly height: number } | undefined {
  try {
    const sizes = listSets(configuration).map(readSetSize);
    if (sizes.length === 0) return undefined;
    return {
      width: Math.max(...sizes.map(({ width }) => width)),
      height: Math.max(...sizes.map(({ height }) => height)),
    };
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

/** The units of one type out of the arrays of units. */
function listSets(view: DataView): Uint8Array[] {
  const sets: Uint8Array[] = [];
  let at = ARRAYS_AT + 1;
  for (let array = view.getUint8(ARRAYS_AT); array > 0; array--) {
    const type = view.getUint8(at) & 0x3f;
    const numUnits = view.getUint16(at + 1);
    at += 3;
    for (let unit = 0; unit < numUnits; unit++) {
      const length = view.getUint16(at);
      at += 2;
      const bytes = new Uint8Array(view.buffer, view.byteOffset + at, length);
      if (type === SEQUENCE_PARAMETERS) sets.push(bytes);
      at += length;
    }
  }
  return sets;
}

function readSetSize(unit: Uint8Array): { width: number; height: number } {
  const bits = new Bits(unit);
  // The unit's header and the number of the video parameter set.
  bits.skip(16 + 4);
  const numSubLayers = bits.take(3);
  // A flag, then the profile and level; then the same of sub-layers, if flags say so.
  bits.skip(1 + 88 + 8);
  const flags = Array.from({ length: numSubLayers }, () => [bits.take(1), bits.take(1)] as const);
  if (numSubLayers > 0) bits.skip(2 * (8 - numSubLayers));
  for (const [hasProfile, hasLevel] of flags) bits.skip(88 * hasProfile + 8 * hasLevel);
  bits.takeGolomb();
  if (bits.takeGolomb() === FULL_CHROMA) bits.skip(1);
  return { width: bits.takeGolomb(), height: bits.takeGolomb() };
}

/** Reads bits of a unit, without the bytes that keep it from looking like a start code. */
class Bits {
  readonly #bytes: readonly number[];
  #at = 0;

  constructor(unit: Uint8Array) {
    this.#bytes = [...unit].filter((byte, i) =>
      !(byte === 3 && unit[i - 1] === 0 && unit[i - 2] === 0)
    );
  }

  skip(count: number): void {
    this.#at += count;
  }

  /** @throws {RangeError} beyond the end. */
  take(count: number): number {
    let value = 0;
    for (let i = 0; i < count; i++, this.#at++) {
      const byte = this.#bytes[this.#at >> 3];
      if (byte === undefined) throw new RangeError("the parameters are cut off");
      value = value * 2 + (byte >> (7 - (this.#at & 7)) & 1);
    }
    return value;
  }

  /** An unsigned number of Exp-Golomb code: as many zeros as it has bits after its first one. */
  takeGolomb(): number {
    let numZeros = 0;
    while (numZeros < 32 && this.take(1) === 0) numZeros++;
    return 2 ** numZeros - 1 + this.take(numZeros);
  }
}
