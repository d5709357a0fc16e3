import assert from "node:assert/strict";
import {
  choosePagedLimits,
  chooseStateSlots,
  type PagedLimitsOptions,
} from "../../../src/decoder/paged_limits.ts";
import { StartupError } from "../../../src/base/errors.ts";
import type { AttentionNode, GraphCut } from "../../../src/graph/graph_cut.ts";

/** 28 layers of 8 KV heads of 128, like Qwen3-0.6B: 112 KiB per token in f16. */
function makeCut(maxPositions?: number): GraphCut {
  const node = { kvHeads: 8, headDim: 128, vHeadDim: 128, dtype: "float16" } as AttentionNode;
  return {
    attentions: Array.from({ length: 28 }, () => node),
    states: [],
    output: { width: 151_936 },
    maxPositions,
  } as unknown as GraphCut;
}

/** Gemma 3 1B: 26 layers of one KV head of 256, of which 22 see 512 tokens; 26 KiB per token in f16. */
const GEMMA = {
  ...makeCut(),
  attentions: Array.from({ length: 26 }, (_, i) => ({
    ...{ kvHeads: 1, headDim: 256, vHeadDim: 256, dtype: "float16" },
    localWindow: i % 6 === 5 ? undefined : 512,
  })),
} as unknown as GraphCut;
const KIB = 1024;

const OPTIONS: PagedLimitsOptions = {
  contextLength: 40_960,
  settings: { prefixCache: true },
  maxBufferBytes: 2 ** 31,
  headBytes: (_, headSize) => 2 * headSize,
};

/** Bytes of a block: 16 tokens. */
const BLOCK_BYTES = 16 * 112 * 1024;

Deno.test("choosePagedLimits() starts with a small pool, which may grow until a buffer has its maximum size", () => {
  const limits = choosePagedLimits(makeCut(), OPTIONS);
  const { contextLength, numBlocks, roomyBlocks, maxBlocks, lengthLimit } = limits;
  assert.equal(contextLength, 40_960);
  assert.equal(lengthLimit, undefined);
  assert.equal(numBlocks, Math.floor(256 * 2 ** 20 / BLOCK_BYTES));
  assert.equal(roomyBlocks, Math.floor(2 ** 30 / BLOCK_BYTES));
  // A buffer of 2 GiB holds the keys of a million tokens.
  assert.equal(maxBlocks, 2 ** 31 / (16 * 8 * 128 * 2));
});

Deno.test("choosePagedLimits() lets the pool grow only to the given memory", () => {
  const { numBlocks, roomyBlocks, maxBlocks, contextLength, lengthLimit } = choosePagedLimits(
    makeCut(),
    { ...OPTIONS, settings: { prefixCache: true, kvCacheMb: 1792 }, memoryBytes: 2 ** 20 },
  );
  assert.equal(maxBlocks! * BLOCK_BYTES, 1792 * 2 ** 20);
  assert.equal(roomyBlocks, maxBlocks);
  assert.ok(numBlocks < maxBlocks!);
  assert.deepEqual([contextLength, lengthLimit], [16_384, "kvCacheMb"]);
  const byMemory = choosePagedLimits(makeCut(), { ...OPTIONS, memoryBytes: 448 * 2 ** 20 });
  assert.deepEqual([byMemory.contextLength, byMemory.lengthLimit], [4096, "memory"]);
});

Deno.test("choosePagedLimits() never plans a buffer above the device's limit", () => {
  const limits = choosePagedLimits(makeCut(), { ...OPTIONS, maxBufferBytes: 2 ** 20 });
  assert.equal(limits.maxBlocks! * 16 * 8 * 128 * 2, 2 ** 20);
  assert.deepEqual([limits.contextLength, limits.lengthLimit], [512, "buffer"]);
});

Deno.test("choosePagedLimits() makes the pool no larger than full contexts would fill", () => {
  const { numBlocks, maxBlocks } = choosePagedLimits(makeCut(), {
    ...OPTIONS,
    contextLength: 256,
    settings: { prefixCache: true, maxSequences: 4 },
  });
  assert.deepEqual([numBlocks, maxBlocks], [4 * 256 / 16, 4 * 256 / 16]);
});

Deno.test("choosePagedLimits() limits the context to the requested length and the graph's tables", () => {
  const tables = choosePagedLimits(makeCut(512), OPTIONS);
  assert.deepEqual([tables.contextLength, tables.lengthLimit], [512, undefined]);
  const settings = { prefixCache: true, maxModelLength: 1000 };
  const asked = choosePagedLimits(makeCut(), { ...OPTIONS, settings });
  assert.deepEqual(
    [asked.contextLength, asked.modelLength, asked.lengthLimit],
    [1000, 40_960, "maxModelLength"],
  );
  const more = choosePagedLimits(makeCut(512), { ...OPTIONS, settings });
  assert.deepEqual([more.contextLength, more.lengthLimit], [512, undefined]);
});

