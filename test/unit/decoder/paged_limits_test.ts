import assert from "node:assert/strict";
import { choosePagedLimits, type PagedLimitsOptions } from "../../../src/decoder/paged_limits.ts";
import { StartupError } from "../../../src/errors.ts";
import type { AttentionSite, GraphCut } from "../../../src/onnx/graph_cut.ts";

/** 28 layers of 8 KV heads of 128, as Qwen3-0.6B has them: 112 KiB a token in f16. */
function cutOf(maxPositions?: number): GraphCut {
  const site = { kvHeads: 8, headDim: 128, vHeadDim: 128, dtype: "float16" } as AttentionSite;
  return {
    attentions: Array.from({ length: 28 }, () => site),
    states: [],
    output: { width: 151_936 },
    maxPositions,
  } as unknown as GraphCut;
}

const OPTIONS: PagedLimitsOptions = {
  contextLength: 40_960,
  settings: { prefixCache: true },
  maxBufferBytes: 2 ** 31,
  elementBytes: () => 2,
};

Deno.test("choosePagedLimits() fills the KV cache it is given and no more", () => {
  const { numBlocks } = choosePagedLimits(cutOf(), {
    ...OPTIONS,
    settings: { prefixCache: true, kvCacheMb: 1792 },
  });
  assert.equal(numBlocks * 16 * 112 * 1024, 1792 * 2 ** 20);
});

Deno.test("choosePagedLimits() never makes a buffer larger than the device's", () => {
  const { numBlocks } = choosePagedLimits(cutOf(), { ...OPTIONS, maxBufferBytes: 2 ** 20 });
  assert.equal(numBlocks * 16 * 8 * 128 * 2, 2 ** 20);
});

Deno.test("choosePagedLimits() makes the pool no larger than full contexts would fill", () => {
  const { numBlocks } = choosePagedLimits(cutOf(), {
    ...OPTIONS,
    contextLength: 256,
    settings: { prefixCache: true, maxSequences: 4 },
  });
  assert.equal(numBlocks, 4 * 256 / 16);
});

Deno.test("choosePagedLimits() lowers the context to what the graph's tables and the pool hold", () => {
  assert.equal(choosePagedLimits(cutOf(512), OPTIONS).contextLength, 512);
  const { contextLength, numBlocks } = choosePagedLimits(cutOf(), OPTIONS);
  assert.equal(contextLength, numBlocks * 16);
});

Deno.test("choosePagedLimits() refuses a cache that holds no block, with the sizes", () => {
  assert.throws(
    () => choosePagedLimits(cutOf(), { ...OPTIONS, settings: { prefixCache: true, kvCacheMb: 1 } }),
    (error: Error) =>
      error instanceof StartupError && error.setting === "kvCacheMb" &&
      /1 MiB.*1835008 bytes/.test(error.message),
  );
});
