// Chooses one token per row of logits. See sample_reference.ts for the formula, sample.ts for shapes.
//
// One workgroup takes one row and makes passes over the whole vocabulary: one for the largest logit, then one for the
// sums of weights and the best token in the draw. Rows with top-k or top-p take one of two paths. If top-k is small,
// its tokens are gathered into a list, where they are ranked and drawn. Otherwise the best of all tokens is tried. As
// long as top-k or top-p cuts off the current token, the best of the tokens that rank ahead of it is tried next. Every
// token draws the same number each time, so the result is the best of all tokens that are kept.
//
// Workgroup memory: 14 words per thread, and 264.

const DIGITS = 256u;

var<workgroup> histogram: array<atomic<u32>, DIGITS>;
var<workgroup> digit: vec2<u32>;

// The mass of the first top-k tokens by rank: a radix select finds the key of the last one, then their weights are
// summed.
fn mass_of_top_k(row: Row, start: u32, thread: u32, largest: f32) -> f32 {
  let end = count_fours(row, start);
  var prefix = 0u;
  var rank = row.top_k;
  var mass = 0.0;
  // Four rounds for the digits of the key, and one for the mass of the keys above it.
  for (var shift = 24i; shift >= -8i; shift -= 8i) {
    for (var i = thread; i < DIGITS; i += THREADS) {
      atomicStore(&histogram[i], 0u);
    }
    workgroupBarrier();
    for (var i = thread; i < end; i += THREADS) {
      let keys = load_tokens(row, start, i).keys;
      let weights = weigh_all(row, keys, largest);
      if (shift < 0i) {
        mass += dot(select(vec4<f32>(), weights, keys > vec4<u32>(prefix)), vec4<f32>(1.0));
        continue;
      }
      for (var e = 0u; e < 4u; e++) {
        let is_match = shift == 24i || (keys[e] >> u32(shift + 8i)) == prefix;
        if (is_match && weights[e] > 0.0) {
          atomicAdd(&histogram[(keys[e] >> u32(shift)) & 0xffu], 1u);
        }
      }
    }
    if (shift < 0i) {
      break;
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
  // Of the tokens that equal the last one, only as many count as top-k has room for. If fewer than top-k tokens are
  // left, no last one is found.
  return sum_of_all(thread, vec2<f32>(mass, 0.0)).x + f32(rank) * weigh(row, prefix, largest);
}

// The choice after applying top-k and top-p, given the best of all tokens (or NO_CHOICE) and the mass of all.
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
    // The tokens ahead of the choice: x is their number, y their mass.
    var ahead = vec2<f32>();
    var next = NO_CHOICE;
    for (var i = thread; i < end; i += THREADS) {
      var tokens = load_tokens(row, start, i);
      let is_ahead = (tokens.keys > vec4<u32>(choice.key)) |
        ((tokens.keys == vec4<u32>(choice.key)) & (tokens.ids < vec4<u32>(choice.token)));
      tokens.keys = select(vec4<u32>(), tokens.keys, is_ahead);
      let weights = weigh_all(row, tokens.keys, largest);
      let counts = select(vec4<f32>(), vec4<f32>(1.0), weights > vec4<f32>());
      ahead += vec2<f32>(dot(counts, vec4<f32>(1.0)), dot(weights, vec4<f32>(1.0)));
      next = race(row, tokens, weights, next);
    }
    ahead = sum_of_all(thread, ahead);
    let is_in_top_k = row.top_k == 0u || ahead.x < f32(row.top_k);
    let is_in_top_p = row.top_p >= 1.0 || ahead.y < row.top_p * mass;
    // The first token is always kept.
    if (choice.token != NO_TOKEN && (ahead.x == 0.0 || (is_in_top_k && is_in_top_p))) {
      break;
    }
    choice = best_of_all(thread, next);
  }
  return choice;
}

// Logits that are further below the largest count as if they were this far below it, so that squares stay finite.
const FURTHEST = 10000.0;

// The lowest exponent that top-n-sigma keeps: n standard deviations of the logits below the largest.
fn sigma_exponent(row: Row, start: u32, thread: u32, largest: f32) -> f32 {
  var count = 0.0;
  var moments = vec2<f32>();
  for (var i = thread; i < count_fours(row, start); i += THREADS) {
    let keys = load_tokens(row, start, i).keys;
    let is_real = keys != vec4<u32>();
    let below = max(to_values(keys) - largest, vec4<f32>(-FURTHEST));
    let distances = select(vec4<f32>(), below, is_real);
    count += dot(select(vec4<f32>(), vec4<f32>(1.0), is_real), vec4<f32>(1.0));
    moments += vec2<f32>(dot(distances, vec4<f32>(1.0)), dot(distances, distances));
  }
  // Separate variables, so that compilers see that they are the same for all threads.
  var total = 0.0;
  var means = vec2<f32>();
  for (var round = 0u; round < 2u; round++) {
    let sums = sum_of_all(thread, select(moments, vec2<f32>(count, 0.0), round == 0u));
    if (round == 0u) {
      total = sums.x;
    } else {
      means = sums / total;
    }
  }
  let deviation = sqrt(max(means.y - means.x * means.x, 0.0));
  return -row.sigmas * deviation * row.scale;
}

