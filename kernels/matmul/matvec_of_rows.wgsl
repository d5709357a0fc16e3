// Reads the rows of a product from `x`. See matvec_of_sums.wgsl for rows that are sums.

fn prepare_rows(row0: u32, thread: u32) {}

fn row_four(row0: u32, r: u32, at: u32) -> vec4<f32> {
  return unpack(x[(row0 + r) * X_STRIDE + X_OFFSET + at]);
}
