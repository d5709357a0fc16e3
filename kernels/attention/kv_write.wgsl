// Rotary embedding (Su et al., 2021) of new queries and keys, and writing keys and values to the paged cache. See
// kv_write.ts for formula and shapes.
//
// One workgroup takes 64 vec4s of one token, and each thread one vec4 of one head: it rotates a query into `q_out`,
// rotates a key into the cache, or copies a value there. Heads may be normalised before or after the rotation. If each
// head has its own root mean square, a workgroup holds whole heads. If all heads of a token share one, each workgroup
// computes it by itself. Workgroup memory: 128 floats, or 192 if the cache is quantised.

@group(0) @binding(1) var<storage, read> q: array<four>;
@group(0) @binding(2) var<storage, read> k: array<four>;
@group(0) @binding(3) var<storage, read> v: array<four>;
// f32 [positions or tokens, 2, rotary size / 2]: the cosines of a position, then its sines.
@group(0) @binding(4) var<storage, read> angles: array<f32>;
@group(0) @binding(5) var<storage, read_write> q_out: array<four>;
@group(0) @binding(6) var<storage, read_write> k_cache: array<cached>;
@group(0) @binding(7) var<storage, read_write> v_cache: array<cached>;
//# if FACTOR_FOURS
// The norms' factors, for queries and then for keys: one head's or a whole row's. They are a uniform, since
// the kernel already uses the eight storage buffers that WebGPU guarantees.
@group(0) @binding(8) var<uniform> gammas: array<vec4<f32>, $FACTOR_FOURS>;
//# end

override HEAD_FOURS: u32;
// Number of query heads to rotate or normalise: 0 if queries are left unchanged.
override HEADS: u32;
override KV_HEADS: u32;
override BLOCK_SIZE: u32;
// Distance in the cache from one token's head to the next token's, in units of `cached`.
override CACHE_STRIDE: u32;
// Layout of one token's row in each input, in vec4s.
override Q_STRIDE: u32;
override Q_OFFSET: u32;
override K_STRIDE: u32;
override K_OFFSET: u32;
override V_STRIDE: u32;
override V_OFFSET: u32;
// Number of elements of a head that are rotated: even, 0 for none.
override ROTARY_SIZE: u32;
override IS_INTERLEAVED: bool;
// Whether angles are indexed by token of the step rather than by position.
override IS_BY_TOKEN: bool;
override NORMS_QUERIES: bool;
override NORMS_KEYS: bool;
override EPSILON: f32;
// Whether all heads of a token share one norm.
override NORMS_ROWS: bool;
// Whether heads are normalised after their rotation.
override NORMS_ROTATED: bool;
// Number of query heads, whether or not they are rotated or normalised.
override NUM_QUERY_HEADS: u32;

const THREADS = 64u;

var<workgroup> squares: array<f32, THREADS>;
var<workgroup> key_squares: array<f32, THREADS>;
//# if IS_QUANTIZED
const MOST_F16 = 65504.0;
var<workgroup> magnitudes: array<f32, THREADS>;
//# end

fn factors_at(at: u32) -> vec4<f32> {
  //# if FACTOR_FOURS
  return gammas[at];
  //# else
  return vec4<f32>(1.0);
  //# end
}

fn angles_at(at: vec4<u32>) -> vec4<f32> {
  return vec4<f32>(angles[at.x], angles[at.y], angles[at.z], angles[at.w]);
}

