// Paged attention for few queries over many keys, after Flash-Decoding (Dao et al., 2023).
//
// One workgroup takes up to ROWS rows of one item, its range of keys, and one KV head. It walks the keys in tiles
// of KEYS = 4 * THREADS: in the scores each thread takes four keys and all rows, in the output two fours of the head,
// all rows, and every KEY_GROUPS-th key. An item without a slot holds all keys of its rows and writes the output;
// others write what paged_attention_reduce joins.
//
// Workgroup memory: 4 * ROWS * HEAD_FOURS + 20 * QUADS * THREADS + 36 * QUADS floats.

@group(0) @binding(1) var<storage, read> q: array<four>;
@group(0) @binding(2) var<storage, read> k_cache: array<four>;
@group(0) @binding(3) var<storage, read> v_cache: array<four>;
@group(0) @binding(4) var<storage, read> sinks: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<four>;
// Per slot, KV head and row: (largest exponent, sum of weights, -, -), then the weighted sum of values.
@group(0) @binding(6) var<storage, read_write> partials: array<vec4<f32>>;

override ROWS: u32;
// ceil(ROWS / 4).
override QUADS: u32;
override THREADS: u32;
// Threads side by side over the head: ceil(HEAD_FOURS / 2).
override LANES: u32;

const KEYS_PER_THREAD = 4u;
const MAX_ROWS = 8u;
const MAX_QUADS = 2u;
const GATHERERS = 8u;

var<workgroup> q_tile: array<vec4<f32>, ROWS * HEAD_FOURS>;
// Weights by key, four rows side by side; at the end the sums of values by row and thread.
var<workgroup> weights: array<vec4<f32>, 4 * QUADS * THREADS>;
// One quad of rows per thread, and what GATHERERS threads make of them.
var<workgroup> per_thread: array<vec4<f32>, QUADS * THREADS>;
var<workgroup> gathered: array<vec4<f32>, QUADS * 8>;
var<workgroup> row_largest: array<vec4<f32>, QUADS>;

