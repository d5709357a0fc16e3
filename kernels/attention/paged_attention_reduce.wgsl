// Combines the partial results of several paged_attention_decode workgroups for the same rows. One workgroup takes the
// rows of one item and one KV head; each thread handles one vec4 of a row at a time. No workgroup memory.

@group(0) @binding(1) var<storage, read> partials: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> sinks: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<four>;

// Number of rows in one workgroup of the decode kernel.
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
    var total = 0.0;
    var sum = vec4<f32>();
    // The loads of four slots are in flight together. Slots beyond the end are replaced by the last one with a weight
    // of 0.
    for (var slot = item.start; slot < item.end; slot += 4u) {
      let last = item.end - 1u;
      let at0 = partial_at(slot, kv_head, row);
      let at1 = partial_at(min(slot + 1u, last), kv_head, row);
      let at2 = partial_at(min(slot + 2u, last), kv_head, row);
      let at3 = partial_at(min(slot + 3u, last), kv_head, row);
      let head0 = partials[at0].xy;
      let head1 = partials[at1].xy;
      let head2 = partials[at2].xy;
      let head3 = partials[at3].xy;
      let sum0 = partials[at0 + 1u + column];
      let sum1 = partials[at1 + 1u + column];
      let sum2 = partials[at2 + 1u + column];
      let sum3 = partials[at3 + 1u + column];
      let exponents = vec4<f32>(head0.x, head1.x, head2.x, head3.x);
      let new_largest = max(
        largest,
        max(max(exponents.x, exponents.y), max(exponents.z, exponents.w)),
      );
      let correction = exp2(largest - new_largest);
      largest = new_largest;
      let is_there = vec4<u32>(slot, slot + 1u, slot + 2u, slot + 3u) < vec4<u32>(item.end);
      let weights = select(vec4<f32>(), exp2(exponents - new_largest), is_there);
      total = total * correction + head0.y * weights.x;
      total += head1.y * weights.y;
      total += head2.y * weights.z;
      total += head3.y * weights.w;
      sum = sum * correction + sum0 * weights.x;
      sum += sum1 * weights.y;
      sum += sum2 * weights.z;
      sum += sum3 * weights.w;
    }
    if (HAS_SINKS) {
      total += exp2(sinks[query_head(item, row, kv_head)] * LOG2_E - largest);
    }
    out[query_at(item, row, kv_head, KV_HEADS * GROUP * HEAD_FOURS) + column] = pack(sum / total);
  }
}
