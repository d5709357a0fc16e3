// Rows rounded to 8 bits, the input of integer products: their layout, and with IS_QUANTIZER the kernel that rounds
// them.
//
// Every 32 elements share a scale: 1/127 of their largest magnitude. Eight elements are two words, one with the
// elements at even indices and one with those at odd indices, the order in which 4-bit levels are unpacked from a word.
//
// Rows lie in groups of 64. A group has, for each block of 32 elements, the even words of its 64 rows, then the odd
// ones; then, for each block and row, two factors; then each row's own factor.

// Number of vec4s of words in a group of rows: two per block and row, half of one for the factors, and a quarter for
// the row's own.
fn group_fours(blocks: u32) -> u32 {
  return blocks * 160u + 16u;
}

// Index, in vec4s, of the even words of a row's block. The odd words are 64 vec4s further on.
fn levels_at(row: u32, block: u32, blocks: u32) -> u32 {
  return (row / 64u) * group_fours(blocks) + block * 128u + row % 64u;
}

// Index, in pairs of words, of the factors of a row's block: its scale, and the sum of its levels.
fn factors_at(row: u32, block: u32, blocks: u32) -> u32 {
  return 2u * ((row / 64u) * group_fours(blocks) + blocks * 128u) + block * 64u + row % 64u;
}

// Index, in pairs of words, of the factors of a whole row and its neighbour: element `row % 2` is that of the row.
fn row_factor_at(row: u32, blocks: u32) -> u32 {
  return 2u * ((row / 64u) * group_fours(blocks) + blocks * 160u) + (row % 64u) / 2u;
}

// The largest of eight elements.
fn largest_of(a: vec4<f32>, b: vec4<f32>) -> f32 {
  let largest = max(abs(a), abs(b));
  return max(max(largest.x, largest.y), max(largest.z, largest.w));
}

// The sum of the squares of eight elements, in an order that no compiler changes.
fn squares_of(a: vec4<f32>, b: vec4<f32>) -> f32 {
  let pairs = fma(a, a, b * b);
  return (pairs.x + pairs.y) + (pairs.z + pairs.w);
}

fn inverse_of(largest: f32) -> f32 {
  return select(0.0, 127.0 / largest, largest > 0.0);
}

// Rounds eight elements to two words.
fn to_levels(a: vec4<f32>, b: vec4<f32>, inverse: f32) -> vec2<u32> {
  let even = vec4<i32>(round(vec4<f32>(a.x, a.z, b.x, b.z) * inverse));
  let odd = vec4<i32>(round(vec4<f32>(a.y, a.w, b.y, b.w) * inverse));
  return vec2<u32>(pack4xI8(even), pack4xI8(odd));
}

fn sum_of_levels(words: vec2<u32>) -> i32 {
  return dot4I8Packed(words.x, 0x01010101u) + dot4I8Packed(words.y, 0x01010101u);
}
//# if IS_QUANTIZER

// Rounds rows to 8 bits for integer products, after applying the norm's factors. One workgroup takes a row.

@group(0) @binding(2) var<storage, read_write> rounded: array<u32>;

override BLOCKS: u32;
// Number of units of eight elements in a row.
override UNITS: u32;
// Length of `squares`: UNITS if there is a norm, otherwise 1.
override SQUARES: u32;

const THREADS = 128u;
const GATHERERS = 32u;

var<workgroup> gathered: array<f32, GATHERERS>;
var<workgroup> largest: array<f32, UNITS>;
var<workgroup> squares: array<f32, SQUARES>;
var<workgroup> sums: array<i32, UNITS>;

fn factor_at(at: u32) -> vec4<f32> {
  if (NORM == 1u) {
    return unpack(affine[AFFINE_AT + at]);
  }
  return vec4<f32>(1.0);
}

@compute @workgroup_size(THREADS)
fn quantize_rows(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let row = group.x;
  for (var unit = thread; unit < UNITS; unit += THREADS) {
    let at = unit * 2u;
    let a = row_four(row, 0u, at);
    let b = row_four(row, 0u, at + 1u);
    if (NORM == 1u) {
      squares[unit] = squares_of(a, b);
    }
    largest[unit] = largest_of(a * factor_at(at), b * factor_at(at + 1u));
  }
  workgroupBarrier();
  for (var unit = thread; unit < UNITS; unit += THREADS) {
    let at = unit * 2u;
    let a = row_four(row, 0u, at) * factor_at(at);
    let b = row_four(row, 0u, at + 1u) * factor_at(at + 1u);
    let first = unit & 0xfffffffcu;
    let most = max(
      max(largest[first], largest[first + 1u]),
      max(largest[first + 2u], largest[first + 3u]),
    );
    let words = to_levels(a, b, inverse_of(most));
    sums[unit] = sum_of_levels(words);
    let to = 4u * levels_at(row, unit / 4u, BLOCKS) + unit % 4u;
    rounded[to] = words.x;
    rounded[to + 256u] = words.y;
  }
  if (NORM == 1u && thread < GATHERERS) {
    var sum = 0.0;
    for (var unit = thread; unit < UNITS; unit += GATHERERS) {
      sum += squares[unit];
    }
    gathered[thread] = sum;
  }
  workgroupBarrier();
  for (var block = thread; block < BLOCKS; block += THREADS) {
    let first = block * 4u;
    let most = max(
      max(largest[first], largest[first + 1u]),
      max(largest[first + 2u], largest[first + 3u]),
    );
    let sum = sums[first] + sums[first + 1u] + sums[first + 2u] + sums[first + 3u];
    let to = 2u * factors_at(row, block, BLOCKS);
    rounded[to] = bitcast<u32>(most / 127.0);
    rounded[to + 1u] = bitcast<u32>(sum);
  }
  if (thread == 0u) {
    var factor = 1.0;
    if (NORM == 1u) {
      var sum = 0.0;
      for (var i = 0u; i < GATHERERS; i++) {
        sum += gathered[i];
      }
      factor = inverseSqrt(sum / f32(K_FOURS * 4u) + EPSILON);
    }
    rounded[2u * row_factor_at(row, BLOCKS) + row % 2u] = bitcast<u32>(factor);
  }
}
//# end