@compute @workgroup_size(THREADS)
fn paged_attention_decode(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let item = read_item(step.decode_items + group.x * 8u);
  let kv_head = group.y;
  let key_groups = THREADS / LANES;
  let key_group = thread / LANES;
  let lane = thread % LANES;
  let keys = KEYS_PER_THREAD * THREADS;

  for (var i = thread; i < ROWS * HEAD_FOURS; i += THREADS) {
    let row = min(i / HEAD_FOURS, item.num_rows - 1u);
    let at = query_at(item, row, kv_head, Q_STRIDE) + Q_OFFSET;
    q_tile[i] = unpack(q[at + i % HEAD_FOURS]);
  }
  workgroupBarrier();

  let key_end = min(item.end, query_position(item, item.num_rows - 1u) + 1u);
  let key_start = max(item.start, first_key(query_position(item, 0u)));

  var largest: array<vec4<f32>, MAX_QUADS>;
  var sums: array<vec4<f32>, MAX_QUADS>;
  for (var quad = 0u; quad < QUADS; quad++) {
    largest[quad] = vec4<f32>(LOWEST);
    sums[quad] = vec4<f32>();
  }
  var output0: array<vec4<f32>, MAX_ROWS>;
  var output1: array<vec4<f32>, MAX_ROWS>;
  for (var row = 0u; row < ROWS; row++) {
    output0[row] = vec4<f32>();
    output1[row] = vec4<f32>();
  }

  for (var tile = key_start; tile < key_end; tile += keys) {
    let tile_end = min(tile + keys, key_end);

    // Scores of four keys by row.
    var scores: array<vec4<f32>, MAX_ROWS>;
    for (var row = 0u; row < MAX_ROWS; row++) {
      scores[row] = vec4<f32>();
    }
    let positions = vec4<u32>(tile + thread) + vec4<u32>(0u, 1u, 2u, 3u) * THREADS;
    if (positions.x < tile_end) {
      let last = vec4<u32>(tile_end - 1u);
      let reached = min(positions, last);
      let at0 = cache_at(item, reached.x, kv_head);
      let at1 = cache_at(item, reached.y, kv_head);
      let at2 = cache_at(item, reached.z, kv_head);
      let at3 = cache_at(item, reached.w, kv_head);
      for (var column = 0u; column < HEAD_FOURS; column++) {
        let k0 = unpack(k_cache[at0 + column]);
        let k1 = unpack(k_cache[at1 + column]);
        let k2 = unpack(k_cache[at2 + column]);
        let k3 = unpack(k_cache[at3 + column]);
        let k_x = vec4<f32>(k0.x, k1.x, k2.x, k3.x);
        let k_y = vec4<f32>(k0.y, k1.y, k2.y, k3.y);
        let k_z = vec4<f32>(k0.z, k1.z, k2.z, k3.z);
        let k_w = vec4<f32>(k0.w, k1.w, k2.w, k3.w);
        for (var row = 0u; row < ROWS; row++) {
          let q_row = q_tile[row * HEAD_FOURS + column];
          scores[row] = fma(k_w, vec4<f32>(q_row.w), fma(k_z, vec4<f32>(q_row.z),
            fma(k_y, vec4<f32>(q_row.y), fma(k_x, vec4<f32>(q_row.x), scores[row]))));
        }
      }
    }
    for (var row = 0u; row < QUADS * 4u; row++) {
      let query = query_position(item, min(row, item.num_rows - 1u));
      let is_seen = (positions < vec4<u32>(tile_end)) & (positions <= vec4<u32>(query)) &
        (positions >= vec4<u32>(first_key(query)));
      scores[row] = select(vec4<f32>(LOWEST), to_exponents(scores[row]), is_seen);
    }

    // The largest exponent of each row, over the thread's keys, then over all threads in two steps.
    for (var quad = 0u; quad < QUADS; quad++) {
      var of_thread: vec4<f32>;
      for (var r = 0u; r < 4u; r++) {
        let of_keys = scores[quad * 4u + r];
        of_thread[r] = max(max(of_keys.x, of_keys.y), max(of_keys.z, of_keys.w));
      }
      per_thread[quad * THREADS + thread] = of_thread;
    }
    workgroupBarrier();
    if (thread < GATHERERS) {
      for (var quad = 0u; quad < QUADS; quad++) {
        var of_some = vec4<f32>(LOWEST);
        for (var i = thread; i < THREADS; i += GATHERERS) {
          of_some = max(of_some, per_thread[quad * THREADS + i]);
        }
        gathered[quad * GATHERERS + thread] = of_some;
      }
    }
    workgroupBarrier();
    for (var quad = 0u; quad < QUADS; quad++) {
      var new_largest = largest[quad];
      for (var i = 0u; i < GATHERERS; i++) {
        new_largest = max(new_largest, gathered[quad * GATHERERS + i]);
      }
      let correction = exp2(largest[quad] - new_largest);
      largest[quad] = new_largest;
      sums[quad] *= correction;
      for (var r = 0u; r < 4u; r++) {
        output0[quad * 4u + r] *= correction[r];
        output1[quad * 4u + r] *= correction[r];
      }
      for (var n = 0u; n < KEYS_PER_THREAD; n++) {
        let of_key = vec4<f32>(
          scores[quad * 4u][n],
          scores[quad * 4u + 1u][n],
          scores[quad * 4u + 2u][n],
          scores[quad * 4u + 3u][n],
        );
        let weight = to_weights(of_key, new_largest);
        weights[(thread + n * THREADS) * QUADS + quad] = weight;
        sums[quad] += weight;
      }
    }
    workgroupBarrier();

    if (key_group < key_groups) {
      let second = min(lane + LANES, HEAD_FOURS - 1u);
      for (var key = key_group; key < tile_end - tile; key += key_groups) {
        let at = cache_at(item, tile + key, kv_head);
        let v0 = unpack(v_cache[at + lane]);
        let v1 = unpack(v_cache[at + second]);
        for (var quad = 0u; quad < QUADS; quad++) {
          let weight = weights[key * QUADS + quad];
          for (var r = 0u; r < 4u; r++) {
            let row = quad * 4u + r;
            output0[row] = fma(v0, vec4<f32>(weight[r]), output0[row]);
            output1[row] = fma(v1, vec4<f32>(weight[r]), output1[row]);
          }
        }
      }
    }
    // The next tile writes `weights` two barriers from here.
  }

  for (var quad = 0u; quad < QUADS; quad++) {
    per_thread[quad * THREADS + thread] = sums[quad];
  }
  workgroupBarrier();
  if (thread < GATHERERS) {
    for (var quad = 0u; quad < QUADS; quad++) {
      var of_some = vec4<f32>();
      for (var i = thread; i < THREADS; i += GATHERERS) {
        of_some += per_thread[quad * THREADS + i];
      }
      gathered[quad * GATHERERS + thread] = of_some;
    }
  }
  if (thread == 0u) {
    for (var quad = 0u; quad < QUADS; quad++) {
      row_largest[quad] = largest[quad];
    }
  }
  for (var half = 0u; half < 2u; half++) {
    for (var row = 0u; row < ROWS; row++) {
      weights[row * THREADS + thread] = select(output0[row], output1[row], half == 1u);
    }
    workgroupBarrier();
    for (var i = thread; i < item.num_rows * LANES; i += THREADS) {
      let row = i / LANES;
      let column = i % LANES + half * LANES;
      if (column >= HEAD_FOURS) {
        continue;
      }
      var sum = vec4<f32>();
      for (var g = 0u; g < key_groups; g++) {
        sum += weights[row * THREADS + g * LANES + i % LANES];
      }
      var total = 0.0;
      for (var g = 0u; g < GATHERERS; g++) {
        total += gathered[(row / 4u) * GATHERERS + g][row % 4u];
      }
      let largest_of_row = row_largest[row / 4u][row % 4u];
      if (item.slot != NO_SLOT) {
        let at = ((item.slot * KV_HEADS + kv_head) * ROWS + row) * (HEAD_FOURS + 1u);
        partials[at] = vec4<f32>(largest_of_row, total, 0.0, 0.0);
        partials[at + 1u + column] = sum;
        continue;
      }
      if (HAS_SINKS) {
        let head = kv_head * GROUP + (item.row_start + row) % GROUP;
        total += exp2(sinks[head] * LOG2_E - largest_of_row);
      }
      out[query_at(item, row, kv_head, KV_HEADS * GROUP * HEAD_FOURS) + column] =
        pack(sum / total);
    }
    workgroupBarrier();
  }
}
