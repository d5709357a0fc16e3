import assert from "node:assert/strict";
import {
  NothingToSampleError,
  type SampledToken,
  type SamplingParams,
} from "../../kernels/sample/sample_row.ts";
import { ReferenceSampler } from "../../kernels/sample/sample_reference.ts";
import {
  adjustLogits,
  chiSquareDeviation,
  exactDistribution,
  makeAdjustments,
  makeMask,
  makeNormal,
  makeRow,
  PLAIN,
} from "./exact_sampling.ts";

const VOCAB_SIZE = 300;
const normal = makeNormal(1);
const LOGITS = Float32Array.from({ length: VOCAB_SIZE }, () => normal() * 2);

const CASES: Record<string, Partial<SamplingParams>> = {
  "temperature 1": { temperature: 1 },
  "temperature 0.3": { temperature: 0.3 },
  "temperature 2": { temperature: 2 },
  "top-k 5": { temperature: 1, topK: 5 },
  "top-k of 40": { temperature: 1, topK: 40 },
  "top-p 0.5": { temperature: 1, topP: 0.5 },
  "top-p 0.99": { temperature: 0.7, topP: 0.99 },
  "min-p 0.05": { temperature: 1, minP: 0.05 },
  "top-n-sigma 1": { temperature: 1.5, topNSigma: 1 },
  "top-n-sigma, top-k and top-p": { temperature: 2, topNSigma: 1.5, topK: 30, topP: 0.9 },
  "top-k and top-p": { temperature: 0.8, topK: 20, topP: 0.8 },
  "top-k of 200, and top-p": { temperature: 1.5, topK: 200, topP: 0.7 },
  "min-p, top-k and top-p": { temperature: 1.2, minP: 0.02, topK: 30, topP: 0.9 },
};

function countDraws(params: Partial<SamplingParams>, draws: number, rest = {}): Uint32Array {
  const sampler = new ReferenceSampler(VOCAB_SIZE);
  const counts = new Uint32Array(VOCAB_SIZE);
  for (let tokenIndex = 0; tokenIndex < draws; tokenIndex++) {
    const row = makeRow(params, { ...rest, tokenIndex });
    counts[sampler.sample(LOGITS, VOCAB_SIZE, [row])[0]!.tokenId]!++;
  }
  return counts;
}

for (const [name, params] of Object.entries(CASES)) {
  Deno.test(`ReferenceSampler.sample() draws from the exact distribution: ${name}`, () => {
    const counts = countDraws({ ...params, seed: 7 }, 20_000);
    const deviation = chiSquareDeviation(counts, exactDistribution(LOGITS, makeRow(params)));
    assert.ok(deviation < 4.5, `chi-square is ${deviation.toFixed(2)} deviations above its mean`);
  });
}

Deno.test("ReferenceSampler.sample() applies penalties, biases and mask before it draws", () => {
  const params = {
    temperature: 1,
    topK: 50,
    repetitionPenalty: 1.3,
    frequencyPenalty: 0.4,
    presencePenalty: -0.6,
  };
  const rest = {
    adjustments: makeAdjustments([[3, 2, 1, 0], [4, 0, 1, 0], [5, 0, 0, 4], [299, 1, 1, -100]]),
    mask: makeMask(VOCAB_SIZE, (id) => id % 3 !== 1),
  };
  const counts = countDraws({ ...params, seed: 9 }, 20_000, rest);
  const deviation = chiSquareDeviation(counts, exactDistribution(LOGITS, makeRow(params, rest)));
  assert.ok(deviation < 4.5, `chi-square is ${deviation.toFixed(2)} deviations above its mean`);
});

Deno.test("ReferenceSampler.sample() draws from the exact distribution when only the seed changes", () => {
  const sampler = new ReferenceSampler(VOCAB_SIZE);
  const counts = new Uint32Array(VOCAB_SIZE);
  for (let seed = 0; seed < 20_000; seed++) {
    const row = makeRow({ temperature: 1, seed });
    counts[sampler.sample(LOGITS, VOCAB_SIZE, [row])[0]!.tokenId]!++;
  }
  const distribution = exactDistribution(LOGITS, makeRow({ temperature: 1 }));
  assert.ok(chiSquareDeviation(counts, distribution) < 4.5);
});

Deno.test("ReferenceSampler.sample() chooses the lowest id among equal logits when greedy", () => {
  const logits = new Float32Array(VOCAB_SIZE).fill(-1);
  logits[70] = logits[71] = logits[250] = 3;
  const sampler = new ReferenceSampler(VOCAB_SIZE);
  assert.equal(sampler.sample(logits, VOCAB_SIZE, [makeRow()])[0]!.tokenId, 70);
});

Deno.test("ReferenceSampler.sample() keeps exactly topK tokens, the lowest ids of a tie", () => {
  const logits = new Float32Array(VOCAB_SIZE).fill(1);
  logits[200] = 2;
  const sampler = new ReferenceSampler(VOCAB_SIZE);
  for (const topP of [1, 0.999]) {
    const seen = new Set<number>();
    for (let tokenIndex = 0; tokenIndex < 400; tokenIndex++) {
      const row = makeRow({ temperature: 1, topK: 4, topP }, { tokenIndex });
      seen.add(sampler.sample(logits, VOCAB_SIZE, [row])[0]!.tokenId);
    }
    assert.deepEqual([...seen].sort((a, b) => a - b), [0, 1, 2, 200]);
  }
});

