// Linear attention with a state. See recurrences.ts for formula and shapes, and common/wgsl.ts for unrolling: a
// thread's rows of a state are FOURS variables of four elements.
//
// One workgroup processes all tokens of one sequence for 32 columns of one head's state, which are independent of the
// others. 8 threads share a column, each with its rows in registers. Keys and queries of several tokens at a time are
// staged in workgroup memory, followed by the next token's key. The product of the state with the next token's key is
// summed in the same pass that adds a token, so that the threads of a column synchronise once per token.
//
// Workgroup memory: 1,024 floats for sums, the keys of STAGED + 1 tokens and the queries of STAGED.

// Two vectors of each sequence: first row, end of the rows, slot, whether the state starts at zero; end of the rows
// after which the state is also saved in a second slot, and that slot.
@group(0) @binding(0) var<storage, read> step: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> q: array<elem>;
@group(0) @binding(2) var<storage, read> k: array<elem>;
@group(0) @binding(3) var<storage, read> v: array<elem>;
@group(0) @binding(4) var<storage, read> decays: array<f32>;
@group(0) @binding(5) var<storage, read> betas: array<f32>;
@group(0) @binding(6) var<storage, read_write> state: array<f32>;
@group(0) @binding(7) var<storage, read_write> out: array<elem>;

override HEADS: u32;
override QUERY_HEADS: u32;
override KEY_HEADS: u32;
override KEY_DIM: u32;
override VALUE_DIM: u32;
override SCALE: f32;
override DECAYS: bool;
// Whether a decay is given as its logarithm.
override IS_LOGARITHM: bool;
// Number of rates of the delta rule per token: 1, or one for each head; 0 without the rule.
override RATES: u32;
override Q_STRIDE: u32;
override Q_OFFSET: u32;
override K_STRIDE: u32;
override K_OFFSET: u32;
override V_STRIDE: u32;
override V_OFFSET: u32;
override DECAY_STRIDE: u32;
override DECAY_OFFSET: u32;
override BETA_STRIDE: u32;
override BETA_OFFSET: u32;
// Number of vec4s of rows that the threads of a column have together, including those beyond KEY_DIM.
override KEY_FOURS: u32;
// Number of tokens staged in workgroup memory at a time.
override STAGED: u32;
override NUM_KEYS: u32;
override NUM_QUERIES: u32;

const COLUMNS = 32u;
const GROUPS = 8u;
const THREADS = 256u;

var<workgroup> keys: array<vec4<f32>, NUM_KEYS>;
var<workgroup> queries: array<vec4<f32>, NUM_QUERIES>;
// Each thread's part of a column's result, and of the next key's product with the state. Tokens use the two halves
// in turn, so that a token does not overwrite the previous token's parts.
var<workgroup> parts: array<vec2<f32>, 512>;

fn key_element(token: u32, head: u32, i: u32) -> f32 {
  if (i >= KEY_DIM) {
    return 0.0;
  }
  return f32(k[token * K_STRIDE + K_OFFSET + head * KEY_HEADS / HEADS * KEY_DIM + i]);
}

fn query_element(token: u32, head: u32, i: u32) -> f32 {
  if (i >= KEY_DIM) {
    return 0.0;
  }
  return f32(q[token * Q_STRIDE + Q_OFFSET + head * QUERY_HEADS / HEADS * KEY_DIM + i]);
}

// Stages keys and queries from token `first` on in workgroup memory; beyond the sequence's end they are 0.
fn stage(first: u32, end: u32, head: u32, thread: u32) {
  for (var at = thread; at < NUM_KEYS; at += THREADS) {
    let token = first + at / KEY_FOURS;
    let i = at % KEY_FOURS * 4u;
    var key = vec4<f32>();
    var query = vec4<f32>();
    if (token < end) {
      key = vec4<f32>(
        key_element(token, head, i),
        key_element(token, head, i + 1u),
        key_element(token, head, i + 2u),
        key_element(token, head, i + 3u),
      );
      query = vec4<f32>(
        query_element(token, head, i),
        query_element(token, head, i + 1u),
        query_element(token, head, i + 2u),
        query_element(token, head, i + 3u),
      );
    }
    keys[at] = key;
    if (at < NUM_QUERIES) {
      queries[at] = query;
    }
  }
}

fn decay_at(token: u32, at: u32) -> f32 {
  let decay = decays[token * DECAY_STRIDE + DECAY_OFFSET + at];
  return select(decay, exp(decay), IS_LOGARITHM);
}

fn decay_element(token: u32, head: u32, i: u32) -> f32 {
  if (i >= KEY_DIM) {
    return 1.0;
  }
  return decay_at(token, head * KEY_DIM + i);
}

// The decays of four rows of a state.
fn decay_four(token: u32, head: u32, four: u32) -> vec4<f32> {
  let i = four * 4u;
  return vec4<f32>(
    decay_element(token, head, i),
    decay_element(token, head, i + 1u),
    decay_element(token, head, i + 2u),
    decay_element(token, head, i + 3u),
  );
}