// Rotates vec4 `column` of a head. `own` holds its elements, and `other` the elements that they are rotated with.
fn rotate(own: vec4<f32>, other: vec4<f32>, position: u32, column: u32) -> vec4<f32> {
  let half = ROTARY_SIZE / 2u;
  let elements = vec4<u32>(column * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
  var at: vec4<u32>;
  var signs: vec4<f32>;
  if (IS_INTERLEAVED) {
    at = elements / 2u;
    signs = vec4<f32>(-1.0, 1.0, -1.0, 1.0);
  } else {
    let is_first = elements < vec4<u32>(half);
    at = select(elements - half, elements, is_first);
    signs = select(vec4<f32>(1.0), vec4<f32>(-1.0), is_first);
  }
  at += position * ROTARY_SIZE;
  let rotated = own * angles_at(at) + signs * other * angles_at(at + half);
  return select(own, rotated, elements < vec4<u32>(ROTARY_SIZE));
}

// `1 / rms` of the head that contains the thread's vec4. All threads must call it.
fn measure_head(thread: u32, head: u32, column: u32, token: u32, position: u32) -> f32 {
  let is_rotated = NORMS_ROTATED && column * 4u < ROTARY_SIZE;
  var own = vec4<f32>();
  if (head < HEADS && NORMS_QUERIES) {
    let at = token * Q_STRIDE + Q_OFFSET + head * HEAD_FOURS;
    own = unpack(q[at + column]);
    if (is_rotated) {
      own = rotate(own, other_four(true, at, head, column, 1.0), position, column);
    }
  }
  if (head >= HEADS && head < HEADS + KV_HEADS && NORMS_KEYS) {
    let at = token * K_STRIDE + K_OFFSET + (head - HEADS) * HEAD_FOURS;
    own = unpack(k[at + column]);
    if (is_rotated) {
      own = rotate(own, other_four(false, at, head - HEADS, column, 1.0), position, column);
    }
  }
  squares[thread] = dot(own, own);
  workgroupBarrier();
  var sum = 0.0;
  for (var i = 0u; i < HEAD_FOURS; i++) {
    sum += squares[thread - column + i];
  }
  return inverseSqrt(sum / f32(HEAD_FOURS * 4u) + EPSILON);
}

// `1 / rms` of all queries of a token, and of all its keys. All threads must call it.
fn measure_rows(thread: u32, token: u32) -> vec2<f32> {
  let fours = vec2<u32>(NUM_QUERY_HEADS, KV_HEADS) * HEAD_FOURS;
  var own = vec2<f32>();
  if (NORMS_QUERIES) {
    for (var at = thread; at < fours.x; at += THREADS) {
      let value = unpack(q[token * Q_STRIDE + Q_OFFSET + at]);
      own.x += dot(value, value);
    }
  }
  if (NORMS_KEYS) {
    for (var at = thread; at < fours.y; at += THREADS) {
      let value = unpack(k[token * K_STRIDE + K_OFFSET + at]);
      own.y += dot(value, value);
    }
  }
  squares[thread] = own.x;
  key_squares[thread] = own.y;
  workgroupBarrier();
  var sum = vec2<f32>();
  for (var i = 0u; i < THREADS; i++) {
    sum += vec2<f32>(squares[i], key_squares[i]);
  }
  return inverseSqrt(sum / vec2<f32>(fours * 4u) + EPSILON);
}

// The factors of a query's vec4 if queries are normalised.
fn query_factors(head: u32, column: u32, scale: f32) -> vec4<f32> {
  return scale * factors_at(select(0u, head, NORMS_ROWS) * HEAD_FOURS + column);
}

// The factors of a key's vec4 if keys are normalised.
fn key_factors(head: u32, column: u32, scale: f32) -> vec4<f32> {
  return scale * factors_at(select(1u, NUM_QUERY_HEADS + head, NORMS_ROWS) * HEAD_FOURS + column);
}

// A vec4 of a query before its rotation.
fn query_four(at: u32, head: u32, column: u32, scale: f32) -> vec4<f32> {
  let value = unpack(q[at + column]);
  if (NORMS_QUERIES && !NORMS_ROTATED) {
    return value * query_factors(head, column, scale);
  }
  return value;
}

// A vec4 of a key before its rotation.
fn key_four(at: u32, head: u32, column: u32, scale: f32) -> vec4<f32> {
  let value = unpack(k[at + column]);
  if (NORMS_KEYS && !NORMS_ROTATED) {
    return value * key_factors(head, column, scale);
  }
  return value;
}

// A vec4 of a query or key before its rotation.
fn head_four(is_query: bool, at: u32, head: u32, column: u32, scale: f32) -> vec4<f32> {
  if (is_query) {
    return query_four(at, head, column, scale);
  }
  return key_four(at, head, column, scale);
}

// The other element of the pair in which an element of a head is rotated.
fn other_element(is_query: bool, at: u32, head: u32, element: u32, scale: f32) -> f32 {
  let half = ROTARY_SIZE / 2u;
  let other = select(element - half, element + half, element < half);
  return head_four(is_query, at, head, other / 4u, scale)[other % 4u];
}

// For each element of a vec4, the other element of the pair in which it is rotated.
fn other_four(is_query: bool, at: u32, head: u32, column: u32, scale: f32) -> vec4<f32> {
  if (IS_INTERLEAVED) {
    return head_four(is_query, at, head, column, scale).yxwz;
  }
  let half = ROTARY_SIZE / 2u;
  if (half % 4u == 0u) {
    let fours = half / 4u;
    let other = select(column - fours, column + fours, column < fours);
    return head_four(is_query, at, head, other, scale);
  }
  // The other elements lie in two vec4s.
  let first = column * 4u;
  return vec4<f32>(
    other_element(is_query, at, head, first, scale),
    other_element(is_query, at, head, first + 1u, scale),
    other_element(is_query, at, head, first + 2u, scale),
    other_element(is_query, at, head, first + 3u, scale),
  );
}

//# if IS_QUANTIZED
// Writes a vec4 of a head in the format that kv_cache.wgsl reads. All threads must call it, since the threads of a head
// compute its scale together.
fn write_cached(is_cached: bool, is_value: bool, at: u32, column: u32, values: vec4<f32>, thread: u32) {
  let sizes = abs(values);
  magnitudes[thread] = max(max(sizes.x, sizes.y), max(sizes.z, sizes.w));
  workgroupBarrier();
  var largest = 0.0;
  for (var i = 0u; i < HEAD_FOURS; i++) {
    largest = max(largest, magnitudes[thread - column + i]);
  }
  let stored = pack2x16float(vec2<f32>(min(largest, MOST_F16), 0.0));
  let scale = unpack2x16float(stored).x;
  let part = pack4x8snorm(select(vec4<f32>(), values / scale, vec4<bool>(scale > 0.0)));
  if (!is_cached) {
    return;
  }
  if (is_value) {
    v_cache[at + column] = part;
  } else {
    k_cache[at + column] = part;
  }
  if (column == 0u) {
    if (is_value) {
      v_cache[at + HEAD_FOURS] = stored;
    } else {
      k_cache[at + HEAD_FOURS] = stored;
    }
  }
}
//# else
// Writes a vec4 of a head to the token's slot in the cache.
fn write_cached(is_cached: bool, is_value: bool, at: u32, column: u32, values: vec4<f32>, thread: u32) {
  if (!is_cached) {
    return;
  }
  if (is_value) {
    v_cache[at + column] = pack(values);
  } else {
    k_cache[at + column] = pack(values);
  }
}
//# end

@compute @workgroup_size(THREADS)
fn kv_write(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let token = group.y;
  let flat = group.x * THREADS + thread;
  let column = flat % HEAD_FOURS;
  let head = flat / HEAD_FOURS;
  let position = select(step.words[step.positions + token], token, IS_BY_TOKEN);
  let slot = step.words[step.slots + token];
  let is_rotated = column * 4u < ROTARY_SIZE;
  var scale = 1.0;
  if (NORMS_ROWS) {
    let scales = measure_rows(thread, token);
    scale = select(scales.y, scales.x, head < HEADS);
  } else if (NORMS_QUERIES || NORMS_KEYS) {
    scale = measure_head(thread, head, column, token, position);
  }

  if (head < HEADS) {
    let at = token * Q_STRIDE + Q_OFFSET + head * HEAD_FOURS;
    var rotated = query_four(at, head, column, scale);
    if (is_rotated) {
      let other = other_four(true, at, head, column, scale);
      rotated = rotate(rotated, other, position, column);
    }
    if (NORMS_QUERIES && NORMS_ROTATED) {
      rotated *= query_factors(head, column, scale);
    }
    q_out[(token * HEADS + head) * HEAD_FOURS + column] = pack(rotated);
  }
  // Wraps around to a huge number if the head is a query.
  let kv = head - HEADS;
  let is_cached = head >= HEADS && kv < 2u * KV_HEADS;
  let is_value = kv >= KV_HEADS;
  let kv_head = kv % KV_HEADS;
  var values = vec4<f32>();
  if (is_cached && is_value) {
    values = unpack(v[token * V_STRIDE + V_OFFSET + kv_head * HEAD_FOURS + column]);
  } else if (is_cached) {
    let at = token * K_STRIDE + K_OFFSET + kv_head * HEAD_FOURS;
    values = key_four(at, kv_head, column, scale);
    if (is_rotated) {
      let other = other_four(false, at, kv_head, column, scale);
      values = rotate(values, other, position, column);
    }
    if (NORMS_KEYS && NORMS_ROTATED) {
      values *= key_factors(kv_head, column, scale);
    }
  }
  let token_at = (slot / BLOCK_SIZE * KV_HEADS + kv_head) * BLOCK_SIZE + slot % BLOCK_SIZE;
  write_cached(is_cached, is_value, token_at * CACHE_STRIDE, column, values, thread);
}
