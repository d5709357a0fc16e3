// What all attention kernels share. See paged_attention.ts and packed_attention.ts for formulas and shapes.

override HEAD_FOURS: u32;
override KV_HEADS: u32;
// Query heads per KV head.
override GROUP: u32;
// Layout of a token's queries, in fours.
override Q_STRIDE: u32;
override Q_OFFSET: u32;
// Soft cap of the scores, 0 for none.
override SOFTCAP: f32;
// The factor that makes scores of products, or scores divided by the soft cap where there is one.
override PRODUCT_SCALE: f32;
// Whether a logit per head joins the softmax's denominator.
override HAS_SINKS: bool;

const LOG2_E = 1.4426950408889634;
// Stands for minus infinity, which WGSL need not support.
const LOWEST = -1e30;

// A share of one sequence's attention. Its rows are pairs (query token, head of the group), token first.
struct Item {
  first_token: u32,
  first_position: u32,
  row_start: u32,
  num_rows: u32,
  // Its keys; of a reduction, the slots it joins.
  start: u32,
  end: u32,
  // Where the sequence's keys are: its block table in the step's words, or the row of the first key.
  keys_at: u32,
  // Where partial results go; NO_SLOT if they are complete.
  slot: u32,
}

// Position of the query of a row.
fn query_position(item: Item, row: u32) -> u32 {
  return item.first_position + (item.row_start + row) / GROUP;
}

// Index of a row's first four in queries of the given layout.
fn query_at(item: Item, row: u32, kv_head: u32, stride: u32) -> u32 {
  let flat = item.row_start + row;
  return (item.first_token + flat / GROUP) * stride +
    (kv_head * GROUP + flat % GROUP) * HEAD_FOURS;
}

// Scaled and soft-capped products of query and key, as exponents of 2.
fn to_exponents(products: vec4<f32>) -> vec4<f32> {
  if (SOFTCAP == 0.0) {
    return products * (PRODUCT_SCALE * LOG2_E);
  }
  // tanh(x) = 1 - 2 / (exp(2x) + 1) does not overflow where the built-in one may.
  let capped = 1.0 - 2.0 / (exp2(products * (2.0 * LOG2_E * PRODUCT_SCALE)) + 1.0);
  return capped * (SOFTCAP * LOG2_E);
}

// 2 to the power of exponents above LOWEST, and 0 for masked ones even where nothing else was seen.
fn to_weights(exponents: vec4<f32>, largest: vec4<f32>) -> vec4<f32> {
  return select(vec4<f32>(), exp2(exponents - largest), exponents > vec4<f32>(LOWEST));
}