// The sum of the parts of a column's threads.
fn total(first: u32, thread: u32) -> vec2<f32> {
  var sum = vec2<f32>();
  for (var g = 0u; g < GROUPS; g++) {
    sum += parts[first + g * COLUMNS + thread % COLUMNS];
  }
  return sum;
}

@compute @workgroup_size(THREADS)
fn linear_attention(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let range = step[2u * group.z];
  let saved = step[2u * group.z + 1u];
  let head = group.y;
  let first_four = thread / COLUMNS * $(FOURS)u;
  let column = group.x * COLUMNS + thread % COLUMNS;
  let has_column = column < VALUE_DIM;
  let base = (range.z * HEADS + head) * KEY_DIM * VALUE_DIM + column;
  let is_kept = has_column && range.w == 0u;
//# for f in 0..FOURS
  var s$f = vec4<f32>();
//# if DECAYS_ROWS
  var decay$f = decay_four(range.x, head, first_four + $(f)u);
//# end
//# end
  if (is_kept) {
//# for f in 0..FOURS
//# for e in 0..4
    if (first_four * 4u + $(4 * f + e)u < KEY_DIM) {
      s$f[$e] = state[base + (first_four * 4u + $(4 * f + e)u) * VALUE_DIM];
    }
//# end
//# end
  }
  var held = 0.0;
  // Offset of the current token's sums.
  var sums_at = 0u;
  for (var tile = range.x; tile < range.y; tile += STAGED) {
    workgroupBarrier();
    stage(tile, range.y, head, thread);
    workgroupBarrier();
//# if IS_DELTA
    if (tile == range.x) {
      var found = 0.0;
//# for f in 0..FOURS
//# if DECAYS_ROWS
      found += dot(s$f, keys[first_four + $(f)u] * decay$f);
//# else
      found += dot(s$f, keys[first_four + $(f)u]);
//# end
//# end
      parts[sums_at + thread] = vec2<f32>(0.0, found);
      workgroupBarrier();
      held = total(sums_at, thread).y;
      sums_at = THREADS - sums_at;
    }
//# end
    let until = min(tile + STAGED, range.y);
    for (var token = tile; token < until; token++) {
      let key_at = (token - tile) * KEY_FOURS + first_four;
      var decay = 1.0;
//# if DECAYS_ROWS
//# for f in 0..FOURS
      let next_decay$f = decay_four(min(token + 1u, range.y - 1u), head, first_four + $(f)u);
//# end
//# else
      if (DECAYS) {
        decay = decay_at(token, head);
      }
//# end
      var gain = 0.0;
      if (has_column) {
        gain = f32(v[token * V_STRIDE + V_OFFSET + head * VALUE_DIM + column]);
      }
//# if IS_DELTA
      let rate = betas[token * BETA_STRIDE + BETA_OFFSET + select(0u, head, RATES > 1u)];
      gain = rate * (gain - decay * held);
//# end
      var sums = vec2<f32>();
//# for f in 0..FOURS
//# if DECAYS_ROWS
      s$f = s$f * decay$f + keys[key_at + $(f)u] * gain;
//# else
      s$f = s$f * decay + keys[key_at + $(f)u] * gain;
//# end
      sums.x += dot(s$f, queries[key_at + $(f)u]);
//# if IS_DELTA
//# if DECAYS_ROWS
      sums.y += dot(s$f, keys[key_at + KEY_FOURS + $(f)u] * next_decay$f);
//# else
      sums.y += dot(s$f, keys[key_at + KEY_FOURS + $(f)u]);
//# end
//# end
//# end
      parts[sums_at + thread] = sums;
      workgroupBarrier();
      let all = total(sums_at, thread);
      sums_at = THREADS - sums_at;
      held = all.y;
//# if DECAYS_ROWS
//# for f in 0..FOURS
      decay$f = next_decay$f;
//# end
//# end
      if (thread < COLUMNS && has_column) {
        out[(token * HEADS + head) * VALUE_DIM + column] = elem(SCALE * all.x);
      }
      if (has_column && token + 1u == saved.x) {
        let saved_base = (saved.y * HEADS + head) * KEY_DIM * VALUE_DIM + column;
//# for f in 0..FOURS
//# for e in 0..4
        if (first_four * 4u + $(4 * f + e)u < KEY_DIM) {
          state[saved_base + (first_four * 4u + $(4 * f + e)u) * VALUE_DIM] = s$f[$e];
        }
//# end
//# end
      }
    }
  }
  if (has_column) {
//# for f in 0..FOURS
//# for e in 0..4
    if (first_four * 4u + $(4 * f + e)u < KEY_DIM) {
      state[base + (first_four * 4u + $(4 * f + e)u) * VALUE_DIM] = s$f[$e];
    }
//# end
//# end
  }
}
