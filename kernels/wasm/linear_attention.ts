/**
 * Linear attention. Let `S` be a head's state; for each token of a sequence in turn:
 *
 * `S = decay * S`, then `S = S + k ⊗ v`, or by the delta rule `S = S + k ⊗ beta (v - Sᵀ k)`, and `out = scale * Sᵀ q`
 *
 * Sixteen columns of a state at a time are processed for all tokens. They lie side by side: 8 KiB for 128 rows, which
 * stay in the L1 cache. The product of the state with the next token's key is summed in the same pass that adds a
 * token, so that a state is read once per token. (Processing chunks of tokens as matrices would take twice the
 * operations.) The result is the same, bit for bit, whether tokens come in one step or in several.
 */
import { is, No, Yes } from "./block_sums";
import { storeUpTo } from "./causal_conv";
import { LinearNode, rangeAt, StateRange } from "./layout";
import { madd } from "./vectors";

/** Bytes of a row of sixteen columns, and of four: the remaining columns are processed four at a time. */
const WIDE: usize = 64;
const NARROW: usize = 16;

/** Computes the parts `[first, end)` of the work: each is one head of a sequence. */
export function linearAttention(
  node: LinearNode,
  ranges: usize,
  _items: usize,
  first: u32,
  end: u32,
  _scratch: usize,
): void {
  for (let work = first; work < end; work++) {
    const range = rangeAt(ranges, work / node.heads);
    const head = work % node.heads;
    if (node.decaysRows) {
      if (node.rates) attendHead<Yes, Yes>(node, range, head);
      else attendHead<Yes, No>(node, range, head);
    } else {
      if (node.rates) attendHead<No, Yes>(node, range, head);
      else attendHead<No, No>(node, range, head);
    }
  }
}

/** `ByRow` says whether each row of a state has its own decay; `Delta` whether the delta rule is used. */
function attendHead<ByRow, Delta>(node: LinearNode, range: StateRange, head: u32): void {
  const rowBytes = <usize> node.valueStride * 4;
  const size = node.keyDim * rowBytes;
  const state = node.state + (<usize> range.slot * node.heads + head) * size;
  if (range.isFresh) memory.fill(state, 0, size);
  let first = range.first;
  if (range.savedEnd) {
    attendRows<ByRow, Delta>(node, first, range.savedEnd, head, state);
    memory.copy(node.state + (<usize> range.savedSlot * node.heads + head) * size, state, size);
    first = range.savedEnd;
  }
  if (first < range.end) attendRows<ByRow, Delta>(node, first, range.end, head, state);
}

/** Processes the rows `first` to `end`. */
function attendRows<ByRow, Delta>(
  node: LinearNode,
  first: usize,
  end: usize,
  head: u32,
  state: usize,
): void {
  const rowBytes = <usize> node.valueStride * 4;
  let column: usize = 0;
  for (; column + WIDE <= rowBytes; column += WIDE) {
    attendWide<ByRow, Delta>(node, first, end, head, column, state + column * node.keyDim);
  }
  for (; column < rowBytes; column += NARROW) {
    attendFour<ByRow, Delta>(node, first, end, head, column, state + column * node.keyDim);
  }
}

@inline
function queryAt(node: LinearNode, row: usize, head: u32): usize {
  return node.q + (row * node.queryHeads + head * node.queryHeads / node.heads) * node.keyDim * 4;
}

@inline
function keyAt(node: LinearNode, row: usize, head: u32): usize {
  return node.k + (row * node.keyHeads + head * node.keyHeads / node.heads) * node.keyDim * 4;
}

/** Address of the first of a head's decay factors. */
@inline
function decayAt<ByRow>(node: LinearNode, row: usize, head: u32): usize {
  const at = row * node.heads + head;
  return node.decays + (is<ByRow>() ? at * node.keyDim : at) * 4;
}

@inline
function rateAt(node: LinearNode, row: usize, head: u32): v128 {
  return v128.load32_splat(node.betas + (row * node.rates + (node.rates > 1 ? head : 0)) * 4);
}

/** The value that is multiplied with each element of the key and added to the state. */
@inline
function gainAt<Delta>(v: v128, held: v128, rate: v128): v128 {
  return is<Delta>() ? f32x4.mul(rate, f32x4.sub(v, held)) : v;
}

/** An element of a key, multiplied by the decay so that it applies to the state before its decay. */
@inline
function heldKey<ByRow>(key: usize, decay: usize): v128 {
  const k = v128.load32_splat(key);
  return is<ByRow>() ? f32x4.mul(k, v128.load32_splat(decay)) : k;
}

