// The matrix as [K, outputs], the layout of the operator MatMul. A unit is four neighbouring columns; if gated, also
// the four columns that these are multiplied with. See matvec_columns_*.wgsl for `load_columns`.

fn accumulate(first: u32, row0: u32, lane: u32) {
  for (var at = lane; at < K_FOURS; at += LANES) {
    var of_outputs: array<vec4<f32>, MAX_OUTS>;
    for (var q = 0u; q < OUTS / 4u; q++) {
      let column = matrix_row(first, q * 4u);
      let w0 = load_columns(at * 4u, column);
      let w1 = load_columns(at * 4u + 1u, column);
      let w2 = load_columns(at * 4u + 2u, column);
      let w3 = load_columns(at * 4u + 3u, column);
      of_outputs[q * 4u] = vec4<f32>(w0.x, w1.x, w2.x, w3.x);
      of_outputs[q * 4u + 1u] = vec4<f32>(w0.y, w1.y, w2.y, w3.y);
      of_outputs[q * 4u + 2u] = vec4<f32>(w0.z, w1.z, w2.z, w3.z);
      of_outputs[q * 4u + 3u] = vec4<f32>(w0.w, w1.w, w2.w, w3.w);
    }
    add_products(&of_outputs, row0, at);
  }
}
