// Four neighbouring elements of an f16 tensor as stored in memory. Reading them as u32 does not need `shader-f16`, and
// a software adapter loads them in half the time.
alias four = vec2<u32>;

fn unpack(packed: four) -> vec4<f32> {
  return vec4<f32>(unpack2x16float(packed.x), unpack2x16float(packed.y));
}

fn pack(values: vec4<f32>) -> four {
  return vec2<u32>(pack2x16float(values.xy), pack2x16float(values.zw));
}