/** Processes sixteen columns, which begin at byte `column` of a row of values. Their state is at address `state`. */
function attendWide<ByRow, Delta>(
  node: LinearNode,
  firstRow: usize,
  endRow: usize,
  head: u32,
  column: usize,
  state: usize,
): void {
  const zero = f32x4.splat(0);
  const one = f32x4.splat(1);
  const scale = f32x4.splat(node.scale);
  const end = state + node.keyDim * WIDE;
  const headBytes = <usize> node.valueDim * 4;
  let h0 = zero, h1 = zero, h2 = zero, h3 = zero;
  if (is<Delta>()) {
    let key = keyAt(node, firstRow, head);
    let decay = decayAt<ByRow>(node, firstRow, head);
    for (let at = state; at < end; at += WIDE, key += 4, decay += 4) {
      const k = heldKey<ByRow>(key, decay);
      h0 = madd(k, v128.load(at), h0);
      h1 = madd(k, v128.load(at, 16), h1);
      h2 = madd(k, v128.load(at, 32), h2);
      h3 = madd(k, v128.load(at, 48), h3);
    }
  }
  for (let row: usize = firstRow; row < endRow; row++) {
    const hasNext = is<Delta>() && row + 1 < endRow;
    let decay = decayAt<ByRow>(node, row, head);
    let d = node.hasDecays && !is<ByRow>() ? v128.load32_splat(decay) : one;
    if (is<Delta>() && !is<ByRow>()) {
      h0 = f32x4.mul(h0, d);
      h1 = f32x4.mul(h1, d);
      h2 = f32x4.mul(h2, d);
      h3 = f32x4.mul(h3, d);
    }
    const rate = is<Delta>() ? rateAt(node, row, head) : one;
    const at = (row * node.heads + head) * headBytes + column;
    const g0 = gainAt<Delta>(v128.load(node.v + at), h0, rate);
    const g1 = gainAt<Delta>(v128.load(node.v + at, 16), h1, rate);
    const g2 = gainAt<Delta>(v128.load(node.v + at, 32), h2, rate);
    const g3 = gainAt<Delta>(v128.load(node.v + at, 48), h3, rate);
    let r0 = zero, r1 = zero, r2 = zero, r3 = zero;
    h0 = zero, h1 = zero, h2 = zero, h3 = zero;
    let key = keyAt(node, row, head);
    let query = queryAt(node, row, head);
    let nextKey = hasNext ? keyAt(node, row + 1, head) : key;
    let nextDecay = hasNext ? decayAt<ByRow>(node, row + 1, head) : decay;
    for (let s = state; s < end; s += WIDE, key += 4, query += 4) {
      if (is<ByRow>()) {
        d = v128.load32_splat(decay);
        decay += 4;
      }
      const k = v128.load32_splat(key);
      const q = v128.load32_splat(query);
      const s0 = madd(k, g0, f32x4.mul(v128.load(s), d));
      const s1 = madd(k, g1, f32x4.mul(v128.load(s, 16), d));
      const s2 = madd(k, g2, f32x4.mul(v128.load(s, 32), d));
      const s3 = madd(k, g3, f32x4.mul(v128.load(s, 48), d));
      v128.store(s, s0);
      v128.store(s, s1, 16);
      v128.store(s, s2, 32);
      v128.store(s, s3, 48);
      r0 = madd(q, s0, r0);
      r1 = madd(q, s1, r1);
      r2 = madd(q, s2, r2);
      r3 = madd(q, s3, r3);
      if (!hasNext) continue;
      const next = heldKey<ByRow>(nextKey, nextDecay);
      h0 = madd(next, s0, h0);
      h1 = madd(next, s1, h1);
      h2 = madd(next, s2, h2);
      h3 = madd(next, s3, h3);
      nextKey += 4;
      nextDecay += 4;
    }
    const out = node.out + at;
    storeUpTo(out, f32x4.mul(r0, scale), headBytes - column);
    storeUpTo(out + 16, f32x4.mul(r1, scale), headBytes - column - 16);
    storeUpTo(out + 32, f32x4.mul(r2, scale), headBytes - column - 32);
    storeUpTo(out + 48, f32x4.mul(r3, scale), headBytes - column - 48);
  }
}

/** Processes four columns; the last ones of a row may be fewer. */
function attendFour<ByRow, Delta>(
  node: LinearNode,
  firstRow: usize,
  endRow: usize,
  head: u32,
  column: usize,
  state: usize,
): void {
  const one = f32x4.splat(1);
  const end = state + node.keyDim * NARROW;
  const headBytes = <usize> node.valueDim * 4;
  let held = f32x4.splat(0);
  if (is<Delta>()) {
    let key = keyAt(node, firstRow, head);
    let decay = decayAt<ByRow>(node, firstRow, head);
    for (let at = state; at < end; at += NARROW, key += 4, decay += 4) {
      held = madd(heldKey<ByRow>(key, decay), v128.load(at), held);
    }
  }
  for (let row: usize = firstRow; row < endRow; row++) {
    const hasNext = is<Delta>() && row + 1 < endRow;
    let decay = decayAt<ByRow>(node, row, head);
    let d = node.hasDecays && !is<ByRow>() ? v128.load32_splat(decay) : one;
    if (is<Delta>() && !is<ByRow>()) held = f32x4.mul(held, d);
    const rate = is<Delta>() ? rateAt(node, row, head) : one;
    const at = (row * node.heads + head) * headBytes + column;
    const gain = gainAt<Delta>(v128.load(node.v + at), held, rate);
    let read = f32x4.splat(0);
    held = read;
    let key = keyAt(node, row, head);
    let query = queryAt(node, row, head);
    let nextKey = hasNext ? keyAt(node, row + 1, head) : key;
    let nextDecay = hasNext ? decayAt<ByRow>(node, row + 1, head) : decay;
    for (let s = state; s < end; s += NARROW, key += 4, query += 4) {
      if (is<ByRow>()) {
        d = v128.load32_splat(decay);
        decay += 4;
      }
      const x = madd(v128.load32_splat(key), gain, f32x4.mul(v128.load(s), d));
      v128.store(s, x);
      read = madd(v128.load32_splat(query), x, read);
      if (!hasNext) continue;
      held = madd(heldKey<ByRow>(nextKey, nextDecay), x, held);
      nextKey += 4;
      nextDecay += 4;
    }
    storeUpTo(node.out + at, f32x4.mul(read, f32x4.splat(node.scale)), headBytes - column);
  }
}
