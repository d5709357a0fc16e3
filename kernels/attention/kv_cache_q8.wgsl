// Keys and values are cached in 8 bits: a head of a token is CACHE_STRIDE words, four elements in each as 127ths of the
// largest magnitude, which is an f16 in the last word.

alias cached = u32;

// Without the scale.
fn read_cached(part: cached) -> vec4<f32> {
  return unpack4x8snorm(part);
}

fn read_scale(part: cached) -> f32 {
  return unpack2x16float(part).x;
}
