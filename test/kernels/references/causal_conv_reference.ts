/**
 * `causal_conv` on the CPU.
 *
 * @module
 */
import { type CausalConvParams, checkTaps } from "../../../kernels/states/recurrences.ts";
import type { StateRange } from "../../../kernels/states/state_step.ts";

/** Arrays of one convolution, with the layout of its tensors. */
interface CausalConvArrays {
  readonly x: Float32Array | Float64Array | Float16Array;
  readonly factors: Float32Array;
  /** Float64 for an exact result. */
  readonly state: Float32Array | Float64Array;
  readonly out: Float32Array | Float64Array | Float16Array;
}

/** See {@linkcode CausalConv}. @throws {RangeError} if the kernel refuses the parameters. */
export function causalConvReference(
  params: Omit<CausalConvParams, "elem">,
  { x, factors, state, out }: CausalConvArrays,
  ranges: readonly StateRange[],
): void {
  checkTaps(params);
  const { channels, taps, stride, offset, activation } = params;
  const kept = taps - 1;
  for (const { first, end, slot, isFresh, saved } of ranges) {
    // The last inputs of each channel, oldest first.
    const own = state.subarray(slot * kept * channels, (slot + 1) * kept * channels);
    if (isFresh) own.fill(0);
    for (let row = first; row < end; row++) {
      const [from, to] = [row * stride + offset, row * channels];
      for (let c = 0; c < channels; c++) {
        let sum = factors[taps * channels + c]! + factors[kept * channels + c]! * x[from + c]!;
        for (let k = 0; k < kept; k++) sum += factors[k * channels + c]! * own[k * channels + c]!;
        out[to + c] = activation === "silu" ? sum / (1 + Math.exp(-sum)) : sum;
      }
      if (kept === 0) continue;
      own.copyWithin(0, channels);
      for (let c = 0; c < channels; c++) own[(kept - 1) * channels + c] = x[from + c]!;
      if (row + 1 === saved?.end) state.set(own, saved.slot * kept * channels);
    }
  }
}
