// Keys and values are cached unchanged; a head of a token takes CACHE_STRIDE vec4s.

alias cached = four;

fn read_cached(part: cached) -> vec4<f32> {
  return unpack(part);
}
