// Chooses a token per row of logits. See sample_reference.ts for formula, sample.ts for shapes.
//
// One workgroup takes one row and walks the whole vocabulary in passes: the largest logit, then the sums of weights
// and the best of all tokens. Rows that cut tokens off go one of two ways. A small top-k is gathered into a list and
// ranked there. Else the best of all is tried, and as long as top-k or top-p cuts it off, the best of the tokens ahead of
// it takes its place: every token draws the same number each time, so what stands is the best of all that are kept.
//
// Workgroup memory: 14 words per thread, and 262.

@group(0) @binding(0) var<storage, read> rows: array<Row>;
@group(0) @binding(1) var<storage, read> logits: array<four>;
@group(0) @binding(2) var<storage, read> extras: array<u32>;
// Per row: token, bits of its log-probability.
@group(0) @binding(3) var<storage, read_write> chosen: array<vec2<u32>>;
// Per row MAX_TOP pairs like that, most likely first.
@group(0) @binding(4) var<storage, read_write> top: array<vec2<u32>>;

override THREADS: u32;
override VOCAB_SIZE: u32;
override ROW_STRIDE: u32;

const MAX_TOP = 20u;
const NO_TOKEN = 0xffffffffu;
const NO_BITMAP = 0xffffffffu;
const DIGITS = 256u;

struct Row {
  is_greedy: u32,
  // 1 / temperature.
  scale: f32,
  // ln(min-p).
  lowest_exponent: f32,
  // 0: all.
  top_k: u32,
  top_p: f32,
  random_key: u32,
  repetition_penalty: f32,
  inverse_penalty: f32,
  num_adjustments: u32,
  // Where in `extras` the row's adjustments begin: (token, its highest bit set where the penalty applies; bits of the addend).
  adjustments: u32,
  // Where in `extras` the row's bitmap begins: tokens that are allowed and not adjusted. NO_BITMAP: all.
  bitmap: u32,
  num_top: u32,
}

// A token and how good it is; among equals the lower id is better.
struct Choice {
  score: u32,
  token: u32,
  key: u32,
}

const NO_CHOICE = Choice(0u, NO_TOKEN, 0u);
// Ahead of every token.
const AHEAD_OF_ALL = Choice(0xffffffffu, 0u, 0u);

// Four tokens: their keys as the model gave them, and adjusted, 0 where excluded.
struct Tokens {
  ids: vec4<u32>,
  raw_keys: vec4<u32>,
  keys: vec4<u32>,
}

var<workgroup> shared_scores: array<u32, THREADS>;
var<workgroup> shared_tokens: array<u32, THREADS>;
var<workgroup> shared_keys: array<u32, THREADS>;
var<workgroup> shared_sums: array<vec2<f32>, THREADS>;
var<workgroup> histogram: array<atomic<u32>, 256>;
var<workgroup> digit: vec2<u32>;
// Of the pass that looked for the largest: each thread's own, and the one of a given rank.
var<workgroup> thread_keys: array<u32, THREADS>;
var<workgroup> ranked_key: u32;
// Tokens gathered, in no order: token, key.
var<workgroup> list: array<vec2<u32>, 4 * THREADS>;
var<workgroup> list_count: atomic<u32>;
var<workgroup> list_length: u32;

// A key that orders as its float does; 0 for NaN and -infinity, which are never chosen.
fn to_key(value: f32) -> u32 {
  let bits = bitcast<u32>(value);
  let magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u || bits == 0xff800000u) {
    return 0u;
  }
  // Infinity, which overflow makes, counts as the largest finite number.
  let finite = min(magnitude, 0x7f7fffffu);
  return select(finite | 0x80000000u, ~(finite | 0x80000000u), bits > 0x80000000u);
}

fn to_value(key: u32) -> f32 {
  return bitcast<f32>(select(~key, key & 0x7fffffffu, key >= 0x80000000u));
}

// The mixer of random.ts.
fn mix(value: u32) -> u32 {
  var mixed = value;
  mixed ^= mixed >> 16u;
  mixed *= 0x7feb352du;
  mixed ^= mixed >> 15u;
  mixed *= 0x846ca68bu;
  return mixed ^ (mixed >> 16u);
}

// The exponential variate of a draw, as accurate near 0 as anywhere: -ln(1 - u).
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
  return Choice(
    workgroupUniformLoad(&shared_scores[0]),
    workgroupUniformLoad(&shared_tokens[0]),
    workgroupUniformLoad(&shared_keys[0]),
  );
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

fn is_in_bitmap(row: Row, token: u32) -> bool {
  return row.bitmap == NO_BITMAP ||
    ((extras[row.bitmap + token / 32u] >> (token % 32u)) & 1u) == 1u;
}

