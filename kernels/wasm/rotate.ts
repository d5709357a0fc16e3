/** Rotary position embeddings of the heads of a row. */
import { rotateHalves, rotateNeighbours } from "./kv_write";

/**
 * @param x f32 `[heads, headSize]`, like `out`.
 * @param cos f32 `[size / 2]`, like `sin`.
 */
export function rotateRow(
  x: usize,
  heads: u32,
  headSize: u32,
  size: u32,
  isInterleaved: u32,
  cos: usize,
  sin: usize,
  out: usize,
): void {
  const headBytes = <usize> headSize * 4;
  for (const end = out + heads * headBytes; out < end; out += headBytes) {
    for (const stop = x + headBytes; x < stop; x += 16) {
      v128.store(out + headBytes - (stop - x), v128.load(x));
    }
    if (isInterleaved) rotateNeighbours(out, cos, sin, size);
    else rotateHalves(out, cos, sin, size);
  }
}
