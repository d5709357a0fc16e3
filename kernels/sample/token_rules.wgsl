// Removes from each row of logits the tokens that Whisper's rules forbid, in place.
//
// A token stays if its row's rule allows it: a timestamp by row.first to row.last, the end by row.end, any other by
// row.text and its bit in plain. If the remaining timestamps are together likelier than any one of the other tokens,
//
//   ln Σ e^logit[timestamps] > max logit[others],
//
// the others are removed too. The logit of a removed token becomes the lowest number. A row whose `text` is 2 has no
// rule and stays unchanged. NaN is ignored, and infinity counts as the largest number, as in sampling.
//
//   rows    Rule [rows]
//   plain   u32 [ceil(VOCAB / 32)]    bit t % 32 of word t / 32: token t is plain text
//   logits  elem [rows, VOCAB]        elem is f32 or f16
//
// Workgroup r handles row r with WG strided invocations. Workgroup memory: 8 WG bytes.

struct Rule {
  text: u32,
  end: u32,
  first: u32,
  last: u32,
}

@group(0) @binding(0) var<storage, read> rows: array<Rule>;
@group(0) @binding(1) var<storage, read> plain: array<u32>;
@group(0) @binding(2) var<storage, read_write> logits: array<elem>;

override VOCAB: u32;
override END: u32;
override TIMESTAMPS: u32;
override WG: u32;

const LOWEST = -3.4028234e38;

var<workgroup> others: array<f32, WG>;
var<workgroup> times: array<f32, WG>;

fn is_allowed(rule: Rule, token: u32) -> bool {
  if (rule.text == 2u) {
    return true;
  }
  if (token >= TIMESTAMPS) {
    return token >= rule.first && token <= rule.last;
  }
  if (token == END) {
    return rule.end == 1u;
  }
  return rule.text == 1u && ((plain[token / 32u] >> (token % 32u)) & 1u) == 1u;
}

fn load_logit(at: u32) -> f32 {
  return countable(f32(logits[at]));
}

fn countable(logit: f32) -> f32 {
  let is_nan = (bitcast<u32>(logit) & 0x7fffffffu) > 0x7f800000u;
  return select(min(logit, -LOWEST), LOWEST, is_nan);
}

// Updates the largest logits with a token: that of other tokens (x), and that of timestamps (y).
fn best_with(before: vec2<f32>, rule: Rule, token: u32, logit: f32) -> vec2<f32> {
  if (!is_allowed(rule, token)) {
    return before;
  }
  let is_time = token >= TIMESTAMPS;
  return select(before, max(before, vec2<f32>(countable(logit))), vec2<bool>(!is_time, is_time));
}

// Whether a token is removed.
fn goes(rule: Rule, token: u32, wants_time: bool) -> bool {
  return !is_allowed(rule, token) || (wants_time && token < TIMESTAMPS);
}

@compute @workgroup_size(WG)
fn token_rules(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let rule = rows[group.x];
  let start = group.x * VOCAB;

  // The largest logit of other tokens, and of timestamps.
  var bests = vec2<f32>(LOWEST);
  var at = thread;
  // Four loads are in flight at a time.
  for (; at + 3u * WG < VOCAB; at += 4u * WG) {
    let logit0 = f32(logits[start + at]);
    let logit1 = f32(logits[start + at + WG]);
    let logit2 = f32(logits[start + at + 2u * WG]);
    let logit3 = f32(logits[start + at + 3u * WG]);
    bests = best_with(bests, rule, at, logit0);
    bests = best_with(bests, rule, at + WG, logit1);
    bests = best_with(bests, rule, at + 2u * WG, logit2);
    bests = best_with(bests, rule, at + 3u * WG, logit3);
  }
  for (; at < VOCAB; at += WG) {
    bests = best_with(bests, rule, at, f32(logits[start + at]));
  }
  others[thread] = bests.x;
  times[thread] = bests.y;
  workgroupBarrier();
  for (var half = WG / 2u; half > 0u; half /= 2u) {
    if (thread < half) {
      others[thread] = max(others[thread], others[thread + half]);
      times[thread] = max(times[thread], times[thread + half]);
    }
    workgroupBarrier();
  }
  let best_other = others[0];
  let best_time = times[0];
  workgroupBarrier();

  var sum = 0.0;
  for (var token = TIMESTAMPS + thread; token < VOCAB; token += WG) {
    if (is_allowed(rule, token)) {
      sum += exp(load_logit(start + token) - best_time);
    }
  }
  times[thread] = sum;
  workgroupBarrier();
  for (var half = WG / 2u; half > 0u; half /= 2u) {
    if (thread < half) {
      times[thread] += times[thread + half];
    }
    workgroupBarrier();
  }
  let wants_time = rule.text != 2u && times[0] > 0.0 && log(times[0]) + best_time > best_other;

  if (rule.text == 2u) {
    return;
  }
  at = thread;
  for (; at + 3u * WG < VOCAB; at += 4u * WG) {
    let goes0 = goes(rule, at, wants_time);
    let goes1 = goes(rule, at + WG, wants_time);
    let goes2 = goes(rule, at + 2u * WG, wants_time);
    let goes3 = goes(rule, at + 3u * WG, wants_time);
    if (goes0) {
      logits[start + at] = elem(LOWEST_ELEM);
    }
    if (goes1) {
      logits[start + at + WG] = elem(LOWEST_ELEM);
    }
    if (goes2) {
      logits[start + at + 2u * WG] = elem(LOWEST_ELEM);
    }
    if (goes3) {
      logits[start + at + 3u * WG] = elem(LOWEST_ELEM);
    }
  }
  for (; at < VOCAB; at += WG) {
    if (goes(rule, at, wants_time)) {
      logits[start + at] = elem(LOWEST_ELEM);
    }
  }
}
