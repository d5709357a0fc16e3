// Paged attention with few queries over many keys, after Flash-Decoding (Dao et al., 2023): see
// attention_source.ts.
//
// One workgroup takes up to $ROWS rows of one item for one KV head, and processes the item's range of keys in tiles of
// $KEYS. For the scores, $LANES threads share a key, and each computes all rows. For the output, $VALUE_LANES threads
// share a value. They form a group, which takes every $GROUPS-th key of the tile and has a running softmax of its own;
// the groups are combined at the end. The keys and values of a tile are loaded together: with few queries, a GPU mostly
// waits for memory.
//
// An item without a slot covers all keys of its rows and writes the output. Other items write partial results, which
// paged_attention_reduce combines.

@group(0) @binding(1) var<storage, read> q: array<four>;
@group(0) @binding(2) var<storage, read> k_cache: array<cached>;
@group(0) @binding(3) var<storage, read> v_cache: array<cached>;
@group(0) @binding(4) var<storage, read> sinks: array<f32>;
@group(0) @binding(5) var<storage, read> slopes: array<f32>;
@group(0) @binding(6) var<storage, read_write> out: array<four>;
// By slot, KV head and row: (largest exponent, sum of weights, -, -), then the weighted sum of values.
@group(0) @binding(7) var<storage, read_write> partials: array<vec4<f32>>;

// The initial largest exponent of a group: far below any real exponent, and far above masked ones.
const FLOOR = -1e29;

var<workgroup> q_tile: array<array<vec4<f32>, $ROWS>, $FOURS>;
//# if IS_ROUNDED
// Queries in two parts: rounded multiples of a unit, which is 1/127 of the largest magnitude in the row, and the
// remainders as multiples of 1/254 of the unit. Each word holds one part of four elements.
var<workgroup> q_rounded: array<array<vec2<u32>, $ROWS>, $FOURS>;
// 1/127 of the largest magnitude in a row's query, by row.
var<workgroup> q_units: array<f32, $ROWS>;
//# end
// First, partial products by row, key and part; at the end, outputs by row, vec4, element and thread.
var<workgroup> scratch: array<f32, $SCRATCH>;
var<workgroup> exponents: array<array<f32, $ROWS>, $KEYS>;
var<workgroup> group_largest: array<array<f32, $ROWS>, $GROUPS>;
var<workgroup> group_sums: array<array<f32, $ROWS>, $GROUPS>;
var<workgroup> row_largest: array<f32, $ROWS>;

