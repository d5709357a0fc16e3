/**
 * Writes matrices and rows in the layouts that `product`, `floatProduct` and `expertsProduct` read. A matrix's memory
 * must be 0 at first. Rows are quantised to levels of 8 bits for `product`, and of 16 bits for `expertsProduct`.
 */
import {
  BLOCK_BYTES,
  CHUNK,
  CHUNK_BYTES,
  FLOAT_GROUP,
  FLOAT_GROUP_BYTES,
  GROUP,
  QuantizedRows,
  ROW_BLOCK_BYTES,
  tileStart,
  tileWidth,
  ZEROS_BLOCK_BYTES,
} from "./product_layout";
import { transpose } from "./vectors";

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

/** Number of levels of the remainders in one level of the row itself. */
const REST_LEVELS: f32 = 254;

/**
 * Quantises row `row`: in each block, the largest magnitude becomes 127.
 *
 * @param x f32 `[blocks * BLOCK]`.
 * @param copies how often each block is written.
 */
export function quantizeRow(x: usize, blocks: u32, rows: QuantizedRows, row: u32, copies: u32): void {
  const width = <usize> tileWidth(rows.numRows, row);
  let at = blockAt(rows, row, blocks * copies);
  for (const end = x + <usize> blocks * 128; x < end; x += 128) {
    const most = findLargest(x);
    const factor = f32x4.splat(most > 0 ? 127 / most : 0);
    for (let i: u32 = 0; i < copies; i++) {
      at = storeBlock(sixteen(x, factor), sixteen(x + 64, factor), most / 127, at, width);
    }
  }
}

/**
 * Quantises row `x` to 16 bits, as the sum of rows `row` and `row + 1`: the first is quantised as by
 * {@linkcode quantizeRow}, the second holds the remainders.
 */
export function quantizePair(x: usize, blocks: u32, rows: QuantizedRows, row: u32, copies: u32): void {
  const width = <usize> tileWidth(rows.numRows, row);
  let at = blockAt(rows, row, blocks * copies);
  for (const end = x + <usize> blocks * 128; x < end; x += 128) {
    const most = findLargest(x);
    const factor = f32x4.splat(most > 0 ? 127 / most : 0);
    const scale = most / 127;
    for (let i: u32 = 0; i < copies; i++) {
      storeBlock(rest(x, factor), rest(x + 64, factor), scale / REST_LEVELS, at + 4, width);
      at = storeBlock(sixteen(x, factor), sixteen(x + 64, factor), scale, at, width);
    }
  }
}

/** Address of the first block of a row. */
@inline
function blockAt(rows: QuantizedRows, row: u32, blocks: u32): usize {
  const start = tileStart(rows.numRows, row);
  return rows.tiles + <usize> start * blocks * ROW_BLOCK_BYTES + <usize> (row - start) * 4;
}

/**
 * Writes the levels of a block and their scale.
 *
 * @returns the address of the row's next block.
 */