// The key of a row's n-th adjusted token.
fn adjusted_key(row: Row, start: u32, n: u32) -> u32 {
  let word = extras[row.adjustments + 2u * n];
  let at = start + (word & 0x7fffffffu);
  let key = to_key(unpack(logits[at / 4u])[at % 4u]);
  if (key == 0u) {
    return 0u;
  }
  let logit = to_value(key);
  var factor = 1.0;
  if ((word >> 31u) == 1u) {
    factor = select(row.repetition_penalty, row.inverse_penalty, logit > 0.0);
  }
  return to_key(logit * factor + bitcast<f32>(extras[row.adjustments + 2u * n + 1u]));
}

// How many fours a row has: those of its logits, which may begin and end within one, then its adjusted tokens.
fn count_logit_fours(start: u32) -> u32 {
  return (start + VOCAB_SIZE + 3u) / 4u - start / 4u;
}

fn count_fours(row: Row, start: u32) -> u32 {
  return count_logit_fours(start) + (row.num_adjustments + 3u) / 4u;
}

fn load_tokens(row: Row, start: u32, index: u32) -> Tokens {
  var tokens: Tokens;
  let logit_fours = count_logit_fours(start);
  if (index < logit_fours) {
    let at = start / 4u + index;
    let values = unpack(logits[at]);
    tokens.ids = vec4<u32>(at * 4u - start) + vec4<u32>(0u, 1u, 2u, 3u);
    for (var e = 0u; e < 4u; e++) {
      // Before the row ids wrap around.
      if (tokens.ids[e] < VOCAB_SIZE) {
        tokens.raw_keys[e] = to_key(values[e]);
        if (is_in_bitmap(row, tokens.ids[e])) {
          tokens.keys[e] = tokens.raw_keys[e];
        }
      }
    }
    return tokens;
  }
  for (var e = 0u; e < 4u; e++) {
    let n = (index - logit_fours) * 4u + e;
    if (n < row.num_adjustments) {
      tokens.ids[e] = extras[row.adjustments + 2u * n] & 0x7fffffffu;
      tokens.keys[e] = adjusted_key(row, start, n);
    }
  }
  return tokens;
}

// The best token behind a given one, by the model's logits or by the adjusted ones.
fn find_best(row: Row, start: u32, thread: u32, is_raw: bool, behind: Choice) -> Choice {
  var best = NO_CHOICE;
  let end = select(count_fours(row, start), count_logit_fours(start), is_raw);
  for (var i = thread; i < end; i += THREADS) {
    let tokens = load_tokens(row, start, i);
    let keys = select(tokens.keys, tokens.raw_keys, is_raw);
    for (var e = 0u; e < 4u; e++) {
      let choice = Choice(keys[e], tokens.ids[e], keys[e]);
      if (choice.score < behind.score ||
        (choice.score == behind.score && choice.token > behind.token)) {
        best = better(best, choice);
      }
    }
  }
  thread_keys[thread] = best.key;
  return best_of_all(thread, best);
}

// A key that at least `count` tokens of the last find_best reach: the count-th largest of the threads' own.
fn find_bound(thread: u32, count: u32) -> u32 {
  let own = thread_keys[thread];
  var rank = 0u;
  for (var i = 0u; i < THREADS; i++) {
    let other = thread_keys[i];
    rank += u32(other > own || (other == own && i < thread));
  }
  if (rank + 1u == count) {
    ranked_key = own;
  }
  return workgroupUniformLoad(&ranked_key);
}

// Lists the tokens of at least the given key, and returns how many they are: maybe more than the list holds.
fn gather(row: Row, start: u32, thread: u32, is_raw: bool, bound: u32) -> u32 {
  if (thread == 0u) {
    atomicStore(&list_count, 0u);
  }
  workgroupBarrier();
  let end = select(count_fours(row, start), count_logit_fours(start), is_raw);
  for (var i = thread; i < end; i += THREADS) {
    let tokens = load_tokens(row, start, i);
    let keys = select(tokens.keys, tokens.raw_keys, is_raw);
    for (var e = 0u; e < 4u; e++) {
      if (keys[e] >= max(bound, 1u)) {
        let place = atomicAdd(&list_count, 1u);
        if (place < 4u * THREADS) {
          list[place] = vec2<u32>(tokens.ids[e], keys[e]);
        }
      }
    }
  }
  workgroupBarrier();
  if (thread == 0u) {
    list_length = atomicLoad(&list_count);
  }
  return workgroupUniformLoad(&list_length);
}

