// The loop over the matrix of matvec_nbits.wgsl.

override CHUNKS_PER_BLOCK: u32;
// Whether the last block extends beyond K.
override IS_PADDED: bool;

// Four levels of a word: its `part`-th group of four.
fn four_levels(word: u32, part: u32) -> vec4<f32> {
  let shifts = vec4<u32>(part * 4u * BITS) + BITS * vec4<u32>(0u, 1u, 2u, 3u);
  return vec4<f32>((vec4<u32>(word) >> shifts) & vec4<u32>((1u << BITS) - 1u));
}

fn accumulate(first: u32, row0: u32, lane: u32) {
  let parts = 8u / BITS;
  for (var c = lane; c < BLOCKS * CHUNKS_PER_BLOCK; c += LANES) {
    let block = c / CHUNKS_PER_BLOCK;
    var words: array<chunk, MAX_OUTS>;
    var scale: array<f32, MAX_OUTS>;
    var zero: array<f32, MAX_OUTS>;
    for (var o = 0u; o < OUTS; o++) {
      let row = matrix_row(first, o);
      words[o] = levels[row * BLOCKS * CHUNKS_PER_BLOCK + c];
      scale[o] = f32(scales[row * BLOCKS + block]);
      zero[o] = zero_point(row, block);
    }
    for (var w = 0u; w < CHUNK_WORDS; w++) {
      for (var part = 0u; part < parts; part++) {
        let at = (c * CHUNK_WORDS + w) * parts + part;
        if (IS_PADDED && at >= K_FOURS) {
          continue;
        }
        var of_outputs: array<vec4<f32>, MAX_OUTS>;
        for (var o = 0u; o < OUTS; o++) {
          of_outputs[o] = (four_levels(words[o][w], part) - zero[o]) * scale[o];
        }
        add_products(&of_outputs, row0, at);
      }
    }
  }
}