Deno.test("ReferenceSampler.sample() reports log-probabilities without biases", () => {
  const sampler = new ReferenceSampler(VOCAB_SIZE);
  const bias = makeAdjustments([[9, 0, 0, 100]]);
  const row = makeRow({}, { topLogprobs: 20, adjustments: bias });
  const [token] = sampler.sample(LOGITS, VOCAB_SIZE, [row]);
  const logSum = Math.log(LOGITS.reduce((sum, logit) => sum + Math.exp(logit), 0));
  assert.equal(token!.tokenId, 9);
  assert.ok(Math.abs(token!.logprob - (LOGITS[9]! - logSum)) < 1e-5);
  const order = [...LOGITS.keys()].sort((a, b) => LOGITS[b]! - LOGITS[a]!).slice(0, 20);
  assert.deepEqual(token!.top.map(({ tokenId }) => tokenId), order);
  for (const { tokenId, logprob } of token!.top) {
    assert.ok(Math.abs(logprob - (LOGITS[tokenId]! - logSum)) < 1e-5);
  }
});

Deno.test("ReferenceSampler.sample() chooses the same token if no log-probabilities are requested", () => {
  const sampler = new ReferenceSampler(VOCAB_SIZE);
  for (const params of Object.values({ greedy: { temperature: 0 }, ...CASES })) {
    const told = makeRow(params);
    const untold = { ...told, topLogprobs: undefined };
    const [with0, without] = sampler.sample(
      Float32Array.from([...LOGITS, ...LOGITS]),
      VOCAB_SIZE,
      [told, untold],
    );
    assert.deepEqual(without, { tokenId: with0!.tokenId, logprob: 0, top: [] });
  }
});

Deno.test("ReferenceSampler.sample() ignores NaN and -infinity and accepts +infinity", () => {
  const sampler = new ReferenceSampler(4);
  const logits = Float32Array.of(NaN, -Infinity, 1, Infinity);
  const mask = makeMask(4, (id) => id < 3);
  for (const temperature of [0, 1]) {
    assert.equal(sampler.sample(logits, 4, [makeRow({ temperature })])[0]!.tokenId, 3);
    assert.equal(sampler.sample(logits, 4, [makeRow({ temperature }, { mask })])[0]!.tokenId, 2);
  }
});

Deno.test("ReferenceSampler.sample() names the rows without any allowed token", () => {
  const sampler = new ReferenceSampler(2);
  const logits = Float32Array.of(NaN, NaN, 1, 2, 3, 4);
  const rows = [makeRow(), makeRow(), makeRow({}, { mask: makeMask(2, () => false) })];
  assert.throws(
    () => sampler.sample(logits, 2, rows),
    (error) => error instanceof NothingToSampleError && String(error.rows) === "0,2",
  );
});

Deno.test("ReferenceSampler.sample() gives a row the same token in any batch", () => {
  const sampler = new ReferenceSampler(VOCAB_SIZE);
  const rows = Array.from(
    { length: 50 },
    (_, i) => makeRow({ temperature: 1, seed: i % 7, topP: i % 2 ? 0.9 : 1 }, { tokenIndex: i }),
  );
  const logits = new Float32Array(50 * VOCAB_SIZE);
  rows.forEach((_, i) => logits.set(LOGITS, i * VOCAB_SIZE));
  const together = sampler.sample(logits, VOCAB_SIZE, rows);
  const alone = rows.map((row) =>
    new ReferenceSampler(VOCAB_SIZE).sample(LOGITS, VOCAB_SIZE, [row])[0]
  );
  assert.deepEqual(together, alone);
});

Deno.test("ReferenceSampler.sample() chooses only tokens that a plain sort keeps, in 300 random cases", () => {
  const random = makeNormal(5);
  const pick = <T>(...values: T[]) => values[Math.floor(Math.abs(random()) * 1e6) % values.length]!;
  for (let round = 0; round < 300; round++) {
    const vocabSize = pick(1, 5, 64, 65, 700);
    const sampler = new ReferenceSampler(vocabSize);
    // Coarse logits cause ties.
    const scale = pick(1, 4);
    const logits = new Float16Array(vocabSize).map(() => Math.round(random() * scale) / scale);
    const params = {
      ...PLAIN,
      temperature: pick(0.5, 1),
      topK: pick(0, 1, 3, 100),
      topP: pick(1, 0.9, 0.3),
      minP: pick(0, 0.1),
    };
    const distribution = exactDistribution(logits, makeRow(params));
    for (let tokenIndex = 0; tokenIndex < 20; tokenIndex++) {
      const [token] = sampler.sample(logits, vocabSize, [makeRow(params, { tokenIndex })]);
      assert.ok(distribution[token!.tokenId]! > 0, `round ${round} chose a token that is cut off`);
    }
    const greedy = sampler.sample(logits, vocabSize, [makeRow()])[0]!.tokenId;
    const values = adjustLogits(logits, makeRow());
    assert.equal(greedy, values.indexOf(Math.max(...values)));
  }
});

Deno.test("ReferenceSampler.sample() reports log-probabilities among the allowed tokens alone", () => {
  const mask = makeMask(VOCAB_SIZE, (id) => id % 100 === 7);
  const row = makeRow({}, { mask, topLogprobs: 5 });
  const [{ tokenId, logprob, top }] = new ReferenceSampler(VOCAB_SIZE)
    .sample(LOGITS, VOCAB_SIZE, [row]) as [SampledToken];
  assert.deepEqual(top.map((each) => each.tokenId).sort((a, b) => a - b), [7, 107, 207]);
  assert.deepEqual(top[0], { tokenId, logprob });
  assert.ok(Math.abs(top.reduce((sum, each) => sum + Math.exp(each.logprob), 0) - 1) < 1e-5);
});