// The sum of tokens' weights by the model's own logits.
fn raw_mass(tokens: Tokens, largest: f32) -> f32 {
  let weights = exp(to_values(tokens.raw_keys) - largest);
  let is_real = tokens.raw_keys != vec4<u32>();
  return dot(select(vec4<f32>(), weights, is_real), vec4<f32>(1.0));
}

@compute @workgroup_size(THREADS)
fn sample(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  var row = rows[group.x];
  let start = group.x * ROW_STRIDE;
  let end = count_fours(row, start);

  var likeliest = NO_CHOICE;
  var best = NO_CHOICE;
  var top_bound = 0u;
  // Loops of two rounds, here and below: drivers would otherwise inline the function twice, which takes twice as long
  // to compile.
  for (var round = 0u; round < 2u; round++) {
    let is_raw = round == 0u;
    if (is_raw || row.bitmap != row.mask) {
      best = find_best(row, start, thread, is_raw);
    }
    if (is_raw) {
      likeliest = best;
      if (row.num_top > 0u) {
        top_bound = find_bound(thread, row.num_top);
      }
    }
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
  if (is_drawn && row.sigmas > 0.0) {
    row.lowest_exponent = max(
      row.lowest_exponent,
      sigma_exponent(row, start, thread, largest),
    );
  }
  let is_small = is_drawn && row.top_k > 0u && row.top_k <= THREADS;
  var bound = 0u;
  if (is_small) {
    bound = find_bound(thread, row.top_k);
  }

  // x: sum of the model's probabilities; y: sum of the weights in the draw.
  var sums = vec2<f32>();
  var choice = NO_CHOICE;
  var i = thread;
  if (!is_drawn || is_small) {
    // Only the sum of the probabilities is needed, so four vec4s are loaded together.
    for (; i + 3u * THREADS < count_logit_fours(start); i += 4u * THREADS) {
      let at = start / 4u + i;
      let ahead = load_ahead(at);
      sums.x += raw_mass(logit_tokens(row, start, at, ahead.first), raw_largest);
      sums.x += raw_mass(logit_tokens(row, start, at + THREADS, ahead.second), raw_largest);
      sums.x += raw_mass(logit_tokens(row, start, at + 2u * THREADS, ahead.third), raw_largest);
      sums.x += raw_mass(logit_tokens(row, start, at + 3u * THREADS, ahead.fourth), raw_largest);
    }
  }
  for (; i < end; i += THREADS) {
    let tokens = load_tokens(row, start, i);
    sums.x += raw_mass(tokens, raw_largest);
    if (is_drawn && !is_small) {
      let weights = weigh_all(row, tokens.keys, largest);
      sums.y += dot(weights, vec4<f32>(1.0));
      choice = race(row, tokens, weights, choice);
    }
  }
  sums = sum_of_all(thread, sums);

  let log_sum = raw_largest + log(sums.x);
  // The first round chooses the token, the second lists the most likely ones.
  for (var round = 0u; round < 2u; round++) {
    let is_report = round == 1u;
    var length = LIST_SIZE + 1u;
    if (select(is_small, row.num_top > 0u, is_report)) {
      length = gather(row, start, thread, is_report, select(bound, top_bound, is_report));
    }
    if (is_report) {
      if (row.num_top > 0u) {
        write_top(row, start, thread, group.x, length, log_sum);
      }
      continue;
    }
    if (is_drawn) {
      let is_listed = length <= LIST_SIZE;
      if (is_listed) {
        choice = choose_from_list(row, thread, length, largest);
      }
      choice = best_of_all(thread, choice);
      if (!is_listed && (row.top_k > 0u || row.top_p < 1.0)) {
        choice = settle(row, start, thread, largest, choice, sums.y);
      }
      best = choice;
    }
    if (thread == 0u) {
      let key = key_of_token(start, best.token);
      chosen[group.x] = vec2<u32>(best.token, bitcast<u32>(to_value(key) - log_sum));
    }
  }
}
