// The matrix [outputs, K], a row for each output.

@group(0) @binding(6) var<storage, read> weights: array<four>;

const MAX_OUTS = 8u;

fn accumulate(first: u32, row0: u32, lane: u32) {
  for (var at = lane; at < K_FOURS; at += LANES) {
    var of_outputs: array<vec4<f32>, MAX_OUTS>;
    for (var o = 0u; o < OUTS; o++) {
      of_outputs[o] = unpack(weights[matrix_row(first, o) * K_FOURS + at]);
    }
    for (var r = 0u; r < ROWS; r++) {
      let value = load_x(row0, r, at);
      for (var o = 0u; o < OUTS; o++) {
        acc[o * ROWS + r] += dot(of_outputs[o], value);
      }
    }
  }
}
