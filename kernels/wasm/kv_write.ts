/**
 * Rotates a step's queries and keys by position, and writes its keys and values into the cache.
 *
 * With `x` a head at position `p`, and `x'` its element that turns with `x[i]`:
 *
 * `y[i] = x[i] * cos[p, a(i)] ∓ x'[i] * sin[p, a(i)]`, minus for the first of the two
 *
 * Queries and keys are rotated in place; keys are then scattered into their tile, values are copied.
 */
import { quantizeKey, quantizeValue } from "./cache_tile";
import { Site, Step, TILE, tileOffset, wordAt } from "./layout";

export function kvWrite(site: Site, step: Step): void {
  for (let s: u32 = 0; s < step.numSequences; s++) {
    const table = step.blockTables + <usize> (s * step.maxBlocksPerSequence) * 4;
    const end = wordAt(step.queryStarts, s + 1);
    for (let token = wordAt(step.queryStarts, s); token < end; token++) {
      turnToken(site, token, wordAt(step.anglePositions, token));
      writeToken(site, table, token, wordAt(step.positions, token));
    }
  }
}

function turnToken(site: Site, token: u32, position: u32): void {
  if (site.rotarySize === 0) return;
  const headBytes = site.headSize * 4;
  let query = site.q + <usize> (token * site.qStride + site.qOffset) * 4;
  for (let head: u32 = 0; head < site.heads; head++, query += headBytes) {
    turn(site, query, position);
  }
  let key = site.k + <usize> (token * site.kStride + site.kOffset) * 4;
  for (let head: u32 = 0; head < site.kvHeads; head++, key += headBytes) {
    turn(site, key, position);
  }
}

function writeToken(site: Site, table: usize, token: u32, position: u32): void {
  const headBytes = site.headSize * 4;
  let key = site.k + <usize> (token * site.kStride + site.kOffset) * 4;
  let value = site.v + <usize> (token * site.vStride + site.vOffset) * 4;
  const slot = position % TILE;
  for (let head: u32 = 0; head < site.kvHeads; head++, key += headBytes, value += headBytes) {
    const tile = tileOffset(site, table, head, position);
    if (site.isQuantized) {
      quantizeKey(key, site.headSize, site.kCache + tile, slot);
      quantizeValue(value, site.headSize, site.vCache + tile, slot);
      continue;
    }
    scatter(key, headBytes, site.kCache + tile + slot * 4);
    copy(value, headBytes, site.vCache + tile + slot * headBytes);
  }
}

/** Beats `memory.copy`, which leaves the module, at these sizes. */
function copy(from: usize, numBytes: usize, to: usize): void {
  for (const end = from + numBytes; from < end; from += 16, to += 16) {
    v128.store(to, v128.load(from));
  }
}

/** Writes a head's elements `TILE` apart. */
function scatter(from: usize, numBytes: usize, to: usize): void {
  const end = from + numBytes;
  for (; from < end; from += 16, to += TILE * 16) {
    const four = v128.load(from);
    v128.store_lane<f32>(to, four, 0);
    v128.store_lane<f32>(to, four, 1, TILE * 4);
    v128.store_lane<f32>(to, four, 2, TILE * 8);
    v128.store_lane<f32>(to, four, 3, TILE * 12);
  }
}

/** Turns a head in place. */
function turn(site: Site, head: usize, position: u32): void {
  const angles = <usize> (position * site.rotarySize) * 2;
  const cos = site.cos + angles;
  const sin = site.sin + angles;
  if (site.isInterleaved) turnNeighbours(head, cos, sin, site.rotarySize);
  else turnHalves(head, cos, sin, site.rotarySize);
}

export function turnHalves(first: usize, cos: usize, sin: usize, size: u32): void {
  const half = <usize> size * 2;
  for (const end = first + half; first < end; first += 16, cos += 16, sin += 16) {
    const c = v128.load(cos);
    const s = v128.load(sin);
    const x = v128.load(first);
    const y = v128.load(first + half);
    v128.store(first, f32x4.sub(f32x4.mul(x, c), f32x4.mul(y, s)));
    v128.store(first + half, f32x4.add(f32x4.mul(y, c), f32x4.mul(x, s)));
  }
}

/** Two pairs at a time. */
export function turnNeighbours(pairs: usize, cos: usize, sin: usize, size: u32): void {
  const signs = f32x4(-1, 1, -1, 1);
  for (const end = pairs + <usize> size * 4; pairs < end; pairs += 16, cos += 8, sin += 8) {
    const c = twice(v128.load64_zero(cos));
    const s = f32x4.mul(twice(v128.load64_zero(sin)), signs);
    const xy = v128.load(pairs);
    const yx = v128.shuffle<f32>(xy, xy, 1, 0, 3, 2);
    v128.store(pairs, f32x4.add(f32x4.mul(xy, c), f32x4.mul(yx, s)));
  }
}

/** `a, a, b, b` of `a, b, …`. */
function twice(two: v128): v128 {
  return v128.shuffle<f32>(two, two, 0, 0, 1, 1);
}
