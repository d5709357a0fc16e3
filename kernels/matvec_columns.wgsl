// The matrix [K, outputs], as MatMul has it: a unit is four neighbouring columns, or four of the gate and four of the other.

@group(0) @binding(6) var<storage, read> weights: array<four>;

// Fours of a row of the matrix.
override COLUMN_FOURS: u32;

fn accumulate(first: u32, row0: u32, lane: u32) {
  for (var q = 0u; q < OUTS / 4u; q++) {
    let column = matrix_row(first, q * 4u) / 4u;
    for (var at = lane; at < K_FOURS; at += LANES) {
      let w0 = unpack(weights[at * 4u * COLUMN_FOURS + column]);
      let w1 = unpack(weights[(at * 4u + 1u) * COLUMN_FOURS + column]);
      let w2 = unpack(weights[(at * 4u + 2u) * COLUMN_FOURS + column]);
      let w3 = unpack(weights[(at * 4u + 3u) * COLUMN_FOURS + column]);
      for (var r = 0u; r < ROWS; r++) {
        let value = load_x(row0, r, at);
        let sum = w0 * value.x + w1 * value.y + w2 * value.z + w3 * value.w;
        for (var o = 0u; o < 4u; o++) {
          acc[(q * 4u + o) * ROWS + r] += sum[o];
        }
      }
    }
  }
}
