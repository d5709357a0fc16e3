// Four neighbouring elements of an f16 tensor, for kernels that multiply in f16.
enable f16;
alias four = vec4<f16>;

fn unpack(packed: four) -> vec4<f32> {
  return vec4<f32>(packed);
}

fn pack(values: vec4<f32>) -> four {
  return four(values);
}