Deno.test("choosePagedLimits() refuses a cache that holds no block, and names both sizes", () => {
  assert.throws(
    () =>
      choosePagedLimits(makeCut(), { ...OPTIONS, settings: { prefixCache: true, kvCacheMb: 1 } }),
    (error: Error) =>
      error instanceof StartupError && error.setting === "kvCacheMb" &&
      /1 MiB.*1835008 bytes/.test(error.message),
  );
});

Deno.test("choosePagedLimits() gives layers with a window a pool that holds the window for all sequences", () => {
  const { maxBlocks, windows, contextLength } = choosePagedLimits(GEMMA, {
    ...OPTIONS,
    contextLength: 32_768,
  });
  assert.equal(contextLength, 32_768);
  assert.equal(maxBlocks, 32 * 32_768 / 16);
  // Blocks for the 511 tokens before a step and its 512 tokens, if they begin in the middle of a block.
  assert.deepEqual(windows?.map(({ window, maxBlocks }) => [window, maxBlocks]), [
    [512, Math.max(32 * 65, Math.floor(2 ** 30 / (16 * 26 * KIB)))],
  ]);
});

Deno.test("choosePagedLimits() never exceeds the memory for keys and values", () => {
  for (const kvCacheMb of [8, 32, 64, 128, 256, 1024, 4096, 100_000]) {
    const settings = { prefixCache: true, kvCacheMb };
    const { maxBlocks, windows = [], numBlocks, contextLength } = choosePagedLimits(GEMMA, {
      ...{ ...OPTIONS, settings, contextLength: 32_768 },
    });
    const even = Math.floor(kvCacheMb * 2 ** 20 / (16 * 26 * KIB));
    const [window] = windows;
    const taken = window
      ? maxBlocks! * 16 * 4 * KIB + window.maxBlocks! * 16 * 22 * KIB
      : maxBlocks! * 16 * 26 * KIB;
    assert.ok(taken <= kvCacheMb * 2 ** 20, `${taken} bytes of ${kvCacheMb} MiB`);
    assert.ok(contextLength >= Math.min(32_768, even * 16), "the context is not shortened");
    assert.ok(numBlocks <= maxBlocks!);
    if (window) assert.ok(window.maxBlocks! >= Math.max(65, Math.min(even / 2 - 1, 32 * 65)));
    else assert.ok(even < 65, `${even} blocks are more than a window`);
  }
  // In one pool, 256 MiB would hold 10,080 tokens. With a second pool for the layers with a window,
  // they hold the whole context.
  const settings = { prefixCache: true, kvCacheMb: 256 };
  const limits = choosePagedLimits(GEMMA, { ...OPTIONS, settings, contextLength: 32_768 });
  assert.equal(limits.contextLength, 32_768);
});

Deno.test("choosePagedLimits() keeps all layers in one pool if the window is half of the context", () => {
  const limits = choosePagedLimits(GEMMA, { ...OPTIONS, contextLength: 1024 });
  assert.equal(limits.windows, undefined);
  assert.equal(limits.maxBlocks, 32 * 1024 / 16);
});

Deno.test("choosePagedLimits() counts no memory for a main pool without layers", () => {
  const attentions = GEMMA.attentions.map((node) => ({ ...node, localWindow: 512 }));
  const cut = { ...GEMMA, attentions } as GraphCut;
  const settings = { prefixCache: true, kvCacheMb: 64 };
  const limits = choosePagedLimits(cut, { ...OPTIONS, settings, contextLength: 32_768 });
  assert.deepEqual([limits.contextLength, limits.numBlocks], [32_768, 32 * 32_768 / 16]);
  assert.equal(limits.windows![0]!.maxBlocks, Math.floor(64 * 2 ** 20 / (16 * 26 * KIB)));
});

Deno.test("chooseStateSlots() has a slot for each sequence, and 4 to 128 saved states within 256 MiB", () => {
  // One MiB.
  const recurrence = { kind: "linear_attention", heads: 16, keyDim: 128, valueDim: 128 };
  const count = (numLayers: number, maxBufferBytes = 2 ** 31) => {
    const cut = { states: new Array(numLayers).fill({ recurrence }) } as Pick<GraphCut, "states">;
    return chooseStateSlots(cut, { maxSequences: 32, maxBufferBytes });
  };
  assert.deepEqual([0, 1, 24, 200].map((numLayers) => count(numLayers)), [
    ...[undefined, 32 + 128, 32 + 10, 32 + 4],
  ]);
  // The slots of a layer are in one buffer.
  assert.equal(count(24, 21 * 2 ** 20 - 1), 20);
});
