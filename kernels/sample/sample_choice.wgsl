// Choices between tokens: finds the best over all threads, and defines which of two tokens is better in the draw.

const LARGEST = 3e38;

// A token and its score; among equals, the lower id is better.
struct Choice {
  score: u32,
  token: u32,
  key: u32,
}

const NO_CHOICE = Choice(0u, NO_TOKEN, 0u);
// A choice that ranks ahead of every token.
const AHEAD_OF_ALL = Choice(0xffffffffu, 0u, 0u);

// Declared after all structs, since naga orders types wrongly if an override sizes an array before them.
var<workgroup> shared_scores: array<u32, THREADS>;
var<workgroup> shared_tokens: array<u32, THREADS>;
var<workgroup> shared_keys: array<u32, THREADS>;
var<workgroup> shared_sums: array<vec2<f32>, THREADS>;
var<workgroup> shared_best: vec3<u32>;

fn better(a: Choice, b: Choice) -> Choice {
  if (b.score > a.score || (b.score == a.score && b.token < a.token)) {
    return b;
  }
  return a;
}

// The best choice of all threads.
fn best_of_all(thread: u32, own: Choice) -> Choice {
  shared_scores[thread] = own.score;
  shared_tokens[thread] = own.token;
  shared_keys[thread] = own.key;
  var best = own;
  for (var width = THREADS / 2u; width > 0u; width /= 2u) {
    workgroupBarrier();
    if (thread < width) {
      let other = thread + width;
      best = better(best, Choice(shared_scores[other], shared_tokens[other], shared_keys[other]));
      shared_scores[thread] = best.score;
      shared_tokens[thread] = best.token;
      shared_keys[thread] = best.key;
    }
  }
  if (thread == 0u) {
    shared_best = vec3<u32>(best.score, best.token, best.key);
  }
  // Each uniform load adds two barriers, which make compilation slow in drivers.
  let chosen_best = workgroupUniformLoad(&shared_best);
  return Choice(chosen_best.x, chosen_best.y, chosen_best.z);
}

// The sums over all threads.
fn sum_of_all(thread: u32, own: vec2<f32>) -> vec2<f32> {
  shared_sums[thread] = own;
  var sum = own;
  for (var width = THREADS / 2u; width > 0u; width /= 2u) {
    workgroupBarrier();
    if (thread < width) {
      sum += shared_sums[thread + width];
      shared_sums[thread] = sum;
    }
  }
  return workgroupUniformLoad(&shared_sums[0]);
}

// The mixing function of random.ts.
fn mix(values: vec4<u32>) -> vec4<u32> {
  var mixed = values;
  mixed ^= mixed >> vec4<u32>(16u);
  mixed *= 0x7feb352du;
  mixed ^= mixed >> vec4<u32>(15u);
  mixed *= 0x846ca68bu;
  return mixed ^ (mixed >> vec4<u32>(16u));
}

// The exponential variate of a draw, -ln(1 - u), accurate near 0 too.
fn exponential(draw: u32) -> f32 {
  if (draw >= 0x80000000u) {
    return -log((f32(~draw) + 0.5) * 0x1p-32f);
  }
  let u = (f32(draw) + 0.5) * 0x1p-32f;
  let t = u / (2.0 - u);
  let s = t * t;
  let series = 1.0 + s * (1.0 / 3.0 + s * (1.0 / 5.0 + s * (1.0 / 7.0 + s * (1.0 / 9.0 +
    s * (1.0 / 11.0 + s * (1.0 / 13.0 + s * (1.0 / 15.0)))))));
  return 2.0 * t * series;
}

// The weights of tokens in the draw; 0 if min-p drops them.
fn weigh_all(row: Row, keys: vec4<u32>, largest: f32) -> vec4<f32> {
  let exponents = (to_values(keys) - largest) * row.scale;
  let is_kept = (keys != vec4<u32>()) & (exponents >= vec4<f32>(row.lowest_exponent));
  return select(vec4<f32>(), exp(exponents), is_kept);
}

fn weigh(row: Row, key: u32, largest: f32) -> f32 {
  return weigh_all(row, vec4<u32>(key), largest).x;
}

// The better of a choice and four tokens in their race: the token with the smallest time, `exponential / weight`, wins.
fn race(row: Row, tokens: Tokens, weights: vec4<f32>, best: Choice) -> Choice {
  let draws = mix(vec4<u32>(row.random_key) + tokens.ids);
  let uniforms = (vec4<f32>(draws) + 0.5) * 0x1p-32f;
  let best_time = select(bitcast<f32>(~best.score), LARGEST, best.score == 0u);
  // A variate is never less than its uniform, so most tokens do not need the logarithm.
  let can_win = uniforms < weights * best_time;
  var winner = best;
  if (any(can_win)) {
    for (var e = 0u; e < 4u; e++) {
      if (can_win[e]) {
        let time = exponential(draws[e]) / weights[e];
        winner = better(winner, Choice(~bitcast<u32>(time), tokens.ids[e], tokens.keys[e]));
      }
    }
  }
  return winner;
}
