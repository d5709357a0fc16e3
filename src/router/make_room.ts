/**
 * Which models start and which leave, within a number of models and an amount of memory. Pure.
 *
 * @module
 */

/** What all loaded models may take. */
export interface RoomLimits {
  readonly maxLoaded: number;
  /** Infinite where memory is not limited. */
  readonly maxBytes: number;
}

/** A model that is loaded, or comes or goes. */
interface Occupant {
  /** Whether it could leave: it is neither loading nor ending. */
  readonly isLoaded: boolean;
  /** It leaves already. */
  readonly isLeaving: boolean;
  readonly numInUse: number;
  /** The larger, the later. */
  readonly lastUse: number;
  /** What it takes, as far as known. */
  readonly bytes: number;
}

/**
 * The first of those that want to come, as far as there is room. One that takes more than all there is comes once it is
 * alone.
 */
export function chooseStarts<W extends Pick<Occupant, "bytes">>(
  wanted: readonly W[],
  occupants: readonly Occupant[],
  { maxLoaded, maxBytes }: RoomLimits,
): W[] {
  let numLoaded = occupants.length;
  let bytes = sumBytes(occupants);
  const end = wanted.findIndex((each) => {
    const fits = numLoaded < maxLoaded && (numLoaded === 0 || bytes + each.bytes <= maxBytes);
    numLoaded++;
    bytes += each.bytes;
    return !fits;
  });
  return wanted.slice(0, end < 0 ? wanted.length : end);
}

/** Those that leave so that `wanted` have room: idle ones first, then those used least recently. */
export function chooseLeaving<O extends Occupant>(
  occupants: readonly O[],
  wanted: readonly Pick<Occupant, "bytes">[],
  { maxLoaded, maxBytes }: RoomLimits,
): O[] {
  const staying = occupants.filter(({ isLeaving }) => !isLeaving);
  const candidates = staying.filter(({ isLoaded }) => isLoaded)
    .sort((a, b) => Math.sign(a.numInUse) - Math.sign(b.numInUse) || a.lastUse - b.lastUse);
  let numTooMany = staying.length + wanted.length - maxLoaded;
  // The others wait until it has come.
  let excessBytes = sumBytes(staying) + (wanted[0]?.bytes ?? 0) - maxBytes;
  // With nobody waiting, the last one stays, however large it is.
  const mayLeave = wanted.length > 0 ? candidates.length : staying.length - 1;
  const leaving: O[] = [];
  for (const each of candidates.slice(0, mayLeave)) {
    if (numTooMany <= 0 && excessBytes <= 0) break;
    leaving.push(each);
    numTooMany--;
    excessBytes -= each.bytes;
  }
  return leaving;
}

function sumBytes(occupants: readonly Pick<Occupant, "bytes">[]): number {
  return occupants.reduce((sum, { bytes }) => sum + bytes, 0);
}
