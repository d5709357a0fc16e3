// Attention within sequences that lie one after the other: applies attention_tile.wgsl to rows of keys and values. One
// workgroup takes one item and one KV head. See packed_attention.ts for formula, shapes and what is refused.

@group(0) @binding(0) var<storage, read> items: array<Item>;
@group(0) @binding(1) var<storage, read> q: array<four>;
@group(0) @binding(2) var<storage, read> k: array<four>;
@group(0) @binding(3) var<storage, read> v: array<four>;
@group(0) @binding(4) var<storage, read_write> out: array<four>;

// Layout of a row's keys and values, in vec4s.
override K_STRIDE: u32;
override K_OFFSET: u32;
override V_STRIDE: u32;
override V_OFFSET: u32;
// Number of keys that a query sees on either side of its own position; 0 for all.
override WINDOW: u32;

fn load_key(item: Item, position: u32, kv_head: u32, column: u32) -> four {
  return k[(item.keys_at + position) * K_STRIDE + K_OFFSET + kv_head * HEAD_FOURS + column];
}

fn load_value(item: Item, position: u32, kv_head: u32, column: u32) -> four {
  return v[(item.keys_at + position) * V_STRIDE + V_OFFSET + kv_head * HEAD_FOURS + column];
}

fn first_key(position: u32) -> u32 {
  if (WINDOW == 0u || position < WINDOW) {
    return 0u;
  }
  return position - WINDOW;
}

fn end_key(item: Item, position: u32) -> u32 {
  if (WINDOW == 0u) {
    return item.end;
  }
  return min(item.end, position + WINDOW + 1u);
}

fn sink(head: u32) -> f32 {
  return 0.0;
}

fn slope(head: u32) -> f32 {
  return 0.0;
}

@compute @workgroup_size(TILE_THREADS)
fn packed_attention(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  attend_tile(items[group.x], group.y, thread);
}
