// Rows rounded to 8 bits, the input of integer products. Every 32 elements have a scale of their own: 1/127 of their
// largest magnitude. Eight elements are two words, one with the elements at even indices and one with those at odd
// indices, the order in which 4-bit levels are unpacked from a word.
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
