import assert from "node:assert/strict";
import {
  computeAllowedTokens,
  readGenerationRules,
} from "../../../../src/models/ocr/generation_rules.ts";

const VOCAB = 40;
const SIZES = { vocabSize: VOCAB, eosTokenIds: new Set([2]) };

/** The tokens that may not follow. */
function forbidden(config: Record<string, unknown>, tokens: number[], numPrompt = 1): number[] {
  const mask = computeAllowedTokens(tokens, numPrompt, readGenerationRules(config, SIZES));
  if (mask === undefined) return [];
  assert.equal(mask.length, Math.ceil(VOCAB / 32));
  return Array.from({ length: VOCAB }, (_, id) => id)
    .filter((id) => (mask[id >>> 5]! >>> (id & 31) & 1) === 0);
}

Deno.test("computeAllowedTokens() allows everything without a rule", () => {
  assert.equal(computeAllowedTokens([1, 5, 5, 5], 1, readGenerationRules({}, SIZES)), undefined);
});

Deno.test("computeAllowedTokens() forbids a repeated run of tokens", () => {
  const config = { no_repeat_ngram_size: 3 };
  assert.deepEqual(forbidden(config, [9, 5, 6, 7, 5, 6]), [7]);
  assert.deepEqual(forbidden(config, [9, 5, 6, 7, 5, 6, 8, 5, 6]), [7, 8]);
  assert.deepEqual(forbidden(config, [9, 5]), []);
  assert.deepEqual(forbidden({ no_repeat_ngram_size: 1 }, [9, 5]), [5, 9]);
});

Deno.test("computeAllowedTokens() includes the prompt in forbidden repetitions", () => {
  assert.deepEqual(forbidden({ no_repeat_ngram_size: 2 }, [7, 8, 7], 2), [8]);
});

Deno.test("computeAllowedTokens() forces the first token only after a prompt of one token", () => {
  const config = { forced_bos_token_id: 33, begin_suppress_tokens: [4] };
  const others = Array.from({ length: VOCAB }, (_, id) => id).filter((id) => id !== 33);
  assert.deepEqual(forbidden(config, [2]), others);
  assert.deepEqual(forbidden(config, [2, 33]), [4]);
  assert.deepEqual(forbidden(config, [2, 33, 9]), []);
  assert.deepEqual(forbidden(config, [2, 9], 2), [4]);
});

Deno.test("computeAllowedTokens() forbids the end until the answer is long enough", () => {
  assert.deepEqual(forbidden({ min_length: 3 }, [1, 9]), [2]);
  assert.deepEqual(forbidden({ min_length: 3 }, [1, 9, 9]), []);
  assert.deepEqual(forbidden({ min_new_tokens: 2 }, [1, 8, 9], 2), [2]);
  assert.deepEqual(forbidden({ min_new_tokens: 2 }, [1, 8, 9, 9], 2), []);
});

Deno.test("computeAllowedTokens() forbids bad words: single tokens, or the last token of a run", () => {
  const config = { bad_words_ids: [[3], [5, 6, 7]], suppress_tokens: [39, -1] };
  assert.deepEqual(forbidden(config, [1, 5]), [3, 39]);
  assert.deepEqual(forbidden(config, [1, 5, 6]), [3, 7, 39]);
  assert.deepEqual(forbidden(config, [6]), [3, 39]);
});
