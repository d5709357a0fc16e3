// Normalises attention weights for each key: subtracts their mean over the text's tokens, and divides by their standard
// deviation. See alignment_reference.ts for the formula.
//
//   text     u32: tokens, keys
//   weights  f32 [heads, tokens, keys], in place
//
// Invocation (x, i) handles key x of head i. No workgroup memory.

struct Text {
  tokens: u32,
  keys: u32,
  first_block: u32,
}

@group(0) @binding(0) var<storage, read> text: Text;
@group(0) @binding(1) var<storage, read_write> weights: array<f32>;

override WG: u32;
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