// Of the listed tokens ahead of the n-th: x their number, y their mass.
fn ahead_in_list(row: Row, n: u32, length: u32, largest: f32) -> vec2<f32> {
  let own = list[n];
  var ahead = vec2<f32>();
  for (var i = 0u; i < length; i++) {
    let other = list[i];
    if (other.y > own.y || (other.y == own.y && other.x < own.x)) {
      ahead += vec2<f32>(1.0, weigh(row, other.y, largest));
    }
  }
  return ahead;
}

// What a token weighs in the draw; 0 where min-p drops it.
fn weigh(row: Row, key: u32, largest: f32) -> f32 {
  let exponent = (to_value(key) - largest) * row.scale;
  if (key == 0u || exponent < row.lowest_exponent) {
    return 0.0;
  }
  return exp(exponent);
}

// How early a token finishes its race; the earliest is chosen.
fn race(row: Row, token: u32, key: u32, weight: f32) -> Choice {
  let draw = mix(row.random_key + token);
  return Choice(~bitcast<u32>(exponential(draw) / weight), token, key);
}

// The mass of the first top-k tokens by rank: a radix select of the last one's key, then a sum.
fn mass_of_top_k(row: Row, start: u32, thread: u32, largest: f32) -> f32 {
  let end = count_fours(row, start);
  var prefix = 0u;
  var rank = row.top_k;
  for (var shift = 24i; shift >= 0i; shift -= 8i) {
    for (var i = thread; i < DIGITS; i += THREADS) {
      atomicStore(&histogram[i], 0u);
    }
    workgroupBarrier();
    for (var i = thread; i < end; i += THREADS) {
      let tokens = load_tokens(row, start, i);
      for (var e = 0u; e < 4u; e++) {
        let key = tokens.keys[e];
        let is_match = shift == 24i || (key >> u32(shift + 8i)) == prefix;
        if (is_match && weigh(row, key, largest) > 0.0) {
          atomicAdd(&histogram[(key >> u32(shift)) & 0xffu], 1u);
        }
      }
    }
    workgroupBarrier();
    if (thread == 0u) {
      var d = DIGITS - 1u;
      for (; d > 0u; d--) {
        let count = atomicLoad(&histogram[d]);
        if (rank <= count) {
          break;
        }
        rank -= count;
      }
      digit = vec2<u32>(d, rank);
    }
    let found = workgroupUniformLoad(&digit);
    prefix = (prefix << 8u) | found.x;
    rank = found.y;
  }
  var mass = 0.0;
  for (var i = thread; i < end; i += THREADS) {
    let tokens = load_tokens(row, start, i);
    for (var e = 0u; e < 4u; e++) {
      if (tokens.keys[e] > prefix) {
        mass += weigh(row, tokens.keys[e], largest);
      }
    }
  }
  // Of the tokens that tie with the last, as many as there is room for. No key is found where fewer than top-k are left.
  return sum_of_all(thread, vec2<f32>(mass, 0.0)).x + f32(rank) * weigh(row, prefix, largest);
}

// The best choice that top-k and top-p keep of the list, which holds all of top-k.
fn choose_from_list(row: Row, thread: u32, length: u32, largest: f32) -> Choice {
  let top_k = f32(row.top_k);
  var mass = 0.0;
  for (var n = thread; n < length; n += THREADS) {
    if (ahead_in_list(row, n, length, largest).x < top_k) {
      mass += weigh(row, list[n].y, largest);
    }
  }
  mass = sum_of_all(thread, vec2<f32>(mass, 0.0)).x;
  var choice = NO_CHOICE;
  for (var n = thread; n < length; n += THREADS) {
    let ahead = ahead_in_list(row, n, length, largest);
    let is_in_top_p = row.top_p >= 1.0 || ahead.x == 0.0 || ahead.y < row.top_p * mass;
    let weight = weigh(row, list[n].y, largest);
    if (ahead.x < top_k && is_in_top_p && weight > 0.0) {
      choice = better(choice, race(row, list[n].x, list[n].y, weight));
    }
  }
  return best_of_all(thread, choice);
}

