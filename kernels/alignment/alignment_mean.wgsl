// Adds a layer's share to an alignment: for each head, the median over seven neighbouring keys. See
// alignment_reference.ts for the formula.
//
//   text       u32: tokens, keys
//   heads      u32 [heads wanted]
//   weights    f32 [heads wanted, tokens, keys], normalised
//   alignment  f32 [tokens, keys], added to
//
// Invocation (x, t) handles key x of token t. No workgroup memory.

struct Text {
  tokens: u32,
  keys: u32,
  first_block: u32,
}

@group(0) @binding(0) var<storage, read> text: Text;
@group(0) @binding(1) var<storage, read> heads: array<u32>;
@group(0) @binding(2) var<storage, read> weights: array<f32>;
@group(0) @binding(3) var<storage, read_write> alignment: array<f32>;

// One divided by the number of heads of all layers.
override SHARE: f32;
override WG: u32;

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