@inline
function storeBlock(front: v128, back: v128, scale: f32, at: usize, width: usize): usize {
  // Weights at even indices are in the lower halves of bytes, those at odd indices in the upper halves.
  const first = v128.shuffle<i8>(front, back, 0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
  const second = v128.shuffle<i8>(front, back, 16, 18, 20, 22, 17, 19, 21, 23, 24, 26, 28, 30, 25, 27, 29, 31);
  at = storeWords(second, storeWords(first, at, width), width);
  store<f32>(at, scale);
  store<i32>(at + width * 4, zeroTerms(first, second));
  return at + width * 8;
}

/**
 * Writes four words, each next to the same word of the tile's other rows.
 *
 * @returns the address of the next one.
 */
@inline
function storeWords(words: v128, at: usize, width: usize): usize {
  v128.store_lane<i32>(at, words, 0);
  v128.store_lane<i32>(at + width * 4, words, 1);
  v128.store_lane<i32>(at + width * 8, words, 2);
  v128.store_lane<i32>(at + width * 12, words, 3);
  return at + width * 16;
}

function findLargest(x: usize): f32 {
  let most = f32x4.abs(v128.load(x));
  for (let at: usize = 16; at < 128; at += 16) {
    most = f32x4.max(most, f32x4.abs(v128.load(x + at)));
  }
  most = f32x4.max(most, v128.shuffle<i32>(most, most, 2, 3, 0, 1));
  most = f32x4.max(most, v128.shuffle<i32>(most, most, 1, 0, 3, 2));
  return f32x4.extract_lane(most, 0);
}

/** Sixteen levels, rounded to the nearest. */
function sixteen(x: usize, factor: v128): v128 {
  return i8x16.narrow_i16x8_s(
    i16x8.narrow_i32x4_s(level(x, factor), level(x + 16, factor)),
    i16x8.narrow_i32x4_s(level(x + 32, factor), level(x + 48, factor)),
  );
}

function level(x: usize, factor: v128): v128 {
  return i32x4.trunc_sat_f32x4_s(f32x4.nearest(f32x4.mul(v128.load(x), factor)));
}

/** Sixteen levels of the remainders of {@linkcode sixteen}. */
function rest(x: usize, factor: v128): v128 {
  return i8x16.narrow_i16x8_s(
    i16x8.narrow_i32x4_s(restLevel(x, factor), restLevel(x + 16, factor)),
    i16x8.narrow_i32x4_s(restLevel(x + 32, factor), restLevel(x + 48, factor)),
  );
}

function restLevel(x: usize, factor: v128): v128 {
  const whole = f32x4.mul(v128.load(x), factor);
  const left = f32x4.mul(f32x4.sub(whole, f32x4.nearest(whole)), f32x4.splat(REST_LEVELS));
  return i32x4.trunc_sat_f32x4_s(f32x4.nearest(left));
}

/**
 * Two i16: `-8` times the sum of the first two elements of each word, and of the others. Magnitudes are at most 16,256.
 */
function zeroTerms(first: v128, second: v128): i32 {
  let sums = i16x8.add(
    i16x8.extadd_pairwise_i8x16_s(first),
    i16x8.extadd_pairwise_i8x16_s(second),
  );
  sums = i16x8.add(sums, v128.shuffle<i32>(sums, sums, 2, 3, 0, 1));
  sums = i16x8.add(sums, v128.shuffle<i32>(sums, sums, 1, 0, 3, 2));
  return i32x4.extract_lane(i16x8.neg(i16x8.shl(sums, 3)), 0);
}

/**
 * Quantises a row to levels of 16 bits, which loses less than f16: the largest magnitude of 32 elements becomes 32,767.
 * A chunk of 32 elements begins with four vectors of eight i16: elements 0, 4, 8, …, then 1, 5, 9, …, and so on, the
 * order in which weights lie in words of 16 bits. The i32 sums of its halves follow, times `factor`, in the first and
 * third of four lanes, and then its scale (f32).
 *
 * @param x f32 `[length]`, a multiple of 32.
 */
export function quantizeShorts(x: usize, length: u32, factor: i32, into: usize): void {
  for (const end = x + (<usize> length) * 4; x < end; x += CHUNK * 4, into += CHUNK_BYTES) {
    const most = findLargest(x);
    const scale = f32x4.splat(most > 0 ? 32767 / most : 0);
    const a = levels(x, scale);
    const b = levels(x + 32, scale);
    const c = levels(x + 64, scale);
    const d = levels(x + 96, scale);
    // Each half of these vectors has every fourth element of two inputs.
    const evenFront = v128.shuffle<i16>(a, b, 0, 4, 8, 12, 2, 6, 10, 14);
    const evenBack = v128.shuffle<i16>(c, d, 0, 4, 8, 12, 2, 6, 10, 14);
    const oddFront = v128.shuffle<i16>(a, b, 1, 5, 9, 13, 3, 7, 11, 15);
    const oddBack = v128.shuffle<i16>(c, d, 1, 5, 9, 13, 3, 7, 11, 15);
    v128.store(into, v128.shuffle<i64>(evenFront, evenBack, 0, 2));
    v128.store(into, v128.shuffle<i64>(oddFront, oddBack, 0, 2), 16);
    v128.store(into, v128.shuffle<i64>(evenFront, evenBack, 1, 3), 32);
    v128.store(into, v128.shuffle<i64>(oddFront, oddBack, 1, 3), 48);
    store<i32>(into, sumBlock(a, b) * factor, 64);
    store<i32>(into, 0, 68);
    store<i32>(into, sumBlock(c, d) * factor, 72);
    store<i32>(into, 0, 76);
    store<f32>(into, most / 32767, 80);
  }
}

/** Rounds eight elements. */
@inline
function levels(x: usize, scale: v128): v128 {
  return i16x8.narrow_i32x4_s(level(x, scale), level(x + 16, scale));
}

@inline
function sumBlock(a: v128, b: v128): i32 {
  let sums = i32x4.add(i32x4.extadd_pairwise_i16x8_s(a), i32x4.extadd_pairwise_i16x8_s(b));
  sums = i32x4.add(sums, v128.shuffle<i32>(sums, sums, 2, 3, 0, 1));
  sums = i32x4.add(sums, v128.shuffle<i32>(sums, sums, 1, 0, 3, 2));
  return i32x4.extract_lane(sums, 0);
}