@compute @workgroup_size($THREADS)
fn paged_attention_decode(
  @builtin(workgroup_id) workgroup: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let item = read_item(step.decode_items + workgroup.x * 8u);
  let kv_head = workgroup.y;
  let last_row = item.num_rows - 1u;
  let part = thread % $(LANES)u;
  let key_slot = thread / $(LANES)u;
  let group = thread / $(VALUE_LANES)u;
  let lane = thread % $(VALUE_LANES)u;

  for (var i = thread; i < $(ROWS * FOURS)u; i += $(THREADS)u) {
    let row = i / $(FOURS)u;
    let column = i % $(FOURS)u;
    q_tile[column][row] =
      unpack(q[query_at(item, min(row, last_row), kv_head, Q_STRIDE) + Q_OFFSET + column]);
  }

  let key_end = min(item.end, query_position(item, last_row) + 1u);
  let key_start = max(item.start, first_key(query_position(item, 0u)));
  //# for c in 0..COLUMNS
  let column$c = min(lane + $(c * VALUE_LANES)u, $(FOURS - 1)u);
  //# end
  //# for row in 0..ROWS
  var largest$row = FLOOR;
  var sum$row = 0.0;
  //# for c in 0..COLUMNS
  var out$(row)_$c = vec4<f32>();
  //# end
  //# end
  workgroupBarrier();
  //# if IS_ROUNDED
  for (var i = thread; i < $(ROWS * FOURS)u; i += $(THREADS)u) {
    let row = i / $(FOURS)u;
    let column = i % $(FOURS)u;
    var largest = vec4<f32>();
    for (var c = 0u; c < $(FOURS)u; c++) {
      largest = max(largest, abs(q_tile[c][row]));
    }
    let unit = max(max(largest.x, largest.y), max(largest.z, largest.w)) / 127.0;
    let scaled = select(vec4<f32>(), q_tile[column][row] / unit, vec4<bool>(unit > 0.0));
    let high = round(scaled);
    q_rounded[column][row] = vec2<u32>(
      pack4xI8(vec4<i32>(high)),
      pack4xI8(vec4<i32>(round((scaled - high) * 254.0))),
    );
    if (column == 0u) {
      q_units[row] = unit;
    }
  }
  workgroupBarrier();
  //# for row in 0..ROWS
  let unit$row = q_units[$(row)u];
  //# end
  //# end

  for (var tile = key_start; tile < key_end; tile += $(KEYS)u) {
    // Keys beyond the end are replaced by the last key, and masked.
    //# for j in 0..GROUP_KEYS
    let v_at$j = cache_at(item, min(tile + group + $(j * GROUPS)u, key_end - 1u), kv_head);
    //# for c in 0..COLUMNS
    let packed$(j)_$c = v_cache[v_at$j + column$c];
    //# end
    //# if IS_QUANTIZED
    let value_scale$j = read_scale(v_cache[v_at$j + $(FOURS)u]);
    //# end
    //# end
    //# for k in 0..KEYS_PER_THREAD
    let at$k = cache_at(item, min(tile + key_slot + $(k * KEY_SLOTS)u, key_end - 1u), kv_head);
    //# end
    //# if IS_QUANTIZED
    //# for k in 0..KEYS_PER_THREAD
    let key_scale$k = k_cache[at$k + $(FOURS)u];
    //# end
    //# end
    //# for row in 0..ROWS
    //# for k in 0..KEYS_PER_THREAD
    //# if IS_ROUNDED
    var high$(row)_$k = 0i;
    var low$(row)_$k = 0i;
    //# else
    var dot$(row)_$k = 0.0;
    //# end
    //# end
    //# end
    // Loads a key FOURS_AT_ONCE vec4s at a time, and finally the FOURS_LEFT that are left.
    //# for rest, count in 0 FOURS_AT_ONCE, 1 FOURS_LEFT
    //# if rest
    {
      let column = part + $(WHOLE_FOURS * LANES)u;
    //# else
    //# if LOOPS
    for (var column = part; column < $(WHOLE_FOURS * LANES)u; column += $(FOURS_AT_ONCE * LANES)u) {
    //# else
    {
      let column = part;
    //# end
    //# end
      //# for n in 0..count
      //# if IS_ROUNDED
      //# for k in 0..KEYS_PER_THREAD
      let k$(k)_$n = k_cache[at$k + column + $(n * LANES)u];
      //# end
      //# for row in 0..ROWS
      let q$(row)_$n = q_rounded[column + $(n * LANES)u][$(row)u];
      //# for k in 0..KEYS_PER_THREAD
      high$(row)_$k += dot4I8Packed(k$(k)_$n, q$(row)_$n.x);
      low$(row)_$k += dot4I8Packed(k$(k)_$n, q$(row)_$n.y);
      //# end
      //# end
      //# else
      //# for k in 0..KEYS_PER_THREAD
      let k$(k)_$n = read_cached(k_cache[at$k + column + $(n * LANES)u]);
      //# end
      //# for row in 0..ROWS
      let q$(row)_$n = q_tile[column + $(n * LANES)u][$(row)u];
      //# for k in 0..KEYS_PER_THREAD
      //# for e in x, y, z, w
      dot$(row)_$k = fma(k$(k)_$n.$e, q$(row)_$n.$e, dot$(row)_$k);
      //# end
      //# end
      //# end
      //# end
      //# end
    }
    //# end
    //# for row in 0..ROWS
    //# for k in 0..KEYS_PER_THREAD
    //# if IS_ROUNDED
    let dot$(row)_$k = (f32(high$(row)_$k) + f32(low$(row)_$k) / 254.0) * (unit$row * read_scale(key_scale$k));
    //# else
    //# if IS_QUANTIZED
    dot$(row)_$k *= read_scale(key_scale$k);
    //# end
    //# end
    //# end
    //# end
    //# if IS_SPLIT
    //# for row in 0..ROWS
    //# for k in 0..KEYS_PER_THREAD
    scratch[($(row * KEYS)u + key_slot + $(k * KEY_SLOTS)u) * $(LANES)u + part] = dot$(row)_$k;
    //# end
    //# end
    workgroupBarrier();
    //# for n in 0..EXPONENTS
    if (thread + $(n * THREADS)u < $(ROWS * KEYS)u) {
      let i = thread + $(n * THREADS)u;
      var product = scratch[i * $(LANES)u];
      //# for p in 1..LANES
      product += scratch[i * $(LANES)u + $(p)u];
      //# end
      exponents[i % $(KEYS)u][i / $(KEYS)u] =
        to_exponent(product, item, i / $(KEYS)u, kv_head, tile + i % $(KEYS)u, key_end);
    }
    //# end
    //# else
    //# for row in 0..ROWS
    //# for k in 0..KEYS_PER_THREAD
    exponents[key_slot + $(k * KEY_SLOTS)u][$(row)u] =
      to_exponent(dot$(row)_$k, item, $(row)u, kv_head, tile + key_slot + $(k * KEY_SLOTS)u, key_end);
    //# end
    //# end
    //# end
    workgroupBarrier();

    //# for j in 0..GROUP_KEYS
    //# for c in 0..COLUMNS
    let v$(j)_$c = read_cached(packed$(j)_$c);
    //# end
    //# end
    //# for row in 0..ROWS
    {
      var new_largest = largest$row;
      //# for j in 0..GROUP_KEYS
      let exponent$j = exponents[group + $(j * GROUPS)u][$(row)u];
      new_largest = max(new_largest, exponent$j);
      //# end
      let correction = exp2(largest$row - new_largest);
      largest$row = new_largest;
      sum$row *= correction;
      //# for c in 0..COLUMNS
      out$(row)_$c *= correction;
      //# end
      //# for j in 0..GROUP_KEYS
      let weight$j = exp2(exponent$j - new_largest);
      sum$row += weight$j;
      //# for c in 0..COLUMNS
      //# if IS_QUANTIZED
      out$(row)_$c = fma(v$(j)_$c, vec4<f32>(weight$j * value_scale$j), out$(row)_$c);
      //# else
      out$(row)_$c = fma(v$(j)_$c, vec4<f32>(weight$j), out$(row)_$c);
      //# end
      //# end
      //# end
    }
    //# end
    //# if !IS_SPLIT
    // Otherwise the next tile would overwrite exponents that are still being read.
    workgroupBarrier();
    //# end
  }

  if (lane == 0u) {
    //# for row in 0..ROWS
    group_largest[group][$(row)u] = largest$row;
    //# end
  }
  workgroupBarrier();
  //# for row in 0..ROWS
  var all_largest$row = FLOOR;
  //# for g in 0..GROUPS
  all_largest$row = max(all_largest$row, group_largest[$(g)u][$(row)u]);
  //# end
  let correction$row = exp2(largest$row - all_largest$row);
  //# end
  if (lane == 0u) {
    //# for row in 0..ROWS
    group_sums[group][$(row)u] = sum$row * correction$row;
    //# end
  }
  if (thread == 0u) {
    //# for row in 0..ROWS
    row_largest[$(row)u] = all_largest$row;
    //# end
  }
  // Each pass combines as many rows as fit into `scratch`.
  //# for pass in 0..PASSES
  //# if pass
  workgroupBarrier();
  //# end
  //# for r in 0..ROWS_AT_ONCE
  //# if ROWS / (pass * ROWS_AT_ONCE + r + 1)
  //# for c in 0..COLUMNS
  {
    let joined = out$(pass * ROWS_AT_ONCE + r)_$c * correction$(pass * ROWS_AT_ONCE + r);
    //# for e, n in x 0, y 1, z 2, w 3
    scratch[$((4 * r * COLUMNS + 4 * c + n) * THREADS)u + thread] = joined.$e;
    //# end
  }
  //# end
  //# end
  //# end
  workgroupBarrier();
  for (var i = thread; i < min($(ROWS_AT_ONCE)u, $(ROWS - pass * ROWS_AT_ONCE)u) * $(FOURS)u; i += $(THREADS)u) {
    write_row(item, kv_head, i / $(FOURS)u, $(pass * ROWS_AT_ONCE)u, i % $(FOURS)u);
  }
  //# end
}

// The exponent for a product of row and key; LOWEST if the row does not see the key.
fn to_exponent(product: f32, item: Item, row: u32, kv_head: u32, key: u32, key_end: u32) -> f32 {
  let query = query_position(item, min(row, item.num_rows - 1u));
  let is_seen = key < key_end && key <= query && key >= first_key(query);
  var exponent = to_exponents(vec4<f32>(product)).x;
  if (HAS_SLOPES) {
    exponent += LOG2_E * slopes[query_head(item, row, kv_head)] * (f32(key) - f32(query));
  }
  return select(LOWEST, exponent, is_seen);
}

// Combines the groups' outputs for a vec4 of a row, the `r`-th row in `scratch`.
fn write_row(item: Item, kv_head: u32, r: u32, first: u32, column: u32) {
  let row = first + r;
  if (row >= item.num_rows) {
    return;
  }
  let at = (r * $(COLUMNS)u + column / $(VALUE_LANES)u) * $(4 * THREADS)u + column % $(VALUE_LANES)u;
  var sum = vec4<f32>();
  var total = 0.0;
  //# for g in 0..GROUPS
  sum += vec4<f32>(
    //# for e in 0..4
    scratch[at + $(g * VALUE_LANES + e * THREADS)u],
    //# end
  );
  total += group_sums[$(g)u][row];
  //# end
  if (item.slot != NO_SLOT) {
    let into = ((item.slot * KV_HEADS + kv_head) * $(ROWS)u + row) * $(FOURS + 1)u;
    if (column == 0u) {
      partials[into] = vec4<f32>(row_largest[row], total, 0.0, 0.0);
    }
    partials[into + 1u + column] = sum;
    return;
  }
  if (HAS_SINKS) {
    total += exp2(sinks[query_head(item, row, kv_head)] * LOG2_E - row_largest[row]);
  }
  out[query_at(item, row, kv_head, KV_HEADS * GROUP * HEAD_FOURS) + column] = pack(sum / total);
}
