import assert from "node:assert/strict";
import { determineRule, readAlignmentHeads } from "../../../../src/models/asr/whisper_config.ts";

const CONFIG = { vocabSize: 2501, timestampsStart: 1000, lastFirstTimestamp: 1050 };
const ALL = { allowsText: true, allowsEnd: true, lastTimestamp: 2500 };

Deno.test("determineRule() starts a window with a timestamp of its first second", () => {
  assert.deepEqual(determineRule([], CONFIG), {
    allowsText: false,
    allowsEnd: false,
    firstTimestamp: 1000,
    lastTimestamp: 1050,
  });
});

Deno.test("determineRule() allows text and the end, but no timestamp, after an opening timestamp", () => {
  for (const tokens of [[1010], [1000, 5, 1020, 1020], [1000, 5, 1020, 1100]]) {
    assert.deepEqual(determineRule(tokens, CONFIG), { ...ALL, firstTimestamp: 2501 });
  }
});

Deno.test("determineRule() allows text, the end and only later timestamps within text", () => {
  assert.deepEqual(determineRule([1010, 5], CONFIG), { ...ALL, firstTimestamp: 1011 });
  assert.deepEqual(determineRule([1010, 5, 1020, 1030, 5, 6], CONFIG), {
    ...ALL,
    firstTimestamp: 1031,
  });
});

Deno.test("determineRule() requires another timestamp or the end after a closing one", () => {
  assert.deepEqual(determineRule([1010, 5, 1020], CONFIG), {
    allowsText: false,
    allowsEnd: true,
    firstTimestamp: 1020,
    lastTimestamp: 2500,
  });
});

const config = { decoder_layers: 3, decoder_attention_heads: 2 };
const read = (alignment_heads?: unknown) =>
  readAlignmentHeads({ config, generationConfig: { alignment_heads } });

Deno.test("readAlignmentHeads() groups pairs by layer, with each head once", () => {
  assert.deepEqual(read([[2, 1], [0, 1], [2, 0], [2, 1]]), [
    { layer: 0, heads: [1] },
    { layer: 2, heads: [1, 0] },
  ]);
});

Deno.test("readAlignmentHeads() uses the upper half of the layers by default", () => {
  const upper = [{ layer: 1, heads: [0, 1] }, { layer: 2, heads: [0, 1] }];
  for (const absent of [undefined, null, []]) assert.deepEqual(read(absent), upper);
});

Deno.test("readAlignmentHeads() refuses heads that the decoder lacks", () => {
  for (const pair of [[3, 0], [0, 2], [-1, 0], [0.5, 0], [0], "0"]) {
    assert.throws(() => read([[0, 0], pair]), {
      name: "StartupError",
      message: /3 layers of 2 heads/,
    });
  }
});
