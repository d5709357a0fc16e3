import assert from "node:assert/strict";
import type { Decoder, DecoderLimits, StepBatch } from "../../../src/decoder/decoder.ts";
import { warmUp } from "../../../src/engine/generate.ts";

const LIMITS: DecoderLimits = {
  contextLength: 64,
  vocabSize: 10,
  maxSequences: 1,
  maxBatchTokens: 16,
  numBlocks: 4,
  blockSize: 16,
  sharesBlocks: false,
};

/** Records the sizes of its steps, and may fail at one of them. */
class NotingDecoder implements Decoder {
  readonly steps: number[] = [];
  readonly limits: DecoderLimits;
  readonly #failsAt: number;

  constructor(
    { failsAt = Infinity, ...limits }: Partial<DecoderLimits> & { failsAt?: number } = {},
  ) {
    this.limits = { ...LIMITS, ...limits };
    this.#failsAt = failsAt;
  }

  run({ numTokens, sequences, tokenIds }: StepBatch) {
    this.steps.push(numTokens);
    assert.ok(tokenIds.subarray(0, numTokens).every((id) => id < this.limits.vocabSize));
    if (this.steps.length === this.#failsAt) return Promise.reject(new Error("no such kernel"));
    const sampled = sequences.filter(({ sample }) => sample !== undefined);
    return Promise.resolve(sampled.map(() => ({ tokenId: 1, logprob: 0, top: [] })));
  }

  dispose(): Promise<void> {
    return Promise.resolve();
  }
}

Deno.test("warmUp() runs prompts and next tokens, or only next tokens if the context is too short for a prompt", async () => {
  const decoder = new NotingDecoder();
  await warmUp(decoder);
  assert.deepEqual(decoder.steps, [16, 8, 1, 1]);
  const short = new NotingDecoder({ contextLength: 3 });
  await warmUp(short);
  assert.deepEqual(short.steps, [1, 1]);
});

Deno.test("warmUp() rethrows the decoder's errors", async () => {
  await assert.rejects(warmUp(new NotingDecoder({ failsAt: 3 })), /no such kernel/);
});
