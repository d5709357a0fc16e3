// Chooses and weights the experts of each row. See experts.ts for the formula.
//
// One workgroup takes a row. It keeps the experts' probabilities in workgroup memory. For each of TOP_K choices, all
// threads together find the best expert that is left.

// [rows, STRIDE], from OFFSET on.
@group(0) @binding(0) var<storage, read> logits: array<elem>;
// f32 [EXPERTS].
@group(0) @binding(1) var<storage, read> bias: array<f32>;
// An expert and the bits of its weight: [rows, TOP_K].
@group(0) @binding(2) var<storage, read_write> routes: array<vec2<u32>>;
// [0] is set to the number of pairs (row, one of its experts): rows * TOP_K.
@group(0) @binding(3) var<storage, read_write> counts: array<u32>;

override EXPERTS: u32;
override TOP_K: u32;
override STRIDE: u32;
override OFFSET: u32;
override IS_SIGMOID: bool;
override HAS_BIAS: bool;
override NORMALIZES: bool;
override EPSILON: f32;
override SCALE: f32;
override PREFERS_LAST: bool;

const THREADS = 64u;
const MAX_TOP_K = 32u;
const LOWEST = -3.4028234e38;

var<workgroup> probabilities: array<f32, EXPERTS>;
// The keys by which experts are chosen: probability plus bias, or LOWEST once an expert is chosen.
var<workgroup> keys: array<f32, EXPERTS>;
var<workgroup> best: array<f32, THREADS>;
var<workgroup> best_at: array<u32, THREADS>;
var<workgroup> chosen: array<u32, MAX_TOP_K>;

fn total(thread: u32, value: f32) -> f32 {
  workgroupBarrier();
  best[thread] = value;
  workgroupBarrier();
  for (var half = THREADS / 2u; half > 0u; half /= 2u) {
    if (thread < half) {
      best[thread] += best[thread + half];
    }
    workgroupBarrier();
  }
  return best[0];
}

fn largest(thread: u32, value: f32) -> f32 {
  workgroupBarrier();
  best[thread] = value;
  workgroupBarrier();
  for (var half = THREADS / 2u; half > 0u; half /= 2u) {
    if (thread < half) {
      best[thread] = max(best[thread], best[thread + half]);
    }
    workgroupBarrier();
  }
  return best[0];
}

// Whether key `a` of expert `i` precedes key `b` of expert `j`.
fn precedes(a: f32, i: u32, b: f32, j: u32) -> bool {
  if (a != b) {
    return a > b;
  }
  if (PREFERS_LAST) {
    return i > j;
  }
  return i < j;
}

fn choose(thread: u32) -> u32 {
  // Each thread finds the best of its experts. A thread without experts keeps LOWEST, at an index that never precedes.
  var key = LOWEST;
  var at = select(0xffffffffu, 0u, PREFERS_LAST);
  for (var e = thread; e < EXPERTS; e += THREADS) {
    if (precedes(keys[e], e, key, at)) {
      key = keys[e];
      at = e;
    }
  }
  workgroupBarrier();
  best[thread] = key;
  best_at[thread] = at;
  workgroupBarrier();
  for (var half = THREADS / 2u; half > 0u; half /= 2u) {
    if (thread < half) {
      let other = thread + half;
      if (precedes(best[other], best_at[other], best[thread], best_at[thread])) {
        best[thread] = best[other];
        best_at[thread] = best_at[other];
      }
    }
    workgroupBarrier();
  }
  return min(best_at[0], EXPERTS - 1u);
}

@compute @workgroup_size(THREADS)
fn route(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let row = group.x;
  if (row == 0u && thread == 0u) {
    counts[0] = groups.x * TOP_K;
  }
  let start = row * STRIDE + OFFSET;
  var highest = LOWEST;
  for (var e = thread; e < EXPERTS; e += THREADS) {
    let logit = f32(logits[start + e]);
    probabilities[e] = logit;
    highest = max(highest, logit);
  }
  var sum = 1.0;
  if (!IS_SIGMOID) {
    highest = largest(thread, highest);
    var own = 0.0;
    for (var e = thread; e < EXPERTS; e += THREADS) {
      probabilities[e] = exp(probabilities[e] - highest);
      own += probabilities[e];
    }
    sum = total(thread, own);
  }
  for (var e = thread; e < EXPERTS; e += THREADS) {
    let probability = select(probabilities[e] / sum, 1.0 / (1.0 + exp(-probabilities[e])), IS_SIGMOID);
    probabilities[e] = probability;
    keys[e] = probability;
    if (HAS_BIAS) {
      keys[e] += bias[e];
    }
  }
  workgroupBarrier();
  for (var j = 0u; j < TOP_K; j++) {
    let expert = choose(thread);
    if (thread == 0u) {
      chosen[j] = expert;
      keys[expert] = LOWEST;
    }
    workgroupBarrier();
  }
  if (thread == 0u) {
    var mass = EPSILON;
    for (var j = 0u; j < TOP_K; j++) {
      mass += probabilities[chosen[j]];
    }
    for (var j = 0u; j < TOP_K; j++) {
      var weight = probabilities[chosen[j]];
      if (NORMALIZES) {
        weight = weight / mass;
      }
      routes[row * TOP_K + j] = vec2<u32>(chosen[j], bitcast<u32>(weight * SCALE));
    }
  }
}
