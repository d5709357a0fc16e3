// Four neighbouring columns of a matrix of any width. Columns beyond the last are replaced by it, and their results are
// dropped.

// Number of columns in the matrix.
override COLUMNS: u32;

@group(0) @binding(5) var<storage, read> weights: array<elem>;

fn load_columns(row: u32, column: u32) -> vec4<f32> {
  let columns = min(vec4<u32>(column) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(COLUMNS - 1u));
  let at = row * COLUMNS + columns;
  return vec4<f32>(
    f32(weights[at.x]),
    f32(weights[at.y]),
    f32(weights[at.z]),
    f32(weights[at.w]),
  );
}
