/**
 * Decides which models start and which are ended, within a number of models and an amount of memory. Pure.
 *
 * @module
 */

/** Limits on all loaded models together. */
export interface RoomLimits {
  readonly maxLoaded: number;
  /** Most memory; infinite if it is not limited. */
  readonly maxBytes: number;
}

/** A model that is loaded, loading or ending. */
interface Occupant {
  /** Whether the model can be ended: it is neither loading nor ending. */
  readonly isLoaded: boolean;
  /** Whether the model is already ending. */
  readonly isLeaving: boolean;
  readonly numInUse: number;
  /** A counter that is larger the more recently the model was used. */
  readonly lastUse: number;
  /** Memory that the model takes, as far as known. */
  readonly bytes: number;
}

/**
 * Returns the waiting models that can start now, in order, as far as there is room. A model that is larger than the
 * memory limit starts once no other model is loaded.
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

/** Returns the models to end so that `wanted` have room: idle ones first, then the least recently used. */
export function chooseLeaving<O extends Occupant>(
  occupants: readonly O[],
  wanted: readonly Pick<Occupant, "bytes">[],
  { maxLoaded, maxBytes }: RoomLimits,
): O[] {
  const staying = occupants.filter(({ isLeaving }) => !isLeaving);
  const candidates = staying.filter(({ isLoaded }) => isLoaded)
    .sort((a, b) => Math.sign(a.numInUse) - Math.sign(b.numInUse) || a.lastUse - b.lastUse);
  let numTooMany = staying.length + wanted.length - maxLoaded;
  // Memory is freed for the first waiting model only; the others wait until it has started.
  let excessBytes = sumBytes(staying) + (wanted[0]?.bytes ?? 0) - maxBytes;
  // If no model is waiting, the last one stays, however large it is.
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
