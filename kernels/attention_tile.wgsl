// Attention for many queries at once, after FlashAttention (Dao et al., 2022), wherever the keys are.
//
// One workgroup takes up to ROWS rows of one item and one KV head. It walks the keys in tiles of
// KEYS = COLUMN_THREADS * KEYS_PER_THREAD, each staged once for all its rows, so the heads of a group share what is loaded.
// COLUMN_THREADS threads serve four rows, and with 8 of them: in the scores each takes every eighth key, in the output
// every eighth four of the head.
//
// The including shader declares COLUMN_THREADS, `q` and `out`, and functions for where keys and values are and which of
// them a query sees: `load_key`, `load_value`, `first_key`, `end_key`, `sink`.
//
// Workgroup memory: (ROWS * HEAD_FOURS + KEYS * (HEAD_FOURS + 1)) fours, (KEYS + COLUMN_THREADS) * ROWS floats.

override ROWS: u32;
override KEYS_PER_THREAD: u32;

// Most keys of a tile, and most fours of the head, that one thread takes: tiles of 32 keys and heads of 256.
const MAX_KEYS = 32u / COLUMN_THREADS;
const MAX_COLUMNS = 64u / COLUMN_THREADS;

// Queries by element of the head and row, four rows side by side.
var<workgroup> q_tile: array<four, ROWS * HEAD_FOURS>;
// Keys, then values, by position; one four of padding keeps threads off each other's banks.
var<workgroup> kv_tile: array<four, COLUMN_THREADS * KEYS_PER_THREAD * (HEAD_FOURS + 1)>;
// Weights by key, four rows side by side.
var<workgroup> weights: array<vec4<f32>, COLUMN_THREADS * KEYS_PER_THREAD * (ROWS / 4)>;
var<workgroup> reduced: array<vec4<f32>, COLUMN_THREADS * (ROWS / 4)>;

fn stage_queries(item: Item, kv_head: u32, thread: u32) {
  for (var i = thread; i < (ROWS / 4u) * HEAD_FOURS; i += COLUMN_THREADS * (ROWS / 4u)) {
    let column = i % HEAD_FOURS;
    let quad = i / HEAD_FOURS;
    var rows: array<vec4<f32>, 4>;
    for (var r = 0u; r < 4u; r++) {
      let row = min(quad * 4u + r, item.num_rows - 1u);
      rows[r] = unpack(q[query_at(item, row, kv_head, Q_STRIDE) + Q_OFFSET + column]);
    }
    for (var e = 0u; e < 4u; e++) {
      q_tile[(column * 4u + e) * (ROWS / 4u) + quad] =
        pack(vec4<f32>(rows[0][e], rows[1][e], rows[2][e], rows[3][e]));
    }
  }
}

