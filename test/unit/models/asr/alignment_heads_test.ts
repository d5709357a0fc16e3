import assert from "node:assert/strict";
import { readAlignmentHeads } from "../../../../src/models/asr/whisper_config.ts";

const config = { decoder_layers: 3, decoder_attention_heads: 2 };
const read = (alignment_heads?: unknown) =>
  readAlignmentHeads({ config, generationConfig: { alignment_heads } });

Deno.test("readAlignmentHeads() gathers pairs by layer, each head once", () => {
  assert.deepEqual(read([[2, 1], [0, 1], [2, 0], [2, 1]]), [
    { layer: 0, heads: [1] },
    { layer: 2, heads: [1, 0] },
  ]);
});

Deno.test("readAlignmentHeads() takes the upper half of the layers where none are named", () => {
  const upper = [{ layer: 1, heads: [0, 1] }, { layer: 2, heads: [0, 1] }];
  for (const absent of [undefined, null, []]) assert.deepEqual(read(absent), upper);
});

Deno.test("readAlignmentHeads() refuses heads that the decoder has not", () => {
  for (const pair of [[3, 0], [0, 2], [-1, 0], [0.5, 0], [0], "0"]) {
    assert.throws(() => read([[0, 0], pair]), {
      name: "StartupError",
      message: /3 layers of 2 heads/,
    });
  }
});
