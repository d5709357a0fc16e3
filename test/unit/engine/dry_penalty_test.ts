import assert from "node:assert/strict";
import { DryPenalty } from "../../../src/engine/token_rules.ts";
import { SamplingState } from "../../../src/engine/sampling_state.ts";
import { GREEDY } from "./simulated_decoder.ts";
import { Random } from "./random.ts";

const NONE = () => false;
const USUAL = { multiplier: 0.8, base: 1.75, allowedLength: 2, isBreaker: NONE };

function getPenalties(tokens: readonly number[], options = {}): Record<number, number> {
  const found = new DryPenalty({ ...USUAL, ...options }).compute(Int32Array.from(tokens));
  return Object.fromEntries(
    [...found].map(([token, penalty]) => [token, Number(penalty.toFixed(6))]),
  );
}

Deno.test("DryPenalty.compute() penalises tokens that would continue a repetition, by its length", () => {
  assert.deepEqual(getPenalties([1, 2, 3, 1]), {}, "one token is no repetition");
  assert.deepEqual(getPenalties([1, 2, 3, 1, 2]), { 3: 0.8 });
  assert.deepEqual(getPenalties([1, 2, 3, 4, 1, 2, 3]), { 4: 1.4 });
  assert.deepEqual(getPenalties([1, 2, 3, 4, 1, 2, 3], { allowedLength: 3 }), { 4: 0.8 });
  // Each continuation has a penalty of its own. If two repetitions have the same continuation, the longer one counts.
  assert.deepEqual(getPenalties([9, 1, 2, 5, 8, 1, 2, 6, 9, 1, 2]), { 5: 1.4, 6: 0.8 });
  assert.deepEqual(getPenalties([9, 1, 2, 5, 1, 2, 5, 9, 1, 2]), { 5: 1.4 });
});

Deno.test("DryPenalty.compute() looks back over its window only, and not across breakers", () => {
  const tokens = [1, 2, 3, 9, 9, 9, 1, 2];
  assert.deepEqual(getPenalties(tokens), { 3: 0.8 });
  assert.deepEqual(getPenalties(tokens, { window: 7 }), {});
  assert.deepEqual(getPenalties(tokens, { window: 8 }), { 3: 0.8 });
  const isBreaker = (token: number) => token === 7;
  assert.deepEqual(getPenalties([1, 7, 2, 3, 4, 1, 7, 2, 3], { isBreaker }), { 4: 0.8 });
  assert.deepEqual(getPenalties([1, 7, 2, 3, 4, 1, 7, 2, 3]), { 4: 2.45 });
  assert.deepEqual(getPenalties([1, 2, 7, 1, 2], { isBreaker }), {}, "a breaker is not penalised");
  assert.deepEqual(getPenalties([1, 2, 3, 1, 7], { isBreaker }), {});
});

Deno.test("DryPenalty.compute() stays finite in a repetition of 5,000 tokens", () => {
  const { 1: penalty } = getPenalties(Array(5_000).fill(1));
  assert.ok(Number.isFinite(penalty) && penalty! > 1e37 && penalty! < 3.5e38);
  assert.deepEqual(getPenalties(Array(50).fill(1), { base: 1 }), { 1: 0.8 });
});

/** Applies the definition to each token and length. @returns the longest repetition that each token would continue. */
function naive(
  tokens: readonly number[],
  { allowedLength, isBreaker }: { allowedLength: number; isBreaker: (token: number) => boolean },
): Record<number, number> {
  const longest: Record<number, number> = {};
  for (const next of new Set(tokens)) {
    if (isBreaker(next)) continue;
    for (let n = allowedLength; n < tokens.length; n++) {
      const end = tokens.slice(-n);
      if (end.some(isBreaker)) break;
      const stood = tokens.some((token, at) =>
        token === next && at >= n && end.every((each, i) => each === tokens[at - n + i])
      );
      if (stood) longest[next] = n;
    }
  }
  return longest;
}

Deno.test("DryPenalty.compute() equals its definition, on 2,000 random sequences", () => {
  const random = new Random(5);
  let numPenalised = 0;
  for (let round = 0; round < 2_000; round++) {
    const tokens = Array.from({ length: random.between(1, 40) }, () => random.between(1, 4));
    const options = {
      allowedLength: random.between(1, 4),
      isBreaker: random.chance(0.5) ? (token: number) => token === 4 : NONE,
    };
    const lengths = naive(tokens, options);
    numPenalised += Object.keys(lengths).length;
    // With base 2 and multiplier 1, the penalty tells the length of the repetition.
    const found = getPenalties(tokens, { ...options, multiplier: 1, base: 2 });
    const read = Object.entries(found).map(([token, penalty]) =>
      [token, Math.log2(penalty) + options.allowedLength] as const
    );
    assert.deepEqual(Object.fromEntries(read), lengths, `${tokens}`);
  }
  assert.ok(numPenalised > 1_000);
});

Deno.test("SamplingState combines DRY penalties with the request's own biases", () => {
  const state = new SamplingState(Int32Array.of(1, 2, 3, 1), {
    params: GREEDY,
    logitBias: new Map([[3, 5]]),
    dry: USUAL,
  });
  const biases = () => {
    const { length, tokenIds, bias } = state.adjustments!;
    return Object.fromEntries(
      [...tokenIds.subarray(0, length)].map((id, i) => [id, Number(bias[i]!.toFixed(4))])
        .filter(([, bias]) => bias !== 0),
    );
  };
  assert.deepEqual(biases(), { 3: 5 });
  state.push(2);
  assert.deepEqual(biases(), { 3: 4.2 });
  state.push(3);
  assert.deepEqual(biases(), { 3: 5, 1: -1.4 });
  state.push(9);
  assert.deepEqual(biases(), { 3: 5 });
});
