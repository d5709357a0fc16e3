/**
 * One of the two products of a mixture of experts, and the activation after the first. For pairs (row, one of its
 * experts):
 *
 * `out[pair, i] = activated(W[gate row of i] · x[row of pair] + bias, W[up row of i] · x[row of pair] + bias)`
 */
import { multiplyExpertRow } from "./experts_multiply";
import { ExpertItem, ExpertPairs, ExpertsProduct } from "./product_layout";
import { activate, sigmoid, SILU } from "./vectors";

/** Number of pairs multiplied with a row of a matrix at a time. */
const TILE: u32 = 4;

/** Computes the parts `[first, end)` of the work: each item's outputs are divided into parts. */
export function expertsProduct(
  node: ExpertsProduct,
  step: ExpertPairs,
  items: usize,
  first: u32,
  end: u32,
  scratch: usize,
): void {
  const parts = (node.count + node.partOutputs - 1) / node.partOutputs;
  for (let work = first; work < end; work++) {
    const item = changetype<ExpertItem>(items + <usize> (work / parts) * offsetof<ExpertItem>());
    const from = (work % parts) * node.partOutputs;
    const count = min(node.partOutputs, node.count - from);
    // The part's weights stay in the cache between tiles.
    for (let pair = item.first; pair < item.end;) {
      const left = item.end - pair;
      const width: u32 = left >= TILE ? TILE : left >= 2 ? 2 : 1;
      multiplyTile(node, step, item.expert, pair, width, from, count, scratch);
      pair += width;
    }
  }
}

function multiplyTile(
  node: ExpertsProduct,
  step: ExpertPairs,
  expert: u32,
  pair: u32,
  width: u32,
  from: u32,
  count: u32,
  scratch: usize,
): void {
  const x0 = rowAt(node, step, pair);
  const x1 = width > 1 ? rowAt(node, step, pair + 1) : x0;
  const x2 = width > 2 ? rowAt(node, step, pair + 2) : x0;
  const x3 = width > 2 ? rowAt(node, step, pair + 3) : x0;
  const base = expert * node.outputs;
  const outBytes = <usize> node.partOutputs * 4;
  const ups = scratch + TILE * outBytes;
  for (let i: u32 = 0; i < count; i++) {
    const row = base + (from + i) * node.step;
    const at = scratch + (<usize> i) * 4;
    multiplyExpertRow(node, row + node.gate, width, x0, x1, x2, x3, at, outBytes);
    if (!node.isGated) continue;
    const up = ups + (<usize> i) * 4;
    multiplyExpertRow(node, row + node.up, width, x0, x1, x2, x3, up, outBytes);
  }
  for (let i: u32 = 0; i < width; i++) {
    const out = node.out + (<usize> pairAt(step, pair + i) * node.count + from) * 4;
    complete(node, expert, from, count, scratch + i * outBytes, ups + i * outBytes, out);
  }
}

@inline
function pairAt(step: ExpertPairs, pair: u32): u32 {
  return load<u32>(step.pairs + (<usize> pair) * 4);
}

@inline
function rowAt(node: ExpertsProduct, step: ExpertPairs, pair: u32): usize {
  return node.x + <usize> (pairAt(step, pair) / step.perRow) * node.xBytes;
}

/**
 * Activates the products of a pair. Outputs are computed four at a time, so a few beyond the last may be computed and
 * not used.
 */
function complete(
  node: ExpertsProduct,
  expert: u32,
  from: u32,
  count: u32,
  gates: usize,
  ups: usize,
  out: usize,
): void {
  if (node.bias) {
    const first = node.bias + <usize> (expert * node.outputs + from * node.step) * 4;
    addBias(gates, first + node.gate * 4, node.step, count);
    if (node.isGated) addBias(ups, first + node.up * 4, node.step, count);
  }
  const limit = f32x4.splat(node.limit);
  const beta = f32x4.splat(node.beta);
  const bytes = <usize> count * 4;
  for (let at: usize = 0; at < bytes; at += 16) {
    let gate = v128.load(gates + at);
    if (node.isGated) gate = f32x4.min(gate, limit);
    let value = activated(node, gate);
    if (node.isGated) {
      const up = f32x4.max(f32x4.min(v128.load(ups + at), limit), f32x4.neg(limit));
      value = f32x4.mul(value, f32x4.add(up, beta));
    }
    v128.store(out + at, value);
  }
}

@inline
function activated(node: ExpertsProduct, gate: v128): v128 {
  if (node.activation !== SILU) return activate(node.activation, gate);
  return f32x4.mul(gate, sigmoid(f32x4.mul(gate, f32x4.splat(node.alpha))));
}

function addBias(sums: usize, bias: usize, step: u32, count: u32): void {
  for (let i: u32 = 0; i < count; i++) {
    store<f32>(sums, load<f32>(sums) + load<f32>(bias));
    sums += 4;
    bias += <usize> step * 4;
  }
}
