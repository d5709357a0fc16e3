// Keys and values are cached in 8 bits: a head of a token is CACHE_STRIDE words, four elements in each as 127ths of the
// largest magnitude, which is an f16 in the last word.

alias cached = u32;

// Four elements in 127ths. Bytes become numbers by their position in a float's mantissa: cards convert integers slowly.
fn read_cached(part: cached) -> vec4<f32> {
  let bytes = part ^ 0x80808080u;
  let lanes = vec4<u32>(bytes, bytes >> 8u, bytes >> 16u, bytes >> 24u) & vec4<u32>(0xffu);
  return bitcast<vec4<f32>>(lanes | vec4<u32>(0x4b000000u)) - 8388736.0;
}

// What a 127th is.
fn read_scale(part: cached) -> f32 {
  return unpack2x16float(part).x / 127.0;
}
