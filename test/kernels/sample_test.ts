import assert from "node:assert/strict";
import { SampleKernel } from "../../kernels/sample/sample.ts";
import {
  NothingToSampleError,
  type SampledToken,
  type SampleRow,
  type SamplingParams,
} from "../../kernels/sample/sample_row.ts";
import { ReferenceSampler } from "../../kernels/sample/sample_reference.ts";
import type { GpuContext } from "../../src/gpu/device.ts";
import type { Elem } from "../../src/gpu/kernel.ts";
import { Readback } from "../../src/gpu/readback.ts";
import { kernelTest } from "../fixtures/engine/gpu.ts";
import {
  chiSquareDeviation,
  exactDistribution,
  makeAdjustments,
  makeMask,
  makeNormal,
  makeRow,
} from "./exact_sampling.ts";
import { upload } from "./tensors.ts";

/** Rows of logits on the device, and a sampler for them. */
class Bench {
  readonly #gpu: GpuContext;
  readonly #readback: Readback;
  readonly #logits: GPUBuffer;
  readonly #sampler: SampleKernel;

  private constructor(
    gpu: GpuContext,
    readback: Readback,
    logits: GPUBuffer,
    sampler: SampleKernel,
  ) {
    this.#gpu = gpu;
    this.#readback = readback;
    this.#logits = logits;
    this.#sampler = sampler;
  }

  /** Gives every row a copy of `logits`. */
  static async create(gpu: GpuContext, logits: Float32Array, maxRows: number, elem: Elem = "f32") {
    const { length } = logits;
    // The kernel reads four at a time, possibly beyond the end of the last row.
    const rows = new Float32Array(Math.ceil(length * maxRows / 8) * 8);
    for (let row = 0; row < maxRows; row++) rows.set(logits, row * length);
    return new Bench(
      gpu,
      await Readback.create(gpu, { maxBytes: maxRows * 168, slots: 1 }),
      upload(gpu, rows, elem),
      new SampleKernel(gpu, { vocabSize: length, rowStride: length, elem, maxRows }),
    );
  }

  async sample(rows: readonly SampleRow[]): Promise<SampledToken[]> {
    this.#sampler.write(rows);
    const encoder = this.#gpu.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    this.#sampler.encode(pass, this.#logits);
    pass.end();
    return this.#sampler.decode(await this.#readback.read(encoder, this.#sampler.results()));
  }

  dispose(): void {
    this.#readback.dispose();
    this.#sampler.dispose();
    this.#logits.destroy();
  }
}

/** Makes normally distributed logits with a few high ones, like those of a model. */
function makeLogits(vocabSize: number, seed = 1, elem: Elem = "f32"): Float32Array {
  const normal = makeNormal(seed);
  const logits = Float32Array.from({ length: vocabSize }, () => normal() * 2);
  for (let i = 0; i < 12; i++) logits[(i * 2971) % vocabSize]! += 5;
  return elem === "f16" ? logits.map((logit) => Math.f16round(logit)) : logits;
}

const ADJUSTED = {
  adjustments: makeAdjustments([
    [0, 3, 1, 0],
    [1, 0, 1, 0],
    [2, 0, 0, 3],
    [70, 1, 1, -2],
    [71, 2, 1, -100],
  ]),
};
const PENALTIES = { repetitionPenalty: 1.4, frequencyPenalty: 0.3, presencePenalty: 0.5 };

/** Parameters and other settings of a row. */
type Case = readonly [Partial<SamplingParams>, Partial<SampleRow>?];
const CASES: Record<string, Case> = {
  "temperature 1": [{ temperature: 1 }],
  "temperature 0.2": [{ temperature: 0.2 }],
  "top-k 5": [{ temperature: 1, topK: 5 }],
  "top-k longer than the kernel's list": [{ temperature: 1, topK: 290 }],
  "top-p 0.5": [{ temperature: 1, topP: 0.5 }],
  "top-p 0.98 at temperature 3": [{ temperature: 3, topP: 0.98 }],
  "min-p": [{ temperature: 1.5, minP: 0.05 }],
  "top-n-sigma": [{ temperature: 1.5, topNSigma: 1.5 }],
  "top-n-sigma, top-k, top-p and min-p": [{
    temperature: 2,
    topNSigma: 2,
    topK: 20,
    topP: 0.9,
    minP: 0.01,
  }],
  "top-n-sigma of the allowed tokens": [
    { temperature: 2, topNSigma: 1, ...PENALTIES },
    { ...ADJUSTED, mask: makeMask(300, (id) => id % 2 === 0) },
  ],
  "top-k and top-p": [{ temperature: 0.8, topK: 20, topP: 0.9 }],
  "top-k longer than the kernel's list, and top-p": [{ temperature: 2, topK: 280, topP: 0.8 }],
  "top-k, top-p and min-p": [{ temperature: 1.3, topK: 40, topP: 0.9, minP: 0.02 }],
  "mask": [{ temperature: 1, topP: 0.95 }, { mask: makeMask(300, (id) => id % 3 === 0) }],
  "penalties": [{ temperature: 1, ...PENALTIES }, ADJUSTED],
  "penalties, a mask, top-k and top-p": [
    { temperature: 1, topK: 30, topP: 0.9, ...PENALTIES },
    { ...ADJUSTED, mask: makeMask(300, (id) => id % 2 === 0) },
  ],
};

