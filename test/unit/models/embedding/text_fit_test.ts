import assert from "node:assert/strict";
import { fitPair, fitText } from "../../../../src/models/embedding/encoder_tokenizer.ts";

const WHOLE = { numSpecial: 2, maxTokens: 10, truncation: undefined, param: "input" } as const;
const CUT = { ...WHOLE, truncation: "model" } as const;

function ids(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}

Deno.test("fitText() returns a text unchanged if it fits with its special tokens, and refuses a longer one", () => {
  assert.deepEqual(fitText(ids(8), WHOLE), ids(8));
  assert.throws(() => fitText(ids(9), WHOLE), {
    kind: "context_length_exceeded",
    message: /input has 11 tokens, and the model takes at most 10/,
  });
  assert.deepEqual(fitText(ids(900), { ...WHOLE, maxTokens: undefined }), ids(900));
});

Deno.test("fitText() truncates at the lower of the model's and the request's limit", () => {
  assert.deepEqual(fitText(ids(9), CUT), ids(8));
  assert.deepEqual(fitText(ids(9), { ...WHOLE, truncation: 5 }), ids(3));
  assert.deepEqual(fitText(ids(9), { ...WHOLE, truncation: 500 }), ids(8));
  assert.deepEqual(fitText(ids(2), { ...WHOLE, truncation: 5 }), ids(2));
});

Deno.test("fitText() and fitPair() keep the last tokens on request", () => {
  const end = { ...CUT, keepsEnd: true };
  assert.deepEqual(fitText(ids(9), end), [1, 2, 3, 4, 5, 6, 7, 8]);
  assert.deepEqual(fitText(ids(8), end), ids(8));
  assert.deepEqual(fitText(ids(9), { ...end, truncation: 5 }), [6, 7, 8]);
  const pair = (first: number, second: number, maxSecond?: number) =>
    fitPair(ids(first), ids(second), { ...end, maxSecond });
  assert.deepEqual(pair(3, 50), [ids(3), [45, 46, 47, 48, 49]]);
  assert.deepEqual(pair(50, 2), [[44, 45, 46, 47, 48, 49], ids(2)]);
  assert.deepEqual(pair(3, 50, 2), [ids(3), [48, 49]]);
});

Deno.test("fitText() refuses limits that leave no tokens", () => {
  assert.throws(() => fitText(ids(3), { ...WHOLE, truncation: 2 }), {
    kind: "invalid_value",
    param: "truncation",
  });
  assert.throws(() => fitText([], { ...WHOLE, numSpecial: 0 }), { kind: "invalid_value" });
  assert.deepEqual(fitText([], WHOLE), []);
});

Deno.test("fitPair() truncates the longer of the two texts until the pair fits", () => {
  const fit = (first: number, second: number) =>
    fitPair(ids(first), ids(second), { ...CUT, maxSecond: undefined }).map(({ length }) => length);
  assert.deepEqual(fit(3, 5), [3, 5]);
  assert.deepEqual(fit(3, 50), [3, 5]);
  assert.deepEqual(fit(50, 2), [6, 2]);
  assert.deepEqual(fit(50, 50), [4, 4]);
});

Deno.test("fitPair() truncates the second text to a limit of its own", () => {
  const pair = fitPair(ids(3), ids(50), { ...WHOLE, maxSecond: 4 });
  assert.deepEqual(pair, [ids(3), ids(4)]);
});
