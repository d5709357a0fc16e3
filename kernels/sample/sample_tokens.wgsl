// The tokens of a row of logits as the sampler sees them, four at a time, with keys to compare; and choices between
// tokens, with the weights and the random stream that decide the draw.

@group(0) @binding(0) var<storage, read> rows: array<Row>;
@group(0) @binding(1) var<storage, read> logits: array<four>;
@group(0) @binding(2) var<storage, read> extras: array<u32>;
// Per row: token, bits of its log-probability.
@group(0) @binding(3) var<storage, read_write> chosen: array<vec2<u32>>;
// Per row MAX_TOP pairs (token, bits of its log-probability), the most likely first.
@group(0) @binding(4) var<storage, read_write> top: array<vec2<u32>>;

override THREADS: u32;
override VOCAB_SIZE: u32;
override ROW_STRIDE: u32;

const MAX_TOP = 20u;
const NO_TOKEN = 0xffffffffu;
const NO_BITMAP = 0xffffffffu;

struct Row {
  is_greedy: u32,
  // 1 / temperature.
  scale: f32,
  // The larger of ln(min-p) and the exponent that top-n-sigma requires.
  lowest_exponent: f32,
  // 0 keeps all.
  top_k: u32,
  top_p: f32,
  random_key: u32,
  repetition_penalty: f32,
  inverse_penalty: f32,
  num_adjustments: u32,
  // Offset in `extras` of the row's adjustments: (token, with its highest bit set if the penalty applies; bits of the
  // addend).
  adjustments: u32,
  // Offset in `extras` of the row's bitmap of tokens that are allowed and not adjusted; NO_BITMAP for all.
  bitmap: u32,
  num_top: u32,
  // Offset in `extras` of the bitmap of allowed tokens; NO_BITMAP for all.
  mask: u32,
  // Parameter of top-n-sigma; 0 turns it off.
  sigmas: f32,
}

// Four tokens, with their keys by the model's logits (0 if forbidden), and by the adjusted logits (0 if excluded).
struct Tokens {
  ids: vec4<u32>,
  raw_keys: vec4<u32>,
  keys: vec4<u32>,
}

// Vec4s of logits that are loaded together, so that all loads are in flight at once.
struct Ahead {
  first: four,
  second: four,
  third: four,
  fourth: four,
}

// Loads a thread's next vec4s from `at` on.
fn load_ahead(at: u32) -> Ahead {
  return Ahead(
    logits[at],
    logits[at + THREADS],
    logits[at + 2u * THREADS],
    logits[at + 3u * THREADS],
  );
}

// Keys that have the order of their floats; 0 for NaN and -infinity, which are never chosen.
fn to_keys(values: vec4<f32>) -> vec4<u32> {
  let bits = bitcast<vec4<u32>>(values);
  let magnitudes = bits & vec4<u32>(0x7fffffffu);
  // Infinity, which results from overflow, counts as the largest finite number.
  let positive = min(magnitudes, vec4<u32>(0x7f7fffffu)) | vec4<u32>(0x80000000u);
  let keys = select(positive, ~positive, bits > vec4<u32>(0x80000000u));
  let is_nothing = (magnitudes > vec4<u32>(0x7f800000u)) | (bits == vec4<u32>(0xff800000u));
  return select(keys, vec4<u32>(), is_nothing);
}

fn to_values(keys: vec4<u32>) -> vec4<f32> {
  let is_positive = keys >= vec4<u32>(0x80000000u);
  return bitcast<vec4<f32>>(select(~keys, keys & vec4<u32>(0x7fffffffu), is_positive));
}

fn to_value(key: u32) -> f32 {
  return to_values(vec4<u32>(key)).x;
}

fn are_in_bitmap(bitmap: u32, tokens: vec4<u32>) -> vec4<bool> {
  let words = vec4<u32>(bitmap) + tokens / 32u;
  let bits = vec4<u32>(extras[words.x], extras[words.y], extras[words.z], extras[words.w]);
  return ((bits >> (tokens % 32u)) & vec4<u32>(1u)) == vec4<u32>(1u);
}

fn key_of_token(start: u32, token: u32) -> u32 {
  let at = start + token;
  return to_keys(unpack(logits[at / 4u]))[at % 4u];
}

// The key of a row's n-th adjusted token.
fn adjusted_key(row: Row, start: u32, n: u32) -> u32 {
  let word = extras[row.adjustments + 2u * n];
  let key = key_of_token(start, word & 0x7fffffffu);
  if (key == 0u) {
    return 0u;
  }
  let logit = to_value(key);
  var factor = 1.0;
  if ((word >> 31u) == 1u) {
    factor = select(row.repetition_penalty, row.inverse_penalty, logit > 0.0);
  }
  let adjusted = logit * factor + bitcast<f32>(extras[row.adjustments + 2u * n + 1u]);
  return to_keys(vec4<f32>(adjusted)).x;
}

// Number of vec4s that hold a row's logits, which may begin and end in the middle of a vec4.
fn count_logit_fours(start: u32) -> u32 {
  return (start + VOCAB_SIZE + 3u) / 4u - start / 4u;
}

// Number of all groups of four of a row: the vec4s of its logits, then its adjusted tokens.
fn count_fours(row: Row, start: u32) -> u32 {
  return count_logit_fours(start) + (row.num_adjustments + 3u) / 4u;
}

// The tokens of the logits at `at`, one of the row's vec4s.
fn logit_tokens(row: Row, start: u32, at: u32, packed: four) -> Tokens {
  var tokens: Tokens;
  tokens.ids = vec4<u32>(at * 4u - start) + vec4<u32>(0u, 1u, 2u, 3u);
  // Ids before the row wrap around to huge numbers.
  let is_valid = tokens.ids < vec4<u32>(VOCAB_SIZE);
  tokens.raw_keys = select(vec4<u32>(), to_keys(unpack(packed)), is_valid);
  let ids = min(tokens.ids, vec4<u32>(VOCAB_SIZE - 1u));
  if (row.mask != NO_BITMAP) {
    tokens.raw_keys = select(vec4<u32>(), tokens.raw_keys, are_in_bitmap(row.mask, ids));
  }
  tokens.keys = tokens.raw_keys;
  if (row.bitmap != row.mask) {
    tokens.keys = select(vec4<u32>(), tokens.raw_keys, are_in_bitmap(row.bitmap, ids));
  }
  return tokens;
}

fn load_tokens(row: Row, start: u32, index: u32) -> Tokens {
  var tokens: Tokens;
  let logit_fours = count_logit_fours(start);
  if (index < logit_fours) {
    let at = start / 4u + index;
    return logit_tokens(row, start, at, logits[at]);
  }
  for (var e = 0u; e < 4u; e++) {
    let n = (index - logit_fours) * 4u + e;
    if (n < row.num_adjustments) {
      // Direct3D's compiler does not write to an element of a vector by a variable index.
      let is_own = vec4<u32>(e) == vec4<u32>(0u, 1u, 2u, 3u);
      let id = extras[row.adjustments + 2u * n] & 0x7fffffffu;
      tokens.ids = select(tokens.ids, vec4<u32>(id), is_own);
      tokens.keys = select(tokens.keys, vec4<u32>(adjusted_key(row, start, n)), is_own);
    }
  }
  return tokens;
}

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

// The mixing function of sample_terms.ts.
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

// The weights of tokens in the draw; 0 if min-p or top-n-sigma drops them.
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
