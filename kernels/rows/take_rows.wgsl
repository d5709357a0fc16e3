// Copies rows of a table by index. See row_kernels.ts for shapes.
//
// One thread takes one word of one row.

@group(0) @binding(0) var<storage, read> table: array<u32>;
// int64; only the lower word of each is used.
@group(0) @binding(1) var<storage, read> numbers: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> out: array<u32>;

// Number of words in a row.
override WIDTH: u32;
override NUM_ROWS: u32;

const THREADS = 64u;

@compute @workgroup_size(THREADS)
fn take_rows(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let column = group.x * THREADS + thread;
  if (column < WIDTH) {
    let number = min(numbers[group.y].x, NUM_ROWS - 1u);
    out[group.y * WIDTH + column] = table[number * WIDTH + column];
  }
}
