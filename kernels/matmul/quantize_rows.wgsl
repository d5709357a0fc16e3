// Rounds rows to 8 bits for integer products, after applying the norm's factors. One workgroup takes a row.

// In the layout of int8_rows.wgsl.
@group(0) @binding(2) var<storage, read_write> rounded: array<u32>;

override BLOCKS: u32;
// Number of units of eight elements in a row.
override UNITS: u32;
// The same number if there is a norm; otherwise 1.
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
