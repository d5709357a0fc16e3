// The plan of a step, and the layout of keys and values in the paged cache.

// Written by step_plan.ts. The first five fields are indices of `words`.
struct Step {
  positions: u32,
  slots: u32,
  prefill_items: u32,
  decode_items: u32,
  reduce_items: u32,
  words: array<u32>,
}

@group(0) @binding(0) var<storage, read> step: Step;

//# if IS_QUANTIZED
// Keys and values are cached in 8 bits. A head of a token takes CACHE_STRIDE words. The last one holds the head's
// largest magnitude as f16. Each of the others holds four elements, as multiples of 1/127 of that magnitude.

alias cached = u32;

// Four elements, as multiples of 1/127 of the head's largest magnitude. Each byte is put into the mantissa of a float,
// and the float's offset is subtracted, because graphics cards convert integers to floats slowly.
fn read_cached(part: cached) -> vec4<f32> {
  let bytes = part ^ 0x80808080u;
  let lanes = vec4<u32>(bytes, bytes >> 8u, bytes >> 16u, bytes >> 24u) & vec4<u32>(0xffu);
  return bitcast<vec4<f32>>(lanes | vec4<u32>(0x4b000000u)) - 8388736.0;
}

// 1/127 of the largest magnitude.
fn read_scale(part: cached) -> f32 {
  return unpack2x16float(part).x / 127.0;
}
//# else
// Keys and values are cached unchanged; a head of a token takes CACHE_STRIDE vec4s.

alias cached = four;

fn read_cached(part: cached) -> vec4<f32> {
  return unpack(part);
}
//# end

