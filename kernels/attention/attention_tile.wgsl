// Attention of many queries at once, after FlashAttention-2 (Dao, 2023): see attention_source.ts.
//
// One workgroup takes up to $ROWS rows of one item and one KV head, and processes the keys in tiles of $KEYS. A tile is
// staged once for all rows, so the heads of a group share the loads. $LANES threads share the same rows. For the scores
// each takes every $LANES-th key, and for the output every $LANES-th vec4 of the head.
//
// The shader that includes this template declares `q` and `out`, and functions that load keys and values (`load_key`,
// `load_value`), say which keys a query sees (`first_key`, `end_key`), and read a head's constants (`sink`, `slope`).

const TILE_THREADS = $(THREADS)u;

// Queries. The outer index is vec4 of the head and block of rows; the inner one is element and group of four rows.
var<workgroup> q_tile: array<array<four, $(4 * QUADS)>, $(FOURS * BLOCKS)>;
// Keys, then values, by position. One vec4 of padding per key avoids conflicts of memory banks.
var<workgroup> kv_tile: array<$STAGED, $(KEYS * STRIDE)>;
// Weights. The outer index is key and block of rows; the inner one is the group of four rows.
var<workgroup> weights: array<array<$VECTOR, $QUADS>, $(KEYS * BLOCKS)>;
var<workgroup> reduced: array<array<vec4<f32>, $QUADS>, $THREADS>;

fn stage_queries(item: Item, kv_head: u32, thread: u32) {
  for (var i = thread; i < $(FOURS * BLOCKS * QUADS)u; i += $(THREADS)u) {
    let column = i % $(FOURS)u;
    let quad = i / $(FOURS)u;
    let last = item.num_rows - 1u;
    let row = quad * 4u;
    //# for r in 0..4
    let row$r = unpack(q[query_at(item, min(row + $(r)u, last), kv_head, Q_STRIDE) + Q_OFFSET + column]);
    //# end
    let at = column * $(BLOCKS)u + quad / $(QUADS)u;
    let of_block = quad % $(QUADS)u;
    //# for e, n in x 0, y 1, z 2, w 3
    //# if IS_HALF
    q_tile[at][of_block + $(n * QUADS)u] = pack(vec4<f32>(row0.$e, row1.$e, row2.$e, row3.$e) / $HALF_SCALE.0);
    //# else
    q_tile[at][of_block + $(n * QUADS)u] = pack(vec4<f32>(row0.$e, row1.$e, row2.$e, row3.$e));
    //# end
    //# end
  }
}

// Stores the part of a tile that a thread has loaded.
//# part store
//# for n in 0..LOADS
//# if HAS_REST
if ((first + $(n * THREADS)u) < $(KEYS * FOURS)u) {
//# end
  kv_tile[(first + $(n * THREADS)u) / $(FOURS)u * $(STRIDE)u + (first + $(n * THREADS)u) % $(FOURS)u] = $UNPACK($what$n);
//# if HAS_REST
}
//# end
//# end
//# end

// Copies a tile of keys or values to workgroup memory.
//# part copy
for (var first = thread; first < $(KEYS * FOURS)u; first += $(LOADS * THREADS)u) {
  //# for n in 0..LOADS
  let staged$n = load_$what(item, clamp(tile + (first + $(n * THREADS)u) / $(FOURS)u, first_seen, key_end - 1u), kv_head, (first + $(n * THREADS)u) % $(FOURS)u);
  //# end
  //# put store what staged
}
//# end

