// Paged attention with many queries at once: applies attention_tile.wgsl to the blocks of the cache. One workgroup
// takes one item and one KV head. See paged_attention.ts for formula, shapes and what is refused.

@group(0) @binding(1) var<storage, read> q: array<four>;
@group(0) @binding(2) var<storage, read> k_cache: array<cached>;
@group(0) @binding(3) var<storage, read> v_cache: array<cached>;
@group(0) @binding(4) var<storage, read> sinks: array<f32>;
@group(0) @binding(5) var<storage, read> slopes: array<f32>;
@group(0) @binding(6) var<storage, read_write> out: array<four>;

//# for what, cache in key k_cache, value v_cache
fn load_$what(item: Item, position: u32, kv_head: u32, column: u32) -> four {
  let at = cache_at(item, position, kv_head);
  //# if IS_QUANTIZED
  return pack(read_cached($cache[at + column]) * read_scale($cache[at + HEAD_FOURS]));
  //# else
  return $cache[at + column];
  //# end
}

//# end
// One past the last key that a query sees.
fn end_key(item: Item, position: u32) -> u32 {
  return position + 1u;
}

fn sink(head: u32) -> f32 {
  return sinks[head];
}

fn slope(head: u32) -> f32 {
  return slopes[head];
}

@compute @workgroup_size(TILE_THREADS)
fn paged_attention_prefill(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  attend_tile(read_item(step.prefill_items + group.x * 8u), group.y, thread);
}
