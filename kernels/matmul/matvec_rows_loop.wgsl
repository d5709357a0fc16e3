// The loop over the matrix of matvec_rows.wgsl.

fn accumulate(first: u32, row0: u32, lane: u32) {
  for (var at = lane; at < K_FOURS; at += LANES) {
    var of_outputs: array<vec4<f32>, MAX_OUTS>;
    for (var o = 0u; o < OUTS; o++) {
      of_outputs[o] = unpack(weights[matrix_row(first, o) * K_FOURS + at]);
    }
    add_products(&of_outputs, row0, at);
  }
}