fn attend_tile(item: Item, kv_head: u32, thread: u32) {
  let block = thread / $(LANES)u;
  let lane = thread % $(LANES)u;
  let last_row = item.num_rows - 1u;

  stage_queries(item, kv_head, thread);

  let key_end = end_key(item, query_position(item, last_row));
  // Tiles begin at the same key for all rows of a sequence, so that results do not depend on which rows share a
  // workgroup.
  let first_seen = first_key(query_position(item, 0u));
  let key_start = first_seen / $(KEYS)u * $(KEYS)u;
  // Keys from this one up to `end_of_all` are seen by all rows.
  let first_of_all = first_key(query_position(item, last_row));
  let end_of_all = end_key(item, query_position(item, 0u));
  //# for q in 0..QUADS
  let row$q = block * $(4 * QUADS)u + $(4 * q)u;
  let positions$q = vec4<u32>(
    //# for r in 0..4
    query_position(item, min(row$q + $(r)u, last_row)),
    //# end
  );
  let first_keys$q = vec4<u32>(
    //# for r in x, y, z, w
    first_key(positions$q.$r),
    //# end
  );
  let end_keys$q = vec4<u32>(
    //# for r in x, y, z, w
    end_key(item, positions$q.$r),
    //# end
  );
  var slopes$q = vec4<f32>();
  if (HAS_SLOPES) {
    slopes$q = LOG2_E * vec4<f32>(
      //# for r in 0..4
      slope(query_head(item, min(row$q + $(r)u, last_row), kv_head)),
      //# end
    );
  }
  var largest$q = vec4<f32>(LOWEST);
  var sums$q = vec4<f32>();
  //# end
  //# for row in 0..THREAD_ROWS
  //# for c in 0..COLUMNS
  var out$(row)_$c = vec4<f32>();
  //# end
  //# end

  // If a thread's part of a tile is small, it is prefetched into registers: values while scores are computed, and the
  // next tile's keys while outputs are computed. Positions before `first_seen`, and from `key_end` on, are replaced by
  // the nearest position between the two, since memory there may hold NaN or another sequence's keys.
  //# if KEEPS_LOADS
  let first = thread;
  //# for n in 0..LOADS
  var staged_key$n = load_key(item, clamp(key_start + (first + $(n * THREADS)u) / $(FOURS)u, first_seen, key_end - 1u), kv_head, (first + $(n * THREADS)u) % $(FOURS)u);
  //# end
  //# end
  for (var tile = key_start; tile < key_end; tile += $(KEYS)u) {
    //# if KEEPS_LOADS
    //# put store what staged_key
    //# else
    //# put copy what key
    //# end
    workgroupBarrier();
    //# if KEEPS_LOADS
    //# for n in 0..LOADS
    let staged_value$n = load_value(item, clamp(tile + (first + $(n * THREADS)u) / $(FOURS)u, first_seen, key_end - 1u), kv_head, (first + $(n * THREADS)u) % $(FOURS)u);
    //# end
    //# end

    //# for n in 0..KEYS_PER_THREAD
    //# for q in 0..QUADS
    var score$(n)_$q = vec4<f32>();
    //# end
    //# end
    for (var column = 0u; column < $(FOURS)u; column += $(COLUMNS_AT_ONCE)u) {
      //# if IS_HALF
      //# for n in 0..KEYS_PER_THREAD
      //# for q in 0..QUADS
      var some$(n)_$q = vec4<f16>();
      //# end
      //# end
      //# end
      //# for u in 0..COLUMNS_AT_ONCE
      let at$u = (column + $(u)u) * $(BLOCKS)u + block;
      //# for e in 0..4
      //# for q in 0..QUADS
      let q$u$(e)_$q = $READ_QUERY(q_tile[at$u][$(e * QUADS + q)u]);
      //# end
      //# end
      //# for n in 0..KEYS_PER_THREAD
      let k$u$n = $READ(kv_tile[(lane + $(n * LANES)u) * $(STRIDE)u + column + $(u)u]);
      //# for e, i in x 0, y 1, z 2, w 3
      //# for q in 0..QUADS
      //# if IS_HALF
      some$(n)_$q = fma(q$u$(i)_$q, vec4<f16>(k$u$n.$e), some$(n)_$q);
      //# else
      score$(n)_$q = fma(q$u$(i)_$q, vec4<f32>(k$u$n.$e), score$(n)_$q);
      //# end
      //# end
      //# end
      //# end
      //# end
      //# if IS_HALF
      //# for n in 0..KEYS_PER_THREAD
      //# for q in 0..QUADS
      score$(n)_$q = fma(vec4<f32>(some$(n)_$q), vec4<f32>($HALF_SCALE.0), score$(n)_$q);
      //# end
      //# end
      //# end
    }
    //# for n in 0..KEYS_PER_THREAD
    //# for q in 0..QUADS
    score$(n)_$q = to_exponents(score$(n)_$q);
    //# end
    //# end
    if (HAS_SLOPES) {
      //# for n in 0..KEYS_PER_THREAD
      let place$n = f32(tile + lane + $(n * LANES)u);
      //# for q in 0..QUADS
      score$(n)_$q = fma(slopes$q, place$n - vec4<f32>(positions$q), score$(n)_$q);
      //# end
      //# end
    }
    if (tile < first_of_all || tile + $(KEYS)u > end_of_all) {
      //# for n in 0..KEYS_PER_THREAD
      let key$n = vec4<u32>(tile + lane + $(n * LANES)u);
      //# for q in 0..QUADS
      score$(n)_$q = select(vec4<f32>(LOWEST), score$(n)_$q, (key$n < end_keys$q) & (key$n >= first_keys$q));
      //# end
      //# end
    }
    //# for q in 0..QUADS
    var tile_largest$q = score0_$q;
    //# for n in 1..KEYS_PER_THREAD
    tile_largest$q = max(tile_largest$q, score$(n)_$q);
    //# end
    reduced[thread][$(q)u] = tile_largest$q;
    //# end
    workgroupBarrier();

    //# if KEEPS_LOADS
    //# put store what staged_value
    //# for n in 0..LOADS
    staged_key$n = load_key(item, clamp(tile + $(KEYS)u + (first + $(n * THREADS)u) / $(FOURS)u, first_seen, key_end - 1u), kv_head, (first + $(n * THREADS)u) % $(FOURS)u);
    //# end
    //# else
    //# put copy what value
    //# end
    let first_lane = thread - lane;
    //# for q in 0..QUADS
    var new_largest$q = largest$q;
    //# end
    //# for i in 0..LANES
    //# for q in 0..QUADS
    new_largest$q = max(new_largest$q, reduced[first_lane + $(i)u][$(q)u]);
    //# end
    //# end
    //# for q in 0..QUADS
    let correction$q = exp2(largest$q - new_largest$q);
    largest$q = new_largest$q;
    sums$q *= correction$q;
    //# end
    //# for n in 0..KEYS_PER_THREAD
    //# for q in 0..QUADS
    let weight$(n)_$q = $VECTOR(to_weights(score$(n)_$q, largest$q));
    weights[(lane + $(n * LANES)u) * $(BLOCKS)u + block][$(q)u] = weight$(n)_$q;
    sums$q += vec4<f32>(weight$(n)_$q);
    //# end
    //# end
    //# for q in 0..QUADS
    //# for r, i in x 0, y 1, z 2, w 3
    //# for c in 0..COLUMNS
    out$(4 * q + i)_$c *= correction$q.$r;
    //# end
    //# end
    //# end
    workgroupBarrier();

    //# for c in 0..COLUMNS
    let column$c = min(lane + $(c * LANES)u, $(FOURS - 1)u);
    //# end
    for (var key = 0u; key < $(KEYS)u; key += $(KEYS_AT_ONCE)u) {
      //# if IS_HALF
      //# for row in 0..THREAD_ROWS
      //# for c in 0..COLUMNS
      var some$(row)_$c = vec4<f16>();
      //# end
      //# end
      //# end
      //# for k in 0..KEYS_AT_ONCE
      //# for c in 0..COLUMNS
      let v$(k)_$c = $READ(kv_tile[(key + $(k)u) * $(STRIDE)u + column$c]);
      //# end
      //# for q in 0..QUADS
      let w$(k)_$q = weights[(key + $(k)u) * $(BLOCKS)u + block][$(q)u];
      //# end
      //# for q in 0..QUADS
      //# for r, i in x 0, y 1, z 2, w 3
      //# for c in 0..COLUMNS
      //# if IS_HALF
      some$(4 * q + i)_$c = fma(v$(k)_$c, vec4<f16>(w$(k)_$q.$r), some$(4 * q + i)_$c);
      //# else
      out$(4 * q + i)_$c = fma(v$(k)_$c, vec4<f32>(w$(k)_$q.$r), out$(4 * q + i)_$c);
      //# end
      //# end
      //# end
      //# end
      //# end
      //# if IS_HALF
      //# for row in 0..THREAD_ROWS
      //# for c in 0..COLUMNS
      out$(row)_$c += vec4<f32>(some$(row)_$c);
      //# end
      //# end
      //# end
    }
    workgroupBarrier();
  }

  //# for q in 0..QUADS
  reduced[thread][$(q)u] = sums$q;
  //# end
  workgroupBarrier();
  //# for q in 0..QUADS
  var total$q = reduced[thread - lane][$(q)u];
  //# for i in 1..LANES
  total$q += reduced[thread - lane + $(i)u][$(q)u];
  //# end
  //# end
  //# for q in 0..QUADS
  //# for r, i in x 0, y 1, z 2, w 3
  if (row$q + $(i)u < item.num_rows) {
    let row = row$q + $(i)u;
    var total = total$q.$r;
    if (HAS_SINKS) {
      total += exp2(sink(query_head(item, row, kv_head)) * LOG2_E - largest$q.$r);
    }
    let at = query_at(item, row, kv_head, KV_HEADS * GROUP * HEAD_FOURS);
    //# for c in 0..COLUMNS
    if (lane + $(c * LANES)u < $(FOURS)u) {
      out[at + lane + $(c * LANES)u] = pack(out$(4 * q + i)_$c / total);
    }
    //# end
  }
  //# end
  //# end
}
