// A list of the highest-ranked tokens of a row, for top-k and for reports that need only a few tokens.

override LIST_SIZE: u32 = 4u * THREADS;

// Results of the pass that finds the largest key: each thread's own largest key, and the one with a given rank.
var<workgroup> thread_keys: array<u32, THREADS>;
var<workgroup> ranked_key: u32;
// Gathered tokens, in any order: token, key.
var<workgroup> list: array<vec2<u32>, LIST_SIZE>;
var<workgroup> list_count: atomic<u32>;
var<workgroup> list_length: u32;

// The best among a choice and four tokens. Tokens that do not rank behind the choice `behind` are left out.
fn best_with(choice: Choice, tokens: Tokens, is_raw: bool, behind: Choice) -> Choice {
  let all_keys = select(tokens.keys, tokens.raw_keys, is_raw);
  let is_behind = (all_keys < vec4<u32>(behind.score)) |
    ((all_keys == vec4<u32>(behind.score)) & (tokens.ids > vec4<u32>(behind.token)));
  let keys = select(vec4<u32>(), all_keys, is_behind);
  var best = choice;
  if (any(keys >= vec4<u32>(max(best.score, 1u)))) {
    for (var e = 0u; e < 4u; e++) {
      best = better(best, Choice(keys[e], tokens.ids[e], keys[e]));
    }
  }
  return best;
}

// The best token, by the model's logits or by the adjusted ones.
fn find_best(row: Row, start: u32, thread: u32, is_raw: bool) -> Choice {
  let behind = AHEAD_OF_ALL;
  var best = NO_CHOICE;
  let end = select(count_fours(row, start), count_logit_fours(start), is_raw);
  var i = thread;
  for (; i + 3u * THREADS < count_logit_fours(start); i += 4u * THREADS) {
    let at = start / 4u + i;
    let ahead = load_ahead(at);
    best = best_with(best, logit_tokens(row, start, at, ahead.first), is_raw, behind);
    best = best_with(best, logit_tokens(row, start, at + THREADS, ahead.second), is_raw, behind);
    best = best_with(best, logit_tokens(row, start, at + 2u * THREADS, ahead.third), is_raw, behind);
    best = best_with(best, logit_tokens(row, start, at + 3u * THREADS, ahead.fourth), is_raw, behind);
  }
  for (; i < end; i += THREADS) {
    best = best_with(best, load_tokens(row, start, i), is_raw, behind);
  }
  thread_keys[thread] = best.key;
  return best_of_all(thread, best);
}

// The most likely token that ranks behind a given one.
fn find_next(row: Row, start: u32, thread: u32, behind: Choice) -> Choice {
  var best = NO_CHOICE;
  for (var i = thread; i < count_logit_fours(start); i += THREADS) {
    best = best_with(best, load_tokens(row, start, i), true, behind);
  }
  return best_of_all(thread, best);
}

// A lower bound for the count-th largest key: the count-th largest of the threads' own keys in the last find_best.
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

// Adds to the list each of four tokens whose key is at least `bound`.
fn list_tokens(tokens: Tokens, is_raw: bool, bound: u32) {
  let keys = select(tokens.keys, tokens.raw_keys, is_raw);
  let is_listed = keys >= vec4<u32>(max(bound, 1u));
  if (!any(is_listed)) {
    return;
  }
  for (var e = 0u; e < 4u; e++) {
    if (is_listed[e]) {
      let slot = atomicAdd(&list_count, 1u);
      if (slot < LIST_SIZE) {
        list[slot] = vec2<u32>(tokens.ids[e], keys[e]);
      }
    }
  }
}

// Lists the tokens whose key is at least `bound`. Returns their number, which may exceed the size of the list.
fn gather(row: Row, start: u32, thread: u32, is_raw: bool, bound: u32) -> u32 {
  if (thread == 0u) {
    atomicStore(&list_count, 0u);
  }
  workgroupBarrier();
  let end = select(count_fours(row, start), count_logit_fours(start), is_raw);
  var i = thread;
  for (; i + 3u * THREADS < count_logit_fours(start); i += 4u * THREADS) {
    let at = start / 4u + i;
    let ahead = load_ahead(at);
    list_tokens(logit_tokens(row, start, at, ahead.first), is_raw, bound);
    list_tokens(logit_tokens(row, start, at + THREADS, ahead.second), is_raw, bound);
    list_tokens(logit_tokens(row, start, at + 2u * THREADS, ahead.third), is_raw, bound);
    list_tokens(logit_tokens(row, start, at + 3u * THREADS, ahead.fourth), is_raw, bound);
  }
  for (; i < end; i += THREADS) {
    list_tokens(load_tokens(row, start, i), is_raw, bound);
  }
  workgroupBarrier();
  if (thread == 0u) {
    list_length = atomicLoad(&list_count);
  }
  return workgroupUniformLoad(&list_length);
}

// The listed tokens ahead of the n-th: x is their number, y their mass.
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

// Each thread's best choice that top-k and top-p keep, from a list that holds all of top-k.
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
    if (ahead.x < top_k && is_in_top_p) {
      var tokens: Tokens;
      tokens.ids = vec4<u32>(list[n].x);
      tokens.keys = vec4<u32>(list[n].y);
      choice = race(row, tokens, vec4<f32>(weight, 0.0, 0.0, 0.0), choice);
    }
  }
  return choice;
}

// Writes the most likely tokens of a row, from the list if it holds them.
fn write_top(row: Row, start: u32, thread: u32, index: u32, length: u32, log_sum: f32) {
  if (length <= LIST_SIZE) {
    // If fewer tokens are allowed than requested, the remaining entries hold no token.
    for (var n = length + thread; n < row.num_top; n += THREADS) {
      top[index * MAX_TOP + n] = vec2<u32>(NO_TOKEN, 0u);
    }
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
    listed = find_next(row, start, thread, listed);
    if (thread == 0u) {
      top[index * MAX_TOP + n] =
        vec2<u32>(listed.token, bitcast<u32>(to_value(listed.score) - log_sum));
    }
  }
}
