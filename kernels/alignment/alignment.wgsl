// Aligns texts, in three kernels for each layer: IS_WEIGHTS, IS_NORMALIZE and IS_MEAN. See alignment.ts for the
// formula.
//
//   text       u32: tokens, keys, first block of the keys in the cache
//   heads      u32 [heads wanted]
//   q          elem [tokens, Q_STRIDE * 4]
//   k_cache    elem [blocks, KV_HEADS, BLOCK_SIZE, HEAD_FOURS * 4], the text's blocks one after the other
//   weights    f32 [heads wanted, tokens, keys]
//   alignment  f32 [tokens, keys]; each layer adds to it

struct Text {
  tokens: u32,
  keys: u32,
  first_block: u32,
}

@group(0) @binding(0) var<storage, read> text: Text;

override WG: u32;
//# if IS_WEIGHTS

// The attention weights of a text's tokens in some heads of one layer.
//
// Workgroup (t, i) handles token t and wanted head i; its invocations stride over the keys. Workgroup memory: 16
// HEAD_FOURS + 4 WG bytes.

@group(0) @binding(1) var<storage, read> heads: array<u32>;
@group(0) @binding(2) var<storage, read> q: array<four>;
@group(0) @binding(3) var<storage, read> k_cache: array<four>;
@group(0) @binding(4) var<storage, read_write> weights: array<f32>;

override HEAD_FOURS: u32;
override KV_HEADS: u32;
override GROUP: u32;
override BLOCK_SIZE: u32;
// Layout of one token's row of queries, in vec4s.
override Q_STRIDE: u32;
override Q_OFFSET: u32;
override SCALE: f32;

const LOWEST = -3.4028234e38;

var<workgroup> query: array<vec4<f32>, HEAD_FOURS>;
var<workgroup> parts: array<f32, WG>;

@compute @workgroup_size(WG)
fn alignment_weights(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let head = heads[group.y];
  for (var i = thread; i < HEAD_FOURS; i += WG) {
    query[i] = SCALE * unpack(q[group.x * Q_STRIDE + Q_OFFSET + head * HEAD_FOURS + i]);
  }
  workgroupBarrier();

  let row = (group.y * text.tokens + group.x) * text.keys;
  var largest = LOWEST;
  for (var key = thread; key < text.keys; key += WG) {
    let block = text.first_block + key / BLOCK_SIZE;
    let at = ((block * KV_HEADS + head / GROUP) * BLOCK_SIZE + key % BLOCK_SIZE) * HEAD_FOURS;
    var score = 0.0;
    for (var i = 0u; i < HEAD_FOURS; i++) {
      score += dot(query[i], unpack(k_cache[at + i]));
    }
    // Each invocation later reads only the scores that it has written itself.
    weights[row + key] = score;
    largest = max(largest, score);
  }
  parts[thread] = largest;
  workgroupBarrier();
  for (var half = WG / 2u; half > 0u; half /= 2u) {
    if (thread < half) {
      parts[thread] = max(parts[thread], parts[thread + half]);
    }
    workgroupBarrier();
  }
  largest = parts[0];
  workgroupBarrier();

  var sum = 0.0;
  for (var key = thread; key < text.keys; key += WG) {
    let weight = exp(weights[row + key] - largest);
    weights[row + key] = weight;
    sum += weight;
  }
  parts[thread] = sum;
  workgroupBarrier();
  for (var half = WG / 2u; half > 0u; half /= 2u) {
    if (thread < half) {
      parts[thread] += parts[thread + half];
    }
    workgroupBarrier();
  }
  sum = parts[0];
  for (var key = thread; key < text.keys; key += WG) {
    weights[row + key] /= sum;
  }
}
//# end
//# if IS_NORMALIZE

// Normalises the weights for each key, in place: subtracts their mean over the text's tokens, and divides by their
// standard deviation.
//
// Invocation (x, i) handles key x of head i. No workgroup memory.

@group(0) @binding(1) var<storage, read_write> weights: array<f32>;

override LEAST_DEVIATION: f32;

@compute @workgroup_size(WG)
fn alignment_normalize(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= text.keys) {
    return;
  }
  let first = id.y * text.tokens * text.keys + id.x;
  let count = f32(text.tokens);
  var sum = 0.0;
  for (var token = 0u; token < text.tokens; token++) {
    sum += weights[first + token * text.keys];
  }
  let mean = sum / count;
  var squares = 0.0;
  for (var token = 0u; token < text.tokens; token++) {
    let difference = weights[first + token * text.keys] - mean;
    squares += difference * difference;
  }
  let deviation = sqrt(squares / count) + LEAST_DEVIATION;
  for (var token = 0u; token < text.tokens; token++) {
    let at = first + token * text.keys;
    weights[at] = (weights[at] - mean) / deviation;
  }
}
//# end
//# if IS_MEAN

// Adds a layer's share to the alignment: for each head, the median over seven neighbouring keys.
//
// Invocation (x, t) handles key x of token t. No workgroup memory.

@group(0) @binding(1) var<storage, read> heads: array<u32>;
@group(0) @binding(2) var<storage, read> weights: array<f32>;
@group(0) @binding(3) var<storage, read_write> alignment: array<f32>;

// One divided by the number of heads of all layers.
override SHARE: f32;

const WIDTH = 7;
const REACH = 3;

// Keys beyond either end are mirrored.
fn mirror(key: i32, keys: i32) -> i32 {
  let folded = abs(key);
  return select(folded, 2 * (keys - 1) - folded, folded >= keys);
}

fn median_around(row: u32, key: i32, keys: i32) -> f32 {
  if (keys <= REACH) {
    return weights[row + u32(key)];
  }
  var sorted: array<f32, WIDTH>;
  for (var i = 0; i < WIDTH; i++) {
    let value = weights[row + u32(mirror(key + i - REACH, keys))];
    var slot = i;
    while (slot > 0) {
      if (sorted[slot - 1] <= value) {
        break;
      }
      sorted[slot] = sorted[slot - 1];
      slot--;
    }
    sorted[slot] = value;
  }
  return sorted[REACH];
}

@compute @workgroup_size(WG)
fn alignment_mean(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= text.keys) {
    return;
  }
  var sum = 0.0;
  for (var head = 0u; head < arrayLength(&heads); head++) {
    let row = (head * text.tokens + id.y) * text.keys;
    sum += median_around(row, i32(id.x), i32(text.keys));
  }
  alignment[id.y * text.keys + id.x] += sum * SHARE;
}
//# end
