// Four neighbouring elements of a tensor as stored in memory.

//# if IS_F32
alias four = vec4<f32>;

fn unpack(packed: four) -> vec4<f32> {
  return packed;
}

fn pack(values: vec4<f32>) -> four {
  return values;
}
//# end
//# if IS_F16
// Reading f16 as u32 does not need `shader-f16`, and is twice as fast on a software adapter.
alias four = vec2<u32>;

fn unpack(packed: four) -> vec4<f32> {
  return vec4<f32>(unpack2x16float(packed.x), unpack2x16float(packed.y));
}

fn pack(values: vec4<f32>) -> four {
  return vec2<u32>(pack2x16float(values.xy), pack2x16float(values.zw));
}
//# end
//# if IS_HALF
// f16 for kernels that multiply in f16.
enable f16;
alias four = vec4<f16>;

fn unpack(packed: four) -> vec4<f32> {
  return vec4<f32>(packed);
}

fn pack(values: vec4<f32>) -> four {
  return four(values);
}
//# end
