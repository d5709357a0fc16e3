import assert from "node:assert/strict";
import { ruleAfter } from "../../../../src/models/asr/whisper_config.ts";

const CONFIG = { vocabSize: 2501, timestampsStart: 1000, lastFirstTimestamp: 1050 };
const ALL = { allowsText: true, allowsEnd: true, lastTimestamp: 2500 };

Deno.test("ruleAfter() opens a window with a timestamp of its first second", () => {
  assert.deepEqual(ruleAfter([], CONFIG), {
    allowsText: false,
    allowsEnd: false,
    firstTimestamp: 1000,
    lastTimestamp: 1050,
  });
});

Deno.test("ruleAfter() wants text or the end after a timestamp that opens", () => {
  for (const tokens of [[1010], [1000, 5, 1020, 1020], [1000, 5, 1020, 1100]]) {
    assert.deepEqual(ruleAfter(tokens, CONFIG), { ...ALL, firstTimestamp: 2501 });
  }
});

Deno.test("ruleAfter() wants a later timestamp, text or the end within text", () => {
  assert.deepEqual(ruleAfter([1010, 5], CONFIG), { ...ALL, firstTimestamp: 1011 });
  assert.deepEqual(ruleAfter([1010, 5, 1020, 1030, 5, 6], CONFIG), {
    ...ALL,
    firstTimestamp: 1031,
  });
});

Deno.test("ruleAfter() wants another timestamp or the end after one that closes", () => {
  assert.deepEqual(ruleAfter([1010, 5, 1020], CONFIG), {
    allowsText: false,
    allowsEnd: true,
    firstTimestamp: 1020,
    lastTimestamp: 2500,
  });
});
