// Keys and values are cached in 8 bits. A head of a token takes CACHE_STRIDE words: each holds four elements, as
// multiples of 1/127 of the head's largest magnitude. The last word holds that magnitude as f16.

alias cached = u32;

// Four elements in 127ths. Bytes become numbers by their position in a float's mantissa: cards convert integers slowly.
fn read_cached(part: cached) -> vec4<f32> {
  let bytes = part ^ 0x80808080u;
  let lanes = vec4<u32>(bytes, bytes >> 8u, bytes >> 16u, bytes >> 24u) & vec4<u32>(0xffu);
  return bitcast<vec4<f32>>(lanes | vec4<u32>(0x4b000000u)) - 8388736.0;
}

// 1/127 of the largest magnitude.
fn read_scale(part: cached) -> f32 {
  return unpack2x16float(part).x / 127.0;
}
