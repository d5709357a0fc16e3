
// Writes a vec4 of a head to the token's place in the cache.
fn write_cached(is_cached: bool, is_value: bool, at: u32, column: u32, values: vec4<f32>, thread: u32) {
  if (!is_cached) {
    return;
  }
  if (is_value) {
    v_cache[at + column] = pack(values);
  } else {
    k_cache[at + column] = pack(values);
  }
}