// The best choice that top-k and top-p keep, given the best of all or NO_CHOICE, and the mass of all.
fn settle(
  row: Row,
  start: u32,
  thread: u32,
  largest: f32,
  first: Choice,
  mass_of_all: f32,
) -> Choice {
  let end = count_fours(row, start);
  var mass = mass_of_all;
  if (row.top_k > 0u && row.top_p < 1.0) {
    mass = mass_of_top_k(row, start, thread, largest);
  }
  var choice = first;
  loop {
    // Of the tokens ahead of the choice: x their number, y their mass.
    var ahead = vec2<f32>();
    var next = NO_CHOICE;
    for (var i = thread; i < end; i += THREADS) {
      let tokens = load_tokens(row, start, i);
      for (var e = 0u; e < 4u; e++) {
        let own = tokens.keys[e];
        if (own > choice.key || (own == choice.key && tokens.ids[e] < choice.token)) {
          let weight = weigh(row, own, largest);
          if (weight > 0.0) {
            ahead += vec2<f32>(1.0, weight);
            next = better(next, race(row, tokens.ids[e], own, weight));
          }
        }
      }
    }
    ahead = sum_of_all(thread, ahead);
    let is_in_top_k = row.top_k == 0u || ahead.x < f32(row.top_k);
    let is_in_top_p = row.top_p >= 1.0 || ahead.y < row.top_p * mass;
    // The first token of all stays, come what may.
    if (choice.token != NO_TOKEN && (ahead.x == 0.0 || (is_in_top_k && is_in_top_p))) {
      break;
    }
    choice = best_of_all(thread, next);
  }
  return choice;
}

fn key_of_token(start: u32, token: u32) -> u32 {
  return to_key(unpack(logits[(start + token) / 4u])[(start + token) % 4u]);
}

// Writes the most likely tokens of a row, from the list where that holds them.
fn write_top(row: Row, start: u32, thread: u32, index: u32, bound: u32, log_sum: f32) {
  let length = gather(row, start, thread, true, bound);
  if (length <= 4u * THREADS) {
    for (var n = thread; n < length; n += THREADS) {
      let rank = u32(ahead_in_list(row, n, length, 0.0).x);
      if (rank < row.num_top) {
        top[index * MAX_TOP + rank] =
          vec2<u32>(list[n].x, bitcast<u32>(to_value(list[n].y) - log_sum));
      }
    }
    return;
  }
  var listed = AHEAD_OF_ALL;
  for (var n = 0u; n < row.num_top; n++) {
    listed = find_best(row, start, thread, true, listed);
    if (thread == 0u) {
      top[index * MAX_TOP + n] =
        vec2<u32>(listed.token, bitcast<u32>(to_value(listed.score) - log_sum));
    }
  }
}

@compute @workgroup_size(THREADS)
fn sample(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let row = rows[group.x];
  let start = group.x * ROW_STRIDE;
  let end = count_fours(row, start);

  let likeliest = find_best(row, start, thread, true, AHEAD_OF_ALL);
  var top_bound = 0u;
  if (row.num_top > 0u) {
    top_bound = find_bound(thread, row.num_top);
  }
  var best = likeliest;
  if (row.bitmap != NO_BITMAP) {
    best = find_best(row, start, thread, false, AHEAD_OF_ALL);
  }
  if (best.score == 0u) {
    if (thread == 0u) {
      chosen[group.x] = vec2<u32>(NO_TOKEN, 0u);
    }
    return;
  }
  let raw_largest = to_value(likeliest.score);
  let largest = to_value(best.score);
  let is_drawn = row.is_greedy == 0u;
  let is_small = is_drawn && row.top_k > 0u && row.top_k <= THREADS;
  var bound = 0u;
  if (is_small) {
    bound = find_bound(thread, row.top_k);
  }

  // x: of the model's probabilities, y: of the weights in the draw.
  var sums = vec2<f32>();
  var choice = NO_CHOICE;
  for (var i = thread; i < end; i += THREADS) {
    let tokens = load_tokens(row, start, i);
    for (var e = 0u; e < 4u; e++) {
      if (tokens.raw_keys[e] != 0u) {
        sums.x += exp(to_value(tokens.raw_keys[e]) - raw_largest);
      }
      if (is_drawn && !is_small) {
        let weight = weigh(row, tokens.keys[e], largest);
        if (weight > 0.0) {
          sums.y += weight;
          choice = better(choice, race(row, tokens.ids[e], tokens.keys[e], weight));
        }
      }
    }
  }
  sums = sum_of_all(thread, sums);

  if (is_drawn) {
    choice = best_of_all(thread, choice);
    var length = 4u * THREADS + 1u;
    if (is_small) {
      length = gather(row, start, thread, false, bound);
    }
    if (length <= 4u * THREADS) {
      choice = choose_from_list(row, thread, length, largest);
    } else if (row.top_k > 0u || row.top_p < 1.0) {
      choice = settle(row, start, thread, largest, choice, sums.y);
    }
    best = choice;
  }

  let log_sum = raw_largest + log(sums.x);
  if (thread == 0u) {
    let key = key_of_token(start, best.token);
    chosen[group.x] = vec2<u32>(best.token, bitcast<u32>(to_value(key) - log_sum));
  }
  if (row.num_top > 0u) {
    write_top(row, start, thread, group.x, top_bound, log_sum);
  }
}
