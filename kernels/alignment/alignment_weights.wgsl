// The attention weights of a text's tokens in some heads of one layer. See alignment_reference.ts for the formula.
//
//   text     u32: tokens, keys, first block of the keys
//   heads    u32 [heads wanted]
//   q        elem [tokens, Q_STRIDE * 4]
//   k_cache  elem [blocks, KV_HEADS, BLOCK_SIZE, HEAD_FOURS * 4], the text's blocks one after the other
//   weights  f32 [heads wanted, tokens, keys]
//
// Workgroup (t, i) handles token t and wanted head i; its invocations stride over the keys. Workgroup memory: 16
// HEAD_FOURS + 4 WG bytes.

struct Text {
  tokens: u32,
  keys: u32,
  first_block: u32,
}

@group(0) @binding(0) var<storage, read> text: Text;
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
override WG: u32;

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
