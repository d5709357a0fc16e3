import assert from "node:assert/strict";
import type { SamplingParams, TokenAdjustments } from "../../../src/decoder/decoder.ts";
import { SamplingState } from "../../../src/engine/sampling_state.ts";
import { Random } from "./random.ts";
import { GREEDY } from "./simulated_decoder.ts";

interface Entry {
  completionCount: number;
  inContext: number;
  bias: number;
}

function makeState(
  prompt: readonly number[],
  params: Partial<SamplingParams>,
  logitBias?: ReadonlyMap<number, number>,
): SamplingState {
  return new SamplingState(Int32Array.from(prompt), {
    params: { ...GREEDY, ...params },
    logitBias,
    topLogprobs: 0,
  });
}

function makeEntries(adjustments: TokenAdjustments | undefined): Map<number, Entry> {
  assert(adjustments !== undefined);
  const entries = new Map<number, Entry>();
  for (let i = 0; i < adjustments.length; i++) {
    const tokenId = adjustments.tokenIds[i]!;
    assert(!entries.has(tokenId), `token ${tokenId} is listed twice`);
    entries.set(tokenId, {
      completionCount: adjustments.completionCounts[i]!,
      inContext: adjustments.inContext[i]!,
      bias: adjustments.bias[i]!,
    });
  }
  return entries;
}

Deno.test("SamplingState.adjustments is undefined without penalties and biases", () => {
  const state = makeState([1, 2, 3], { temperature: 1, topK: 5, topP: 0.5, minP: 0.1, seed: 3 });
  state.push(4);
  assert.equal(state.adjustments, undefined);
  assert.equal(makeState([1], {}, new Map()).adjustments, undefined);
});

Deno.test("SamplingState lists only completion tokens for a frequency or presence penalty", () => {
  for (const params of [{ frequencyPenalty: 0.5 }, { presencePenalty: -1 }]) {
    const state = makeState([1, 2], params);
    assert.equal(makeEntries(state.adjustments).size, 0);
    for (const tokenId of [2, 9, 9]) state.push(tokenId);
    assert.deepEqual([...makeEntries(state.adjustments)], [
      [2, { completionCount: 1, inContext: 1, bias: 0 }],
      [9, { completionCount: 2, inContext: 1, bias: 0 }],
    ]);
  }
});

Deno.test("SamplingState also lists prompt tokens for a repetition penalty", () => {
  const state = makeState([1, 2, 1], { repetitionPenalty: 1.2 });
  state.push(2);
  assert.deepEqual([...makeEntries(state.adjustments)], [
    [1, { completionCount: 0, inContext: 1, bias: 0 }],
    [2, { completionCount: 1, inContext: 1, bias: 0 }],
  ]);
});

Deno.test("SamplingState lists only biased tokens for a bias, and whether they are in context", () => {
  const state = makeState([1, 2], {}, new Map([[2, 5], [3, -100], [4, 1]]));
  for (const tokenId of [3, 8]) state.push(tokenId);
  assert.deepEqual([...makeEntries(state.adjustments)], [
    [2, { completionCount: 0, inContext: 1, bias: 5 }],
    [3, { completionCount: 1, inContext: 1, bias: -100 }],
    [4, { completionCount: 0, inContext: 0, bias: 1 }],
  ]);
});

Deno.test("SamplingState stays correct over a long random completion", () => {
  const random = new Random(2);
  const prompt = Array.from({ length: 300 }, () => random.between(0, 999));
  const bias = new Map(Array.from({ length: 50 }, (_, i) => [i * 31, i - 25]));
  const state = makeState(prompt, { repetitionPenalty: 1.1, frequencyPenalty: 1 }, bias);
  const expected = new Map<number, Entry>();
  const makeEntry = (tokenId: number) => {
    const entry = expected.get(tokenId) ?? { completionCount: 0, inContext: 0, bias: 0 };
    expected.set(tokenId, entry);
    return entry;
  };
  for (const [tokenId, value] of bias) makeEntry(tokenId).bias = value;
  for (const tokenId of prompt) makeEntry(tokenId).inContext = 1;
  for (let i = 0; i < 2000; i++) {
    const tokenId = random.between(0, 999);
    state.push(tokenId);
    const entry = makeEntry(tokenId);
    entry.inContext = 1;
    entry.completionCount++;
  }
  assert.equal(state.tokenIndex, 2000);
  assert.deepEqual(makeEntries(state.adjustments), expected);
});

Deno.test("SamplingState forbids end tokens until a completion has its minimum length", () => {
  const [plainEnd, biasedEnd, other] = [5, 6, 7];
  for (const minTokens of [0, 1, 3]) {
    const state = new SamplingState(Int32Array.of(1, plainEnd), {
      params: GREEDY,
      logitBias: new Map([[biasedEnd, 2]]),
      minTokens,
      endTokenIds: [plainEnd, biasedEnd],
    });
    for (let numTokens = 0; numTokens < 5; numTokens++) {
      const entries = makeEntries(state.adjustments);
      const makeBias = (tokenId: number) => entries.get(tokenId)?.bias ?? 0;
      const isTooEarly = numTokens < minTokens;
      assert.equal(makeBias(plainEnd), isTooEarly ? -Infinity : 0);
      assert.equal(makeBias(biasedEnd), isTooEarly ? -Infinity : 2);
      assert.equal(makeBias(other), 0);
      state.push(other);
    }
  }
});

Deno.test("SamplingState allows no token once its grammar has failed, and keeps the reason", () => {
  const failure = new Error("a step takes too long");
  const fail = () => {
    throw failure;
  };
  for (
    const rules of [{ mask: undefined, accept: fail }, {
      get mask() {
        return fail();
      },
    }]
  ) {
    const state = new SamplingState(Int32Array.of(1), { params: GREEDY, rules });
    assert.equal(state.failure, undefined);
    assert.ok(state.mask === undefined || state.failure === failure);
    state.push(2);
    assert.ok(state.mask!.every((word) => word === 0));
    assert.equal(state.failure, failure);
  }
});

Deno.test("SamplingState.adjustments is the same object in every step", () => {
  const state = makeState([1], { frequencyPenalty: 1 });
  const { adjustments } = state;
  state.push(1);
  assert.equal(state.adjustments, adjustments);
  assert.equal(state.tokenIndex, 1);
});

Deno.test("SamplingState with a repetition window lists only tokens in that window as context", () => {
  const inContext = (state: SamplingState) => {
    const entries = [...makeEntries(state.adjustments)].filter(([, entry]) =>
      entry.inContext === 1
    );
    return new Set(entries.map(([tokenId]) => tokenId));
  };
  const prompt = [1, 2, 3, 2, 4];
  const random = new Random(5);
  for (const repetitionWindow of [1, 3, 5, 8]) {
    const state = makeState(prompt, { repetitionPenalty: 1.1, repetitionWindow });
    const tokens = [...prompt];
    for (let step = 0; step < 40; step++) {
      assert.deepEqual(inContext(state), new Set(tokens.slice(-repetitionWindow)));
      tokens.push(random.between(0, 6));
      state.push(tokens.at(-1)!);
    }
  }
  const unbounded = makeState(prompt, { repetitionPenalty: 1.1, repetitionWindow: Infinity });
  assert.deepEqual(inContext(unbounded), new Set(prompt));
});
