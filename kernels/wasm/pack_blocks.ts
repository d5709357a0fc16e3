/** Packs a matrix of `MatMulNBits` for `product`. */
import { transpose } from "./lanes";
import { BLOCK_BYTES, GROUP, ZEROS_BLOCK_BYTES } from "./product_layout";

/**
 * Packs groups of four outputs. For each block, corresponding words of the four outputs lie side by side, followed by
 * the four scales, and by the zero points, each twice.
 *
 * @param levels u8 `[outputs, blocks, 16]`: the lower half of byte `i` is weight `2i` of the block, the upper `2i + 1`.
 * @param scales f32 `[outputs, blocks]`.
 * @param zeros u8 `[outputs, blocks]`; 0 for none.
 */
export function packBlocks(
  levels: usize,
  scales: usize,
  zeros: usize,
  blocks: u32,
  numGroups: u32,
  into: usize,
): void {
  const levelBytes = <usize> blocks * 16;
  const scaleBytes = <usize> blocks * 4;
  const blockBytes = zeros ? ZEROS_BLOCK_BYTES : BLOCK_BYTES;
  for (let group: u32 = 0; group < numGroups; group++) {
    for (let block: u32 = 0; block < blocks; block++, into += blockBytes) {
      transpose(levels + <usize> block * 16, levelBytes, into, 16);
      const from = scales + <usize> block * 4;
      for (let i: usize = 0; i < GROUP; i++) {
        store<f32>(into + i * 4, load<f32>(from + i * scaleBytes), 64);
      }
      if (zeros) {
        for (let i: usize = 0; i < GROUP; i++) {
          const zero = <u16> load<u8>(zeros + i * blocks + block);
          store<u16>(into + i * 2, zero * 0x101, 80);
        }
      }
    }
    levels += levelBytes * GROUP;
    scales += scaleBytes * GROUP;
    if (zeros) zeros += <usize> blocks * GROUP;
  }
}
