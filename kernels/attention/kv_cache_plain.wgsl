// Keys and values are cached as they come: CACHE_STRIDE fours a head of a token.

alias cached = four;

fn read_cached(part: cached) -> vec4<f32> {
  return unpack(part);
}
