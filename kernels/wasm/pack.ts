/** Packs matrices for `product` and `floatProduct`. The memory must be 0 at first. */
import { transpose } from "./lanes";
import { BLOCK_BYTES, FLOAT_GROUP, FLOAT_GROUP_BYTES, GROUP, ZEROS_BLOCK_BYTES } from "./product_layout";

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

/**
 * Packs rows of a matrix that is stored by inputs.
 *
 * @param from f32 `[count, outputs]`, the inputs `first` to `first + count`.
 * @param into f32 `[groups, k, FLOAT_GROUP]`.
 */
export function packColumns(
  from: usize,
  outputs: u32,
  k: u32,
  first: u32,
  count: u32,
  into: usize,
): void {
  const rowBytes = <usize> outputs * 4;
  const groupBytes = <usize> k * FLOAT_GROUP_BYTES;
  into += <usize> first * FLOAT_GROUP_BYTES;
  const whole = rowBytes & ~(FLOAT_GROUP_BYTES - 1);
  for (let column: usize = 0; column < whole; column += FLOAT_GROUP_BYTES, into += groupBytes) {
    let at = from + column;
    let to = into;
    for (let input: u32 = 0; input < count; input++, at += rowBytes, to += FLOAT_GROUP_BYTES) {
      v128.store(to, v128.load(at));
      v128.store(to, v128.load(at, 16), 16);
    }
  }
  if (whole === rowBytes) return;
  for (let input: usize = 0; input < count; input++) {
    const to = into + input * FLOAT_GROUP_BYTES;
    memory.copy(to, from + input * rowBytes + whole, rowBytes - whole);
  }
}

/**
 * Packs rows of a matrix that is stored by outputs.
 *
 * @param from f32 `[count, k]`, beginning with the first output of a group.
 * @param into f32 `[groups, k, FLOAT_GROUP]`, from that group on.
 */
export function packRows(from: usize, k: u32, count: u32, into: usize): void {
  const rowBytes = <usize> k * 4;
  const groupBytes = <usize> k * FLOAT_GROUP_BYTES;
  for (let output: u32 = 0; output < count; output += 4, from += 4 * rowBytes) {
    const to = into + <usize> (output / FLOAT_GROUP) * groupBytes +
      <usize> (output % FLOAT_GROUP) * 4;
    if (count - output >= 4) {
      for (let at: usize = 0; at < rowBytes; at += 16) {
        transpose(from + at, rowBytes, to + at / 4 * FLOAT_GROUP_BYTES, FLOAT_GROUP_BYTES);
      }
    } else {
      for (let lane: usize = 0; lane < count - output; lane++) {
        for (let input: usize = 0; input < k; input++) {
          const element = load<f32>(from + lane * rowBytes + input * 4);
          store<f32>(to + lane * 4 + input * FLOAT_GROUP_BYTES, element);
        }
      }
    }
  }
}
