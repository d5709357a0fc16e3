import assert from "node:assert/strict";
import {
  LOWEST_LOGIT,
  type TokenRule,
  type TokenRulesOptions,
} from "../../kernels/sample/sample_row.ts";
import { applyTokenRules, TokenRules } from "../../kernels/sample/token_rules.ts";
import { HAS_F16, kernelTest } from "../fixtures/engine/gpu.ts";
import { assertClose } from "../fixtures/engine/compare_values.ts";
import { runAndRead, upload } from "./tensors.ts";

/** Tokens 0 to 9 are text, and 3 is suppressed; 10 is the end, 11 and 12 are special, 13 to 20 are timestamps. */
const SMALL: TokenRulesOptions = {
  vocabSize: 21,
  endToken: 10,
  timestampsStart: 13,
  plainTokens: Uint32Array.of(0b1111110111),
};
const ALL: TokenRule = {
  allowsText: true,
  allowsEnd: true,
  firstTimestamp: 13,
  lastTimestamp: 20,
};

/** Applies a rule. @returns the tokens that remain. */
function left(rule: TokenRule, logits: Float32Array): number[] {
  const row = logits.slice();
  applyTokenRules(row, [rule], SMALL);
  return [...row.keys()].filter((token) => row[token]! > Math.fround(LOWEST_LOGIT.f32));
}

/** Makes logits of 0 except the given ones. */
function logitsWith(values: Readonly<Record<number, number>>): Float32Array {
  const logits = new Float32Array(SMALL.vocabSize);
  for (const [token, value] of Object.entries(values)) logits[Number(token)] = value;
  return logits;
}

const TEXT = [0, 1, 2, 4, 5, 6, 7, 8, 9];

Deno.test("applyTokenRules() keeps the tokens that the rule allows and never special ones", () => {
  const likelyText = logitsWith({ 5: 9, 3: 50, 11: 50, 12: 50 });
  assert.deepEqual(left(ALL, likelyText), [...TEXT, 10, 13, 14, 15, 16, 17, 18, 19, 20]);
  const noTimes = { firstTimestamp: 21, lastTimestamp: 20 };
  assert.deepEqual(left({ ...ALL, ...noTimes, allowsEnd: false }, likelyText), TEXT);
  assert.deepEqual(left({ ...ALL, ...noTimes, allowsText: false }, likelyText), [10]);
  assert.deepEqual(
    left(
      { allowsText: false, allowsEnd: false, firstTimestamp: 15, lastTimestamp: 16 },
      likelyText,
    ),
    [15, 16],
  );
});

Deno.test("applyTokenRules() allows only timestamps if together they are likelier than any other token", () => {
  // Eight timestamps with logit 0 sum to ln 8 = 2.079.
  assert.deepEqual(left(ALL, logitsWith({ 5: 2.07 })), [13, 14, 15, 16, 17, 18, 19, 20]);
  assert.equal(left(ALL, logitsWith({ 5: 2.09 })).length, 18);
  assert.deepEqual(left(ALL, logitsWith({ 10: 2.07 })), [13, 14, 15, 16, 17, 18, 19, 20]);
  // Forbidden timestamps and forbidden text do not count.
  const fewer = { ...ALL, firstTimestamp: 17 };
  assert.equal(left(fewer, logitsWith({ 5: 2.07, 13: 50 })).length, 14);
  assert.deepEqual(left(fewer, logitsWith({ 3: 50, 5: 1.38 })), [17, 18, 19, 20]);
});

Deno.test("applyTokenRules() leaves a row without a rule unchanged", () => {
  const logits = Float32Array.of(...logitsWith({ 3: 1 }), ...logitsWith({ 3: 1 }));
  applyTokenRules(logits, [undefined, ALL], SMALL);
  assert.deepEqual(logits.slice(0, SMALL.vocabSize), logitsWith({ 3: 1 }));
  assert.equal(logits[SMALL.vocabSize + 3], Math.fround(LOWEST_LOGIT.f32));
});

/** Logits that are NaN or infinite, and the tokens that remain: only timestamps ("times"), or text too ("text"). */
const DAMAGED = [
  { values: { 5: NaN }, left: "times" },
  { values: { 5: NaN, 6: 9 }, left: "text" },
  { values: { 15: NaN }, left: "times" },
  { values: { 5: Infinity }, left: "text" },
  { values: { 15: Infinity }, left: "times" },
  { values: { 5: Infinity, 15: Infinity }, left: "text" },
] as const;

Deno.test("applyTokenRules() ignores NaN and treats infinity as the largest number", () => {
  for (const { values, left: want } of DAMAGED) {
    const logits = logitsWith(values);
    applyTokenRules(logits, [ALL], SMALL);
    const isText = logits[4]! > Math.fround(LOWEST_LOGIT.f32);
    assert.equal(isText ? "text" : "times", want, JSON.stringify(Object.entries(values)));
  }
});

for (const elem of ["f32", "f16"] as const) {
  const ignore = elem === "f16" && !HAS_F16;
  kernelTest(`TokenRules treats NaN and infinity like its reference, in ${elem}`, async (gpu) => {
    const rules = DAMAGED.map(() => ALL);
    const logits = Float32Array.from(DAMAGED.flatMap(({ values }) => [...logitsWith(values)]));
    const typed = elem === "f16" ? new Float16Array(logits) : logits.slice();
    const buffer = upload(gpu, logits, elem);
    const kernel = new TokenRules(gpu, { ...SMALL, elem, maxRows: rules.length });
    const encode = (pass: GPUComputePassEncoder) => kernel.encode(pass, rules, buffer);
    const got = await runAndRead(gpu, encode, { buffer, length: logits.length, elem });
    applyTokenRules(typed, rules, SMALL);
    assert.deepEqual([...got], [...Float32Array.from(typed)]);
    kernel.dispose();
    buffer.destroy();
  }, { ignore });

  kernelTest(`TokenRules changes logits like its reference, in ${elem}`, async (gpu) => {
    const options: TokenRulesOptions = {
      vocabSize: 2285,
      endToken: 768,
      timestampsStart: 783,
      plainTokens: Uint32Array.from({ length: 72 }, (_, word) => word < 24 ? 0xfffffffb : 0),
    };
    const rules: (TokenRule | undefined)[] = [
      { allowsText: true, allowsEnd: true, firstTimestamp: 783, lastTimestamp: 2284 },
      { allowsText: false, allowsEnd: false, firstTimestamp: 783, lastTimestamp: 833 },
      { allowsText: true, allowsEnd: true, firstTimestamp: 2285, lastTimestamp: 2284 },
      { allowsText: false, allowsEnd: true, firstTimestamp: 1000, lastTimestamp: 2284 },
      { allowsText: true, allowsEnd: true, firstTimestamp: 2284, lastTimestamp: 2284 },
      undefined,
    ];
    let state = 1;
    const logits = Float32Array.from({ length: rules.length * options.vocabSize }, () => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return state / 2 ** 32 * 4;
    });
    logits[4 * options.vocabSize + 5] = 40;
    const typed = elem === "f16" ? new Float16Array(logits) : logits.slice();
    const buffer = upload(gpu, logits, elem);
    const kernel = new TokenRules(gpu, { ...options, elem, maxRows: rules.length });
    const got = await runAndRead(gpu, (pass) => kernel.encode(pass, rules, buffer), {
      buffer,
      length: logits.length,
      elem,
    });
    applyTokenRules(typed, rules, options);
    assertClose(got, typed, { abs: 0, rel: 0 });
    kernel.dispose();
    buffer.destroy();
  }, { ignore });
}
