/**
 * Depthwise causal convolution along the tokens of each sequence:
 *
 * `out[t] = activation(bias + sum over k of w[k] * x[t - taps + 1 + k])`, where inputs before the step's first come
 * from the state.
 */
import { ConvNode, rangeAt, StateRange } from "./layout";
import { madd, silu } from "./vectors";

/**
 * Computes the parts `[first, end)` of the work: each is some channels of a sequence. `scratch` holds an address for
 * each tap.
 */
export function causalConv(
  node: ConvNode,
  ranges: usize,
  _items: usize,
  first: u32,
  end: u32,
  scratch: usize,
): void {
  const numParts = (node.channels + node.partChannels - 1) / node.partChannels;
  for (let work = first; work < end; work++) {
    const range = rangeAt(ranges, work / numParts);
    const from = work % numParts * node.partChannels;
    const to = min(from + node.partChannels, node.channels);
    convolve(node, range, from, to, scratch);
    if (range.savedEnd) keepInputs(node, range, range.savedEnd, range.savedSlot, from, to);
    keepInputs(node, range, range.end, range.slot, from, to);
  }
}

/** Address of the state in a slot. */
@inline
function stateAt(node: ConvNode, slot: u32): usize {
  return node.state + <usize> slot * (node.taps - 1) * node.stride * 4;
}

function convolve(node: ConvNode, range: StateRange, from: u32, to: u32, inputs: usize): void {
  const kept = <i32> node.taps - 1;
  const rowBytes = <usize> node.stride * 4;
  const state = stateAt(node, range.slot);
  if (range.isFresh) {
    for (let k = 0; k < kept; k++) {
      memory.fill(state + k * rowBytes + from * 4, 0, (to - from) * 4);
    }
  }
  for (let row = range.first; row < range.end; row++) {
    // Finds the input of each tap.
    for (let k = 0; k <= kept; k++) {
      const at = <i32> (row - range.first) - kept + k;
      const x = at < 0 ? state + (kept + at) * rowBytes : node.x + (range.first + at) * rowBytes;
      store<usize>(inputs + k * sizeof<usize>(), x);
    }
    const out = node.out + <usize> row * node.channels * 4;
    if (node.taps === 4) {
      convolveFour(node, inputs, out, from, to);
      continue;
    }
    for (let c = <usize> from * 4; c < <usize> to * 4; c += 16) {
      let factors = node.factors + c;
      let sum = v128.load(factors + node.taps * rowBytes);
      for (let k: u32 = 0; k < node.taps; k++, factors += rowBytes) {
        const x = load<usize>(inputs + k * sizeof<usize>());
        sum = madd(v128.load(factors), v128.load(x + c), sum);
      }
      if (node.isSilu) sum = silu(sum);
      storeUpTo(out + c, sum, <usize> to * 4 - c);
    }
  }
}

/** Computes a row with four taps, the number that most models have. */
function convolveFour(node: ConvNode, inputs: usize, out: usize, from: u32, to: u32): void {
  const rowBytes = <usize> node.stride * 4;
  const x0 = load<usize>(inputs);
  const x1 = load<usize>(inputs, sizeof<usize>());
  const x2 = load<usize>(inputs, 2 * sizeof<usize>());
  const x3 = load<usize>(inputs, 3 * sizeof<usize>());
  const w0 = node.factors;
  const w1 = w0 + rowBytes;
  const w2 = w1 + rowBytes;
  const w3 = w2 + rowBytes;
  const bias = w3 + rowBytes;
  const end = <usize> to * 4;
  for (let c = <usize> from * 4; c < end; c += 16) {
    let sum = madd(v128.load(w0 + c), v128.load(x0 + c), v128.load(bias + c));
    sum = madd(v128.load(w1 + c), v128.load(x1 + c), sum);
    sum = madd(v128.load(w2 + c), v128.load(x2 + c), sum);
    sum = madd(v128.load(w3 + c), v128.load(x3 + c), sum);
    if (node.isSilu) sum = silu(sum);
    storeUpTo(out + c, sum, end - c);
  }
}

/** Saves the last inputs before row `end` as the state in a slot. */
function keepInputs(
  node: ConvNode,
  range: StateRange,
  end: u32,
  slot: u32,
  from: u32,
  to: u32,
): void {
  const kept = <i32> node.taps - 1;
  const rowBytes = <usize> node.stride * 4;
  const state = stateAt(node, range.slot);
  const into = stateAt(node, slot);
  const numRows = <i32> (end - range.first);
  for (let k = 0; k < kept; k++) {
    const at = numRows - kept + k;
    const x = at < 0 ? state + (kept + at) * rowBytes : node.x + (range.first + at) * rowBytes;
    memory.copy(into + k * rowBytes + from * 4, x + from * 4, (to - from) * 4);
  }
}

/** Stores the first elements of a vector, as many as fit into `numBytes`. */
@inline
export function storeUpTo(at: usize, four: v128, numBytes: usize): void {
  if (numBytes >= 16) {
    v128.store(at, four);
    return;
  }
  v128.store_lane<f32>(at, four, 0);
  if (numBytes > 4) v128.store_lane<f32>(at, four, 1, 4);
  if (numBytes > 8) v128.store_lane<f32>(at, four, 2, 8);
}
