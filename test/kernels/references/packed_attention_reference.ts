/**
 * `packed_attention` in plain TypeScript: the reference for the WGSL and the SIMD kernel.
 *
 * @module
 */
import type { PackedBounds, PackedParams } from "../../../kernels/attention/packed_attention.ts";

/** Tensors of one layer; see `PackedTensors`. */
interface PackedArrays {
  readonly q: Float32Array;
  readonly k: Float32Array;
  readonly v: Float32Array;
  readonly out: Float32Array;
}

/** See `PackedAttention`. Sums are in float64. */
export function attendPacked(
  bounds: PackedBounds,
  arrays: PackedArrays,
  params: PackedParams,
): void {
  const { numSequences, queryStarts, keyStarts, keyLengths } = bounds;
  const { shape: { heads, kvHeads, headSize }, q, k, v, scale, softcap, window } = params;
  for (let s = 0; s < numSequences; s++) {
    for (let token = queryStarts[s]!; token < queryStarts[s + 1]!; token++) {
      const position = token - queryStarts[s]!;
      const first = window > 0 ? Math.max(0, position - window) : 0;
      const end = window > 0 ? Math.min(keyLengths[s]!, position + window + 1) : keyLengths[s]!;
      for (let head = 0; head < heads; head++) {
        const kvHead = Math.floor(head * kvHeads / heads);
        const queryAt = token * q.stride + q.offset + head * headSize;
        const scores = new Float64Array(end - first);
        let largest = -Infinity;
        for (let j = 0; j < scores.length; j++) {
          const keyAt = (keyStarts[s]! + first + j) * k.stride + k.offset + kvHead * headSize;
          let product = 0;
          for (let d = 0; d < headSize; d++) {
            product += arrays.q[queryAt + d]! * arrays.k[keyAt + d]!;
          }
          product *= scale;
          scores[j] = softcap > 0 ? softcap * Math.tanh(product / softcap) : product;
          largest = Math.max(largest, scores[j]!);
        }
        const sum = new Float64Array(headSize);
        let total = 0;
        for (let j = 0; j < scores.length; j++) {
          const weight = Math.exp(scores[j]! - largest);
          total += weight;
          const valueAt = (keyStarts[s]! + first + j) * v.stride + v.offset + kvHead * headSize;
          for (let d = 0; d < headSize; d++) sum[d]! += weight * arrays.v[valueAt + d]!;
        }
        const outAt = (token * heads + head) * headSize;
        for (let d = 0; d < headSize; d++) arrays.out[outAt + d] = sum[d]! / total;
      }
    }
  }
}