for (const [name, [params, rest]] of Object.entries(CASES)) {
  kernelTest(`SampleKernel draws from the exact distribution: ${name}`, async (gpu) => {
    const logits = makeLogits(300);
    const bench = await Bench.create(gpu, logits, 512);
    const counts = new Uint32Array(300);
    for (let round = 0; round < 3; round++) {
      const rows = Array.from(
        { length: 512 },
        (_, i) => makeRow({ ...params, seed: i }, { ...rest, tokenIndex: round }),
      );
      for (const { tokenId } of await bench.sample(rows)) counts[tokenId]!++;
    }
    bench.dispose();
    const distribution = exactDistribution(logits, makeRow(params, rest));
    const deviation = chiSquareDeviation(counts, distribution);
    assert.ok(deviation < 4.5, `chi-square is ${deviation.toFixed(2)} deviations above its mean`);
  });
}

/** Asserts that two samplers chose the same tokens; log-probabilities may differ by rounding. */
function assertSame(got: readonly SampledToken[], want: readonly SampledToken[]): void {
  const getIds = (tokens: readonly SampledToken[]) =>
    tokens.map((token) => [token.tokenId, ...token.top.map(({ tokenId }) => tokenId)]);
  assert.deepEqual(getIds(got), getIds(want));
  got.forEach((token, i) => {
    const pairs = [[token, want[i]!] as const, ...token.top.map((t, n) => [t, want[i]!.top[n]!])];
    for (const [a, b] of pairs) assert.ok(Math.abs(a!.logprob - b!.logprob) < 1e-4);
  });
}

for (
  const [vocabSize, elem] of [[300, "f32"], [2000, "f16"], [50257, "f16"], [
    262_144,
    "f32",
  ]] as const
) {
  kernelTest(
    `SampleKernel chooses the same tokens as its reference: ${vocabSize} logits in ${elem}`,
    async (gpu) => {
      const logits = makeLogits(vocabSize, 3, elem);
      const cases: Case[] = [...Object.values(CASES), [{}]];
      const bench = await Bench.create(gpu, logits, cases.length, elem);
      const reference = new ReferenceSampler(vocabSize);
      const repeated = new Float32Array(vocabSize * cases.length);
      for (let row = 0; row < cases.length; row++) repeated.set(logits, row * vocabSize);
      const everything = makeMask(vocabSize, (id) => id % 7 !== 1);
      for (let tokenIndex = 0; tokenIndex < (vocabSize > 10_000 ? 4 : 40); tokenIndex++) {
        const rows = cases.map(([params, rest = {}], i) => {
          const mask = rest.mask === undefined ? {} : { mask: everything };
          return makeRow({ seed: i, ...params }, {
            ...rest,
            ...mask,
            tokenIndex,
            topLogprobs: i % 5,
          });
        });
        assertSame(await bench.sample(rows), reference.sample(repeated, vocabSize, rows));
      }
      bench.dispose();
    },
  );
}

kernelTest("SampleKernel gives a row the same token in any batch", async (gpu) => {
  const logits = makeLogits(300);
  const bench = await Bench.create(gpu, logits, 40);
  const rows = Array.from(
    { length: 40 },
    (_, i) =>
      makeRow({ temperature: 1, seed: i % 5, topP: i % 2 ? 0.8 : 1 }, { tokenIndex: i % 7 }),
  );
  const together = await bench.sample(rows);
  for (const [i, row] of rows.entries()) {
    assert.deepEqual(await bench.sample([row]), [together[i]]);
  }
  bench.dispose();
});

kernelTest(
  "SampleKernel puts the lowest id first among equal logits, in greedy sampling and in top log-probabilities",
  async (gpu) => {
    // All tokens but three are equal: far below the best ones, or close to them.
    for (const rest of [-5, 1]) {
      const logits = new Float32Array(300).fill(rest);
      for (const id of [60, 20, 40]) logits[id] = 2;
      const bench = await Bench.create(gpu, logits, 1);
      assert.equal((await bench.sample([makeRow()]))[0]!.tokenId, 20);
      const [listed] = await bench.sample([makeRow({}, { topLogprobs: 5 })]);
      assert.deepEqual(listed!.top.map(({ tokenId }) => tokenId), [20, 40, 60, 0, 1]);
      bench.dispose();
    }
  },
);

