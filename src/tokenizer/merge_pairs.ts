import type { MergeTable } from "./merge_table.ts";

/** Words of at most this many symbols are merged by scanning all of them for the next pair. */
const MAX_SCANNED = 24;

/**
 * Merges neighbouring tokens: the pair of the lowest rank first, among equals the leftmost.
 *
 * @param ids may be modified.
 */
export function mergePairs(ids: number[], merges: MergeTable): readonly number[] {
  if (ids.length < 2) return ids;
  return ids.length <= MAX_SCANNED ? mergeShort(ids, merges) : mergeLong(ids, merges);
}

function mergeShort(ids: number[], merges: MergeTable): readonly number[] {
  const ranks: number[] = [];
  for (let i = 0; i + 1 < ids.length; i++) ranks.push(merges.getRank(ids[i]!, ids[i + 1]!));
  for (;;) {
    let best = -1;
    for (let i = 0; i < ranks.length; i++) {
      if (ranks[i]! >= 0 && (best < 0 || ranks[i]! < ranks[best]!)) best = i;
    }
    if (best < 0) return ids;
    ids[best] = merges.getMerged(ids[best]!, ids[best + 1]!);
    ids.splice(best + 1, 1);
    ranks.splice(best, 1);
    if (best > 0) ranks[best - 1] = merges.getRank(ids[best - 1]!, ids[best]!);
    if (best < ranks.length) ranks[best] = merges.getRank(ids[best]!, ids[best + 1]!);
  }
}

/**
 * Merges a long word. Symbols form a linked list and pairs wait in a heap, so a word of n symbols takes n log n steps.
 */
function mergeLong(ids: number[], merges: MergeTable): readonly number[] {
  const { length } = ids;
  const next = Int32Array.from(ids, (_, index) => index + 1);
  const previous = Int32Array.from(ids, (_, index) => index - 1);
  const heap = new PairHeap();
  const add = (at: number) => {
    const after = next[at]!;
    const rank = after < length ? merges.getRank(ids[at]!, ids[after]!) : -1;
    if (rank >= 0) heap.push(rank, at);
  };
  for (let at = 0; at < length; at++) add(at);
  for (let pair = heap.pop(); pair !== undefined; pair = heap.pop()) {
    const { rank, at } = pair;
    const after = next[at]!;
    // One of the two may have been merged in the meantime.
    const isThere = ids[at]! >= 0 && after < length &&
      merges.getRank(ids[at]!, ids[after]!) === rank;
    if (!isThere) continue;
    ids[at] = merges.getMerged(ids[at]!, ids[after]!);
    ids[after] = -1;
    next[at] = next[after]!;
    if (next[at]! < length) previous[next[at]!] = at;
    add(at);
    if (previous[at]! >= 0) add(previous[at]!);
  }
  return ids.filter((id) => id >= 0);
}

/** Positions must be below this to fit into a heap key. */
const MAX_POSITIONS = 2 ** 32;

/** A binary heap of pairs, ordered by rank and then by position. */
class PairHeap {
  /** Each key is the rank times {@linkcode MAX_POSITIONS}, plus the position. */
  readonly #keys: number[] = [];

  push(rank: number, at: number): void {
    const keys = this.#keys;
    const key = rank * MAX_POSITIONS + at;
    let index = keys.push(key) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (keys[parent]! <= key) break;
      keys[index] = keys[parent]!;
      index = parent;
    }
    keys[index] = key;
  }

  pop(): { rank: number; at: number } | undefined {
    const keys = this.#keys;
    const [first] = keys;
    if (first === undefined) return undefined;
    const key = keys.pop()!;
    for (let index = 0; index < keys.length;) {
      let child = 2 * index + 1;
      if (child + 1 < keys.length && keys[child + 1]! < keys[child]!) child++;
      if (child >= keys.length || keys[child]! >= key) {
        keys[index] = key;
        break;
      }
      keys[index] = keys[child]!;
      index = child;
    }
    const rank = Math.floor(first / MAX_POSITIONS);
    return { rank, at: first - rank * MAX_POSITIONS };
  }
}
