// Linear attention with a state. See linear_attention.ts for formula and shapes.
//
// One workgroup goes through all tokens of one sequence for 16 columns of one head's state, which are independent of
// the others: 16 threads share a column, each with its rows in registers. Workgroup memory: 256 floats.

// First row, end of the rows, slot, whether the state is fresh.
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
// Whether each row of a state has its own.
override DECAYS_ROWS: bool;
// Of the delta rule: of a token, or of each head of it; none without the rule.
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

const COLUMNS = 16u;
const GROUPS = 16u;
const MAX_ROWS = 16u;
const THREADS = 256u;

var<workgroup> parts: array<f32, THREADS>;

// The sum of what the threads of a column have.
fn total(thread: u32, own: f32) -> f32 {
  workgroupBarrier();
  parts[thread] = own;
  workgroupBarrier();
  var sum = 0.0;
  for (var at = thread % COLUMNS; at < THREADS; at += COLUMNS) {
    sum += parts[at];
  }
  return sum;
}

@compute @workgroup_size(THREADS)
fn linear_attention(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let range = step[group.z];
  let head = group.y;
  let rows = thread / COLUMNS;
  let column = group.x * COLUMNS + thread % COLUMNS;
  let has_column = column < VALUE_DIM;
  let base = (range.z * HEADS + head) * KEY_DIM * VALUE_DIM + column;
  let q_head = Q_OFFSET + head * QUERY_HEADS / HEADS * KEY_DIM;
  let k_head = K_OFFSET + head * KEY_HEADS / HEADS * KEY_DIM;
  // Row `rows + r * GROUPS` is the thread's `r`-th.
  var own: array<f32, MAX_ROWS>;
  for (var r = 0u; r < MAX_ROWS; r++) {
    let i = rows + r * GROUPS;
    if (i < KEY_DIM && has_column && range.w == 0u) {
      own[r] = state[base + i * VALUE_DIM];
    }
  }
  for (var token = range.x; token < range.y; token++) {
    var held = 0.0;
    for (var r = 0u; r < MAX_ROWS; r++) {
      let i = rows + r * GROUPS;
      if (i >= KEY_DIM) {
        break;
      }
      if (DECAYS) {
        let at = token * DECAY_STRIDE + DECAY_OFFSET;
        var decay = decays[at + select(head, head * KEY_DIM + i, DECAYS_ROWS)];
        if (IS_LOGARITHM) {
          decay = exp(decay);
        }
        own[r] *= decay;
      }
      if (RATES > 0u) {
        held += own[r] * f32(k[token * K_STRIDE + k_head + i]);
      }
    }
    var gain = 0.0;
    if (has_column) {
      gain = f32(v[token * V_STRIDE + V_OFFSET + head * VALUE_DIM + column]);
    }
    if (RATES > 0u) {
      let rate = betas[token * BETA_STRIDE + BETA_OFFSET + select(0u, head, RATES > 1u)];
      gain = rate * (gain - total(thread, held));
    }
    var read = 0.0;
    for (var r = 0u; r < MAX_ROWS; r++) {
      let i = rows + r * GROUPS;
      if (i >= KEY_DIM) {
        break;
      }
      own[r] += f32(k[token * K_STRIDE + k_head + i]) * gain;
      read += own[r] * f32(q[token * Q_STRIDE + q_head + i]);
    }
    let sum = total(thread, read);
    if (rows == 0u && has_column) {
      out[(token * HEADS + head) * VALUE_DIM + column] = elem(SCALE * sum);
    }
  }
  for (var r = 0u; r < MAX_ROWS; r++) {
    let i = rows + r * GROUPS;
    if (i < KEY_DIM && has_column) {
      state[base + i * VALUE_DIM] = own[r];
    }
  }
}
