// Combines the partial results of several paged_attention_decode workgroups for the same rows.
//
// One workgroup takes the rows of one item and one KV head; each thread a four of a row at a time.
// No workgroup memory.

@group(0) @binding(1) var<storage, read> partials: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> sinks: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<four>;

override ROWS: u32;

const THREADS = 64u;

// Index of a row's partial result: (largest exponent, sum of weights, -, -), then the weighted sum of values.
fn partial_at(slot: u32, kv_head: u32, row: u32) -> u32 {
  return ((slot * KV_HEADS + kv_head) * ROWS + row) * (HEAD_FOURS + 1u);
}

@compute @workgroup_size(THREADS)
fn paged_attention_reduce(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let item = read_item(step.reduce_items + group.x * 8u);
  let kv_head = group.y;
  for (var i = thread; i < item.num_rows * HEAD_FOURS; i += THREADS) {
    let row = i / HEAD_FOURS;
    let column = i % HEAD_FOURS;
    var largest = LOWEST;
    for (var slot = item.start; slot < item.end; slot++) {
      largest = max(largest, partials[partial_at(slot, kv_head, row)].x);
    }
    var total = 0.0;
    var sum = vec4<f32>();
    for (var slot = item.start; slot < item.end; slot++) {
      let at = partial_at(slot, kv_head, row);
      let head = partials[at];
      let correction = exp2(head.x - largest);
      total += head.y * correction;
      sum += partials[at + 1u + column] * correction;
    }
    if (HAS_SINKS) {
      let head = kv_head * GROUP + (item.row_start + row) % GROUP;
      total += exp2(sinks[head] * LOG2_E - largest);
    }
    out[query_at(item, row, kv_head, KV_HEADS * GROUP * HEAD_FOURS) + column] = pack(sum / total);
  }
}
