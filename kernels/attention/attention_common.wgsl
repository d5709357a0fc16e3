// Shared by all attention kernels. The part in IS_PAGED is only for kernels over the paged cache. See
// paged_attention.ts and packed_attention.ts for formulas and shapes.

override HEAD_FOURS: u32;
override KV_HEADS: u32;
// Query heads per KV head.
override GROUP: u32;
// Layout of a token's queries, in vec4s.
override Q_STRIDE: u32;
override Q_OFFSET: u32;
// Soft cap of the scores; 0 for none.
override SOFTCAP: f32;
// Factor of the products of query and key: the scale of the scores, divided by the soft cap if there is one.
override PRODUCT_SCALE: f32;
// Whether a sink logit per head is added to the softmax's denominator.
override HAS_SINKS: bool;
// Whether a bias by distance (ALiBi) is added to the scores: from one key to the next, they grow by the head's slope.
override HAS_SLOPES: bool;

const LOG2_E = 1.4426950408889634;
// Used in place of minus infinity, for which WGSL guarantees no results.
const LOWEST = -1e30;

// A part of one sequence's attention. Its rows are pairs (query token, head of the group), ordered by token.
struct Item {
  first_token: u32,
  first_position: u32,
  row_start: u32,
  num_rows: u32,
  // The range of the item's keys; for a reduction, the range of slots to combine.
  start: u32,
  end: u32,
  // Where the sequence's keys are: the offset of its block table in the step's words, or the row of its first key.
  keys_at: u32,
  // Slot for a partial result; NO_SLOT if the result is complete.
  slot: u32,
}

// Position of a row's query.
fn query_position(item: Item, row: u32) -> u32 {
  return item.first_position + (item.row_start + row) / GROUP;
}

// The query head of a row.
fn query_head(item: Item, row: u32, kv_head: u32) -> u32 {
  return kv_head * GROUP + (item.row_start + row) % GROUP;
}

// Index of a row's first vec4 in queries of the given layout.
fn query_at(item: Item, row: u32, kv_head: u32, stride: u32) -> u32 {
  let flat = item.row_start + row;
  return (item.first_token + flat / GROUP) * stride +
    (kv_head * GROUP + flat % GROUP) * HEAD_FOURS;
}

// Scales and soft-caps products of query and key, and converts them to exponents of 2.
fn to_exponents(products: vec4<f32>) -> vec4<f32> {
  if (SOFTCAP == 0.0) {
    return products * (PRODUCT_SCALE * LOG2_E);
  }
  // tanh(x) is computed as 1 - 2 / (exp(2x) + 1), because some built-in versions overflow.
  let capped = 1.0 - 2.0 / (exp2(products * (2.0 * LOG2_E * PRODUCT_SCALE)) + 1.0);
  return capped * (SOFTCAP * LOG2_E);
}

// 2 to the power of (exponent - largest). Masked keys get 0, even if no other key was seen.
fn to_weights(exponents: vec4<f32>, largest: vec4<f32>) -> vec4<f32> {
  return select(vec4<f32>(), exp2(exponents - largest), exponents > vec4<f32>(LOWEST));
}
//# if IS_PAGED

override BLOCK_SIZE: u32;
// Distance in the cache from one token's head to the next token's, in units of `cached`.
override CACHE_STRIDE: u32;
// Number of keys that a query sees, including its own; 0 for all.
override WINDOW: u32;

const NO_SLOT = 0xffffffffu;

fn read_item(at: u32) -> Item {
  return Item(
    step.words[at],
    step.words[at + 1u],
    step.words[at + 2u],
    step.words[at + 3u],
    step.words[at + 4u],
    step.words[at + 5u],
    step.words[at + 6u],
    step.words[at + 7u],
  );
}

// Index in the cache at which a key or value begins.
fn cache_at(item: Item, position: u32, kv_head: u32) -> u32 {
  let block = step.words[item.keys_at + position / BLOCK_SIZE];
  return ((block * KV_HEADS + kv_head) * BLOCK_SIZE + position % BLOCK_SIZE) * CACHE_STRIDE;
}

// The first key that any query from `position` on may see.
fn first_key(position: u32) -> u32 {
  if (WINDOW == 0u || position < WINDOW) {
    return 0u;
  }
  return position - WINDOW + 1u;
}
//# end
