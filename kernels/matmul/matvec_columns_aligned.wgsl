// Four neighbouring columns of a matrix whose number of columns is a multiple of four.

// Number of columns in the matrix.
override COLUMNS: u32;

@group(0) @binding(5) var<storage, read> weights: array<four>;

fn load_columns(row: u32, column: u32) -> vec4<f32> {
  return unpack(weights[(row * COLUMNS + column) / 4u]);
}