kernelTest(
  "SampleKernel cuts ties by id, to exactly topK tokens and then to topP of them",
  async (gpu) => {
    for (const rest of [-5, 1]) {
      const logits = new Float32Array(300).fill(rest);
      for (const id of [60, 20, 40]) logits[id] = 2;
      const bench = await Bench.create(gpu, logits, 512);
      for (const [topK, topP] of [[2, 1], [5, 0.999], [150, 0.5], [150, 1], [0, 0.3]] as const) {
        const params = { temperature: 20, topK, topP };
        const counts = new Uint32Array(300);
        for (let tokenIndex = 0; tokenIndex < 2; tokenIndex++) {
          const rows = Array.from(
            { length: 512 },
            (_, seed) => makeRow({ ...params, seed }, { tokenIndex }),
          );
          for (const { tokenId } of await bench.sample(rows)) counts[tokenId]!++;
        }
        const deviation = chiSquareDeviation(counts, exactDistribution(logits, makeRow(params)));
        assert.ok(
          deviation < 4.5,
          `top-k ${topK}, top-p ${topP}: ${deviation.toFixed(2)} deviations`,
        );
      }
      bench.dispose();
    }
  },
);

kernelTest("SampleKernel ignores NaN and -infinity and accepts +infinity", async (gpu) => {
  const logits = new Float32Array(64).fill(-Infinity);
  logits.set([NaN, -Infinity, 1, Infinity]);
  const bench = await Bench.create(gpu, logits, 4);
  const mask = makeMask(64, (id) => id !== 3);
  const tokens = await bench.sample([
    makeRow(),
    makeRow({ temperature: 1 }),
    makeRow({}, { mask }),
    makeRow({ temperature: 1, topK: 3, topP: 0.5 }, { mask }),
  ]);
  assert.deepEqual(tokens.map(({ tokenId }) => tokenId), [3, 3, 2, 2]);
  bench.dispose();
});

kernelTest("SampleKernel.decode() names the rows without any allowed token", async (gpu) => {
  const bench = await Bench.create(gpu, makeLogits(300), 3);
  const nothing = { mask: makeMask(300, () => false) };
  await assert.rejects(
    bench.sample([makeRow({}, nothing), makeRow(), makeRow({ temperature: 1 }, nothing)]),
    (error) => error instanceof NothingToSampleError && String(error.rows) === "0,2",
  );
  bench.dispose();
});

kernelTest(
  "SampleKernel.write() enlarges its buffer for more adjusted tokens",
  async (gpu) => {
    const vocabSize = 20_000;
    const logits = makeLogits(vocabSize);
    const bench = await Bench.create(gpu, logits, 1);
    const adjustments = makeAdjustments(
      Array.from({ length: vocabSize - 1 }, (_, id) => [id, 1, 1, 0] as const),
    );
    const row = makeRow({ presencePenalty: 1000 }, { adjustments });
    assert.equal((await bench.sample([row]))[0]!.tokenId, vocabSize - 1);
    bench.dispose();
  },
);

kernelTest("SampleKernel ignores adjusted tokens beyond the logits", async (gpu) => {
  const logits = makeLogits(300);
  // The first token of a row lies directly after the last of the row before it.
  logits[0] = 20;
  const bench = await Bench.create(gpu, logits, 2);
  const adjustments = makeAdjustments([[300, 1, 1, 5], [319, 0, 1, 0], [2, 0, 1, 0]]);
  for (const params of [{}, { temperature: 1, topK: 5 }]) {
    const rows = [makeRow(params, { adjustments }), makeRow(params, { adjustments })];
    const repeated = Float32Array.of(...logits, ...logits);
    assertSame(
      await bench.sample(rows),
      new ReferenceSampler(300).sample(repeated, 300, rows).map((token) => ({ ...token, top: [] })),
    );
  }
  bench.dispose();
});

kernelTest("SampleKernel creates no device objects in a second step", async (gpu) => {
  const bench = await Bench.create(gpu, makeLogits(300), 2);
  const rows = [makeRow({ temperature: 1 }, ADJUSTED), makeRow({}, { topLogprobs: 3 })];
  await bench.sample(rows);
  const before = { ...gpu.counts };
  await bench.sample(rows);
  assert.deepEqual(gpu.counts, before);
  bench.dispose();
});

kernelTest("SampleKernel reports log-probabilities among the allowed tokens alone", async (gpu) => {
  const logits = makeLogits(2000);
  for (const allowed of [(id: number) => id % 800 === 7, (id: number) => id % 2 === 0]) {
    const bench = await Bench.create(gpu, logits, 1);
    const row = makeRow({}, { mask: makeMask(2000, allowed), topLogprobs: 5 });
    assertSame(await bench.sample([row]), new ReferenceSampler(2000).sample(logits, 2000, [row]));
    bench.dispose();
  }
});
