import assert from "node:assert/strict";
import {
  computeCausalMask,
  findSlopes,
  type MaskReader,
  proveMask,
  readVisibility,
} from "../../../src/graph/attention/attention_mask.ts";
import type { Lengths } from "../../../src/graph/probes.ts";

/** Makes a mask from a function of query and key positions, counted from the sequence's start. */
function makeMask(sees: (query: number, key: number) => boolean): MaskReader {
  return ({ pastLength, numTokens }) => {
    const total = pastLength + numTokens;
    return Uint8Array.from(
      { length: numTokens * total },
      (_, i) => sees(pastLength + Math.floor(i / total), i % total) ? 1 : 0,
    );
  };
}

const windowed = (window: number) => makeMask((query, key) => key <= query && key > query - window);

Deno.test("proveMask() finds no window in a causal mask", () => {
  assert.deepEqual(proveMask(computeCausalMask, 5000, "it"), {
    localWindow: undefined,
    maxPositions: 5000,
  });
});

Deno.test("proveMask() finds every window shorter than the context", () => {
  for (const window of [1, 2, 3, 5, 8, 100, 4095]) {
    assert.equal(proveMask(windowed(window), 4096, "it").localWindow, window);
  }
});

Deno.test("proveMask() finds no window if it is as long as the context", () => {
  for (const window of [4096, 5000]) {
    assert.equal(proveMask(windowed(window), 4096, "it").localWindow, undefined);
  }
});

Deno.test("proveMask() reports the length up to which a mask could be computed", () => {
  for (const limit of [3, 4, 256, 999]) {
    const limited: MaskReader = (lengths) =>
      lengths.pastLength + lengths.numTokens <= limit ? computeCausalMask(lengths) : undefined;
    assert.deepEqual(proveMask(limited, 1000, "it"), {
      localWindow: undefined,
      maxPositions: limit,
    });
  }
});

Deno.test("proveMask() accepts a mask that is unknown for chunks, but not one that is unknown for prompts", () => {
  const noChunks: MaskReader = (lengths) =>
    lengths.pastLength > 0 && lengths.numTokens > 1 ? undefined : computeCausalMask(lengths);
  assert.equal(proveMask(noChunks, 100, "it").maxPositions, 100);
  const noPrompts: MaskReader = (lengths) =>
    lengths.pastLength === 0 && lengths.numTokens > 1 ? undefined : computeCausalMask(lengths);
  assert.throws(() => proveMask(noPrompts, 100, "it"), /mask of it cannot be computed/);
});

const OTHER_MASKS: Readonly<Record<string, (query: number, key: number) => boolean>> = {
  "the future": () => true,
  "one token ahead": (query, key) => key <= query + 1,
  "all but itself": (query, key) => key < query,
  "every other key": (query, key) => key <= query && (query - key) % 2 === 0,
  "a sink in addition to a window": (query, key) => key <= query && (key === 0 || key > query - 3),
  "chunks of four": (query, key) => key <= query && Math.floor(key / 4) === Math.floor(query / 4),
  "a window that grows": (query, key) => key <= query && key >= query / 2,
};

for (const [what, sees] of Object.entries(OTHER_MASKS)) {
  Deno.test(`proveMask() refuses a mask that shows ${what}`, () => {
    assert.throws(() => proveMask(makeMask(sees), 100, "it"), { name: "Refusal" });
  });
}

const lengths: Lengths = { pastLength: 1, numTokens: 2 };

Deno.test("readVisibility() reads masks by their type and broadcasts rows", () => {
  const bool = { dtype: "bool", shape: [1, 1, 1, 3], data: Float64Array.of(1, 0, 1) } as const;
  assert.deepEqual(readVisibility(bool, lengths, "it"), Uint8Array.of(1, 0, 1, 1, 0, 1));
  const hidden = [-10000, -65504, -3.4e38, -Infinity];
  for (const low of hidden) {
    const additive = {
      dtype: "float32",
      shape: [2, 3],
      data: Float64Array.of(0, 0, low, 0, 0, 0),
    } as const;
    assert.deepEqual(readVisibility(additive, lengths, "it"), Uint8Array.of(1, 1, 0, 1, 1, 1));
  }
});

Deno.test("readVisibility() refuses biases and masks that differ by head", () => {
  const bias = {
    dtype: "float32",
    shape: [2, 3],
    data: Float64Array.of(0, -1, -2, 0, -1, -2),
  } as const;
  assert.throws(() => readVisibility(bias, lengths, "it"), /adds -1 to a score/);
  const data = Float64Array.of(1, 1, 1, 1, 0, 1);
  const byHead = { dtype: "bool", shape: [2, 1, 3], data } as const;
  assert.throws(() => readVisibility(byHead, lengths, "it"), /differs from head to head/);
});

/** Makes a causal mask with each head's bias by distance, plus a number for each whole row. */
function makeBias(rowTerm: (row: number) => number, slopes = [-0.5, 0.25]) {
  const [past, total] = [lengths.pastLength, lengths.pastLength + lengths.numTokens];
  const data = slopes.flatMap((slope) =>
    Array.from({ length: lengths.numTokens * total }, (_, i) => {
      const [row, column] = [Math.floor(i / total), i % total];
      return column > past + row ? -3.4e38 : slope * (column - past - row) + rowTerm(row);
    })
  );
  const shape = [1, slopes.length, lengths.numTokens, total];
  return { dtype: "float32", shape, data: Float64Array.from(data) } as const;
}

Deno.test("findSlopes() and readVisibility() read ALiBi, whatever it adds to whole rows", () => {
  for (const rowTerm of [() => 0, () => 50_000, (row: number) => -3 * row]) {
    const bias = makeBias(rowTerm);
    const slopes = findSlopes(bias, lengths);
    assert.deepEqual(slopes, [-0.5, 0.25]);
    assert.deepEqual(readVisibility(bias, lengths, "it", slopes), computeCausalMask(lengths));
  }
});

Deno.test("readVisibility() reads distant keys as visible, though their bias is as low as that of hidden ones", () => {
  const slopes = [20_000];
  const bias = makeBias(() => 0, slopes);
  assert.deepEqual(readVisibility(bias, lengths, "it", slopes), computeCausalMask(lengths));
});

Deno.test("findSlopes() finds none in masks and in windows of one key", () => {
  const hidden = makeBias(() => 0, [0, 0]);
  const one = { dtype: "bool", shape: [1, 3], data: Float64Array.of(0, 0, 1) } as const;
  for (const mask of [hidden, one]) assert.equal(findSlopes(mask, lengths), undefined);
});

Deno.test("readVisibility() returns undefined for masks of other sizes or without elements", () => {
  const short = { dtype: "bool", shape: [2, 2], data: Float64Array.of(1, 1, 1, 1) } as const;
  assert.equal(readVisibility(short, lengths, "it"), undefined);
  assert.equal(readVisibility({ dtype: "bool", shape: [2, 3] }, lengths, "it"), undefined);
});
