/** Lays out a matrix of `MatMulNBits` for `product`. */
import { BLOCK_BYTES, GROUP } from "./product_layout";

/**
 * Packs groups of four outputs. Of each block the same words of the four lie side by side, then the four scales.
 *
 * @param levels u8 `[outputs, blocks, 16]`: the lower half of byte `i` is weight `2i` of the block, the upper `2i + 1`.
 * @param scales f32 `[outputs, blocks]`.
 */
export function packBlocks(
  levels: usize,
  scales: usize,
  blocks: u32,
  numGroups: u32,
  into: usize,
): void {
  const levelBytes = <usize> blocks * 16;
  const scaleBytes = <usize> blocks * 4;
  for (let group: u32 = 0; group < numGroups; group++) {
    for (let block: u32 = 0; block < blocks; block++, into += BLOCK_BYTES) {
      transpose(levels + <usize> block * 16, levelBytes, into);
      const from = scales + <usize> block * 4;
      for (let i: usize = 0; i < GROUP; i++) {
        store<f32>(into + i * 4, load<f32>(from + i * scaleBytes), 64);
      }
    }
    levels += levelBytes * GROUP;
    scales += scaleBytes * GROUP;
  }
}

/** Four rows of four words, `stride` bytes apart, into four columns. */
function transpose(from: usize, stride: usize, into: usize): void {
  const a = v128.load(from);
  const b = v128.load(from + stride);
  const c = v128.load(from + 2 * stride);
  const d = v128.load(from + 3 * stride);
  const ab = v128.shuffle<i32>(a, b, 0, 4, 1, 5);
  const cd = v128.shuffle<i32>(c, d, 0, 4, 1, 5);
  const ab2 = v128.shuffle<i32>(a, b, 2, 6, 3, 7);
  const cd2 = v128.shuffle<i32>(c, d, 2, 6, 3, 7);
  v128.store(into, v128.shuffle<i64>(ab, cd, 0, 2));
  v128.store(into, v128.shuffle<i64>(ab, cd, 1, 3), 16);
  v128.store(into, v128.shuffle<i64>(ab2, cd2, 0, 2), 32);
  v128.store(into, v128.shuffle<i64>(ab2, cd2, 1, 3), 48);
}
