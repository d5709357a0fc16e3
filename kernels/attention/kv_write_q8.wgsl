
const MOST_F16 = 65504.0;

var<workgroup> magnitudes: array<f32, THREADS>;

// Writes in the format that kv_cache_q8.wgsl reads. Called by all threads, since those of a head compute its scale
// together.
fn write_cached(is_cached: bool, is_value: bool, at: u32, column: u32, values: vec4<f32>, thread: u32) {
  let sizes = abs(values);
  magnitudes[thread] = max(max(sizes.x, sizes.y), max(sizes.z, sizes.w));
  workgroupBarrier();
  var largest = 0.0;
  for (var i = 0u; i < HEAD_FOURS; i++) {
    largest = max(largest, magnitudes[thread - column + i]);
  }
  let stored = pack2x16float(vec2<f32>(min(largest, MOST_F16), 0.0));
  let scale = unpack2x16float(stored).x;
  let part = pack4x8snorm(select(vec4<f32>(), values / scale, vec4<bool>(scale > 0.0)));
  if (!is_cached) {
    return;
  }
  if (is_value) {
    v_cache[at + column] = part;
  } else {
    k_cache[at + column] = part;
  }
  if (column == 0u) {
    if (is_value) {
      v_cache[at + HEAD_FOURS] = stored;
    } else {
      k_cache[at + HEAD_FOURS] = stored;
    }
  }
}
