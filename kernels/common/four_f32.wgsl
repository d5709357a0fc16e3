// Four neighbouring elements of an f32 tensor as stored in memory.
alias four = vec4<f32>;

fn unpack(packed: four) -> vec4<f32> {
  return packed;
}

fn pack(values: vec4<f32>) -> four {
  return values;
}
