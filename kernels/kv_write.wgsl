// Rotary embedding (Su et al., 2021) of new queries and keys, and their place in the paged cache.
// See kv_write.ts for formula and shapes.
//
// One workgroup takes 64 fours of one token; each thread one four of one head: it rotates a query into `q_out`,
// rotates a key into the cache, or copies a value there. No workgroup memory.

@group(0) @binding(1) var<storage, read> q: array<four>;
@group(0) @binding(2) var<storage, read> k: array<four>;
@group(0) @binding(3) var<storage, read> v: array<four>;
@group(0) @binding(4) var<storage, read> cos_cache: array<u32>;
@group(0) @binding(5) var<storage, read> sin_cache: array<u32>;
@group(0) @binding(6) var<storage, read_write> q_out: array<four>;
@group(0) @binding(7) var<storage, read_write> k_cache: array<four>;
@group(0) @binding(8) var<storage, read_write> v_cache: array<four>;

override HEAD_FOURS: u32;
// Query heads to rotate: 0 where queries stay as they are.
override HEADS: u32;
override KV_HEADS: u32;
override BLOCK_SIZE: u32;
// Layout of one token's row in each input, in fours.
override Q_STRIDE: u32;
override Q_OFFSET: u32;
override K_STRIDE: u32;
override K_OFFSET: u32;
override V_STRIDE: u32;
override V_OFFSET: u32;
// Fours of a head that turn, 0 for none.
override ROTARY_FOURS: u32;
override IS_INTERLEAVED: bool;
override ANGLES_ARE_F16: bool;

const THREADS = 64u;

// Angle caches are read as words, so that f16 ones need no `shader-f16`.
fn cosine(at: u32) -> f32 {
  if (ANGLES_ARE_F16) {
    return unpack2x16float(cos_cache[at / 2u])[at % 2u];
  }
  return bitcast<f32>(cos_cache[at]);
}

fn sine(at: u32) -> f32 {
  if (ANGLES_ARE_F16) {
    return unpack2x16float(sin_cache[at / 2u])[at % 2u];
  }
  return bitcast<f32>(sin_cache[at]);
}

// Elements `column * 4 …` of a head, turned; `own` are they, `other` what they turn with.
fn turn(own: vec4<f32>, other: vec4<f32>, position: u32, column: u32) -> vec4<f32> {
  let half = ROTARY_FOURS / 2u;
  var angles: vec4<u32>;
  var signs: vec4<f32>;
  if (IS_INTERLEAVED) {
    angles = vec4<u32>(column * 2u) + vec4<u32>(0u, 0u, 1u, 1u);
    signs = vec4<f32>(-1.0, 1.0, -1.0, 1.0);
  } else {
    angles = vec4<u32>((column % half) * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    signs = vec4<f32>(select(1.0, -1.0, column < half));
  }
  angles += position * ROTARY_FOURS * 2u;
  let cosines =
    vec4<f32>(cosine(angles.x), cosine(angles.y), cosine(angles.z), cosine(angles.w));
  let sines = vec4<f32>(sine(angles.x), sine(angles.y), sine(angles.z), sine(angles.w));
  return own * cosines + signs * other * sines;
}

// Where in its head a four finds what it turns with.
fn other_column(column: u32) -> u32 {
  if (IS_INTERLEAVED) {
    return column;
  }
  let half = ROTARY_FOURS / 2u;
  return select(column - half, column + half, column < half);
}

// The fours found there, each element opposite the one it turns with.
fn arrange_other(values: vec4<f32>) -> vec4<f32> {
  if (IS_INTERLEAVED) {
    return values.yxwz;
  }
  return values;
}

@compute @workgroup_size(THREADS)
fn kv_write(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let token = group.y;
  let flat = group.x * THREADS + thread;
  let column = flat % HEAD_FOURS;
  let head = flat / HEAD_FOURS;
  let position = step.words[step.positions + token];
  let slot = step.words[step.slots + token];
  let turns = column < ROTARY_FOURS;

  if (head < HEADS) {
    let at = token * Q_STRIDE + Q_OFFSET + head * HEAD_FOURS;
    var rotated = q[at + column];
    if (turns) {
      let other = arrange_other(unpack(q[at + other_column(column)]));
      rotated = pack(turn(unpack(rotated), other, position, column));
    }
    q_out[(token * HEADS + head) * HEAD_FOURS + column] = rotated;
    return;
  }
  let kv = head - HEADS;
  if (kv >= 2u * KV_HEADS) {
    return;
  }
  let kv_head = kv % KV_HEADS;
  let target_at =
    ((slot / BLOCK_SIZE * KV_HEADS + kv_head) * BLOCK_SIZE + slot % BLOCK_SIZE) * HEAD_FOURS + column;
  if (kv >= KV_HEADS) {
    v_cache[target_at] = v[token * V_STRIDE + V_OFFSET + kv_head * HEAD_FOURS + column];
    return;
  }
  let at = token * K_STRIDE + K_OFFSET + kv_head * HEAD_FOURS;
  var rotated = k[at + column];
  if (turns) {
    let other = arrange_other(unpack(k[at + other_column(column)]));
    rotated = pack(turn(unpack(rotated), other, position, column));
  }
  k_cache[target_at] = rotated;
}