fn attend_tile(item: Item, kv_head: u32, thread: u32) {
  let quads = ROWS / 4u;
  let quad = thread / COLUMN_THREADS;
  let lane = thread % COLUMN_THREADS;
  let keys = COLUMN_THREADS * KEYS_PER_THREAD;
  let columns = (HEAD_FOURS + COLUMN_THREADS - 1u) / COLUMN_THREADS;
  let tile_stride = HEAD_FOURS + 1u;

  stage_queries(item, kv_head, thread);

  var positions: vec4<u32>;
  for (var r = 0u; r < 4u; r++) {
    positions[r] = query_position(item, min(quad * 4u + r, item.num_rows - 1u));
  }
  let key_end = end_key(item, query_position(item, item.num_rows - 1u));
  let key_start = first_key(query_position(item, 0u));
  var first_keys: vec4<u32>;
  var end_keys: vec4<u32>;
  for (var r = 0u; r < 4u; r++) {
    first_keys[r] = first_key(positions[r]);
    end_keys[r] = end_key(item, positions[r]);
  }

  var largest = vec4<f32>(LOWEST);
  var sums = vec4<f32>();
  var output: array<array<vec4<f32>, 4>, MAX_COLUMNS>;
  for (var c = 0u; c < columns; c++) {
    for (var r = 0u; r < 4u; r++) {
      output[c][r] = vec4<f32>();
    }
  }

  for (var tile = key_start; tile < key_end; tile += keys) {
    for (var i = thread; i < keys * HEAD_FOURS; i += COLUMN_THREADS * (ROWS / 4u)) {
      let key = i / HEAD_FOURS;
      let column = i % HEAD_FOURS;
      // Values beyond the sequence's end are undefined, possibly NaN.
      var staged: four;
      if (tile + key < key_end) {
        staged = load_key(item, tile + key, kv_head, column);
      }
      kv_tile[key * tile_stride + column] = staged;
    }
    workgroupBarrier();

    var scores: array<vec4<f32>, MAX_KEYS>;
    for (var n = 0u; n < KEYS_PER_THREAD; n++) {
      scores[n] = vec4<f32>();
    }
    for (var column = 0u; column < HEAD_FOURS; column++) {
      let at = column * 4u * quads + quad;
      let q0 = unpack(q_tile[at]);
      let q1 = unpack(q_tile[at + quads]);
      let q2 = unpack(q_tile[at + 2u * quads]);
      let q3 = unpack(q_tile[at + 3u * quads]);
      for (var n = 0u; n < KEYS_PER_THREAD; n++) {
        let k = unpack(kv_tile[(lane + n * COLUMN_THREADS) * tile_stride + column]);
        scores[n] = fma(q3, vec4<f32>(k.w), fma(q2, vec4<f32>(k.z),
          fma(q1, vec4<f32>(k.y), fma(q0, vec4<f32>(k.x), scores[n]))));
      }
    }
    var tile_largest = vec4<f32>(LOWEST);
    for (var n = 0u; n < KEYS_PER_THREAD; n++) {
      let key = vec4<u32>(tile + lane + n * COLUMN_THREADS);
      let is_seen = (key < end_keys) & (key >= first_keys);
      scores[n] = select(vec4<f32>(LOWEST), to_exponents(scores[n]), is_seen);
      tile_largest = max(tile_largest, scores[n]);
    }
    reduced[quad * COLUMN_THREADS + lane] = tile_largest;
    workgroupBarrier();

    for (var i = thread; i < keys * HEAD_FOURS; i += COLUMN_THREADS * (ROWS / 4u)) {
      let key = i / HEAD_FOURS;
      let column = i % HEAD_FOURS;
      var staged: four;
      if (tile + key < key_end) {
        staged = load_value(item, tile + key, kv_head, column);
      }
      kv_tile[key * tile_stride + column] = staged;
    }
    var new_largest = largest;
    for (var i = 0u; i < COLUMN_THREADS; i++) {
      new_largest = max(new_largest, reduced[quad * COLUMN_THREADS + i]);
    }
    let correction = exp2(largest - new_largest);
    largest = new_largest;
    sums *= correction;
    for (var n = 0u; n < KEYS_PER_THREAD; n++) {
      let weight = to_weights(scores[n], largest);
      weights[(lane + n * COLUMN_THREADS) * quads + quad] = weight;
      sums += weight;
    }
    for (var c = 0u; c < columns; c++) {
      for (var r = 0u; r < 4u; r++) {
        output[c][r] *= correction[r];
      }
    }
    workgroupBarrier();

    for (var key = 0u; key < keys; key++) {
      let weight = weights[key * quads + quad];
      for (var c = 0u; c < columns; c++) {
        // The last columns of a head that 32 does not divide repeat the last four, and are not stored.
        let column = min(lane + c * COLUMN_THREADS, HEAD_FOURS - 1u);
        let v = unpack(kv_tile[key * tile_stride + column]);
        for (var r = 0u; r < 4u; r++) {
          output[c][r] = fma(v, vec4<f32>(weight[r]), output[c][r]);
        }
      }
    }
    workgroupBarrier();
  }

  reduced[quad * COLUMN_THREADS + lane] = sums;
  workgroupBarrier();
  var total = vec4<f32>();
  for (var i = 0u; i < COLUMN_THREADS; i++) {
    total += reduced[quad * COLUMN_THREADS + i];
  }
  for (var r = 0u; r < 4u; r++) {
    let row = quad * 4u + r;
    if (row >= item.num_rows) {
      continue;
    }
    if (HAS_SINKS) {
      let head = kv_head * GROUP + (item.row_start + row) % GROUP;
      total[r] += exp2(sink(head) * LOG2_E - largest[r]);
    }
    let at = query_at(item, row, kv_head, KV_HEADS * GROUP * HEAD_FOURS);
    for (var c = 0u; c < columns; c++) {
      let column = lane + c * COLUMN_THREADS;
      if (column < HEAD_FOURS) {
        out[at + column] = pack(output[c][r] / total[r]);
      }
    }
  }
}
