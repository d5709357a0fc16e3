/**
 * Layers that see only the last tokens: the blocks that sequences hold, and the position from which a prefix continues.
 */
import assert from "node:assert/strict";
import { BlockManager } from "../../../src/engine/blocks.ts";
import { Scheduler } from "../../../src/engine/scheduler.ts";
import type { Sequence } from "../../../src/engine/sequence.ts";
import { countFrom, makeSequence } from "./make_sequence.ts";
import { GREEDY, makeLimits, VOCAB_SIZE } from "./simulated_decoder.ts";

const BLOCK_SIZE = 4;
/** A token sees itself and the previous six. */
const WINDOW = 7;

function makeBlocks(numWindowBlocks: number): BlockManager {
  const windows = [{ window: WINDOW, numBlocks: numWindowBlocks }];
  return new BlockManager({
    ...{ numBlocks: 64, blockSize: BLOCK_SIZE, sharesBlocks: true, maxBatchTokens: 8, windows },
  });
}

/** Computes a sequence's tokens, eight per step. */
function compute(blocks: BlockManager, sequence: Sequence): Sequence {
  assert(blocks.admit(sequence, 0));
  while (sequence.numComputed < sequence.length) {
    const end = Math.min(sequence.numComputed + 8, sequence.length);
    assert(blocks.grow(sequence, end));
    sequence.numComputed = end;
    blocks.commit(sequence);
  }
  return sequence;
}

/** Lists the indices of the blocks that a sequence holds. */
function heldBy({ windowTables: [table] }: Sequence): number[] {
  const { first, blockIds } = table!;
  return Array.from({ length: blockIds.length - first }, (_, i) => first + i);
}

Deno.test("BlockManager.commit() keeps the blocks that a sequence's next token sees", () => {
  const blocks = makeBlocks(16);
  const sequence = compute(blocks, makeSequence(countFrom(0, 30)));
  // Token 30 sees 24 to 30.
  assert.deepEqual(heldBy(sequence), [6, 7]);
  assert.equal(sequence.blockIds.length, 8);
  const { numUsedBlocks, numCachedBlocks } = blocks.stats().windows[0]!;
  assert.deepEqual([numUsedBlocks, numCachedBlocks], [2, 6]);
});

Deno.test("BlockManager.admit() continues a prefix with only the blocks of its window", () => {
  const blocks = makeBlocks(16);
  blocks.release(compute(blocks, makeSequence(countFrom(0, 30))));
  const next = makeSequence([...countFrom(0, 28), 99, 98]);
  assert(blocks.admit(next, 0));
  assert.equal(next.numComputed, 28);
  // Token 28 sees 22 to 28.
  assert.deepEqual(heldBy(next), [5, 6]);
});

Deno.test("BlockManager.admit() reuses a tail with the window before it", () => {
  const blocks = makeBlocks(16);
  blocks.release(compute(blocks, makeSequence(countFrom(0, 30))));
  const next = makeSequence([...countFrom(0, 30), 99, 98]);
  assert(blocks.admit(next, 0));
  assert.equal(next.numComputed, 30);
  assert.deepEqual(heldBy(next), [6, 7]);
});

Deno.test("BlockManager.admit() goes back to a position whose whole window is cached", () => {
  // A step of eight tokens and its window need at most five blocks.
  const blocks = makeBlocks(6);
  blocks.release(compute(blocks, makeSequence(countFrom(0, 30))));
  const end = makeSequence([...countFrom(0, 28), 99]);
  assert.deepEqual(blocks.countNeeds(end)[1], { numBlocks: 3, numFound: 2 });
  // After 12 tokens, only the main pool's blocks are still cached: those of the window were reused.
  const middle = makeSequence([...countFrom(0, 12), 99]);
  assert(blocks.admit(middle, 0));
  assert.equal(middle.numComputed, 0);
  assert.deepEqual(heldBy(middle), []);
});

Deno.test("BlockManager.admit() waits for blocks of a window while other sequences hold them", () => {
  const blocks = makeBlocks(5);
  const first = compute(blocks, makeSequence(countFrom(0, 30)));
  const second = makeSequence(countFrom(100, 30));
  assert(!blocks.admit(second, 0));
  assert.equal(second.blockIds.length, 0);
  blocks.release(first);
  assert(blocks.admit(second, 0));
});

Deno.test("BlockManager lets sequences share the blocks of a window, and frees them after the last", () => {
  const blocks = makeBlocks(16);
  const [one, two] = [0, 1].map(() => makeSequence(countFrom(0, 21)));
  compute(blocks, one!);
  compute(blocks, two!);
  const getIds = ({ windowTables: [table] }: Sequence) => table!.blockIds.view(table!.first);
  // Token 21 sees 15 to 21: blocks 3 and 4 are shared, and each sequence has its own block 5.
  assert.deepEqual([...getIds(one!)].slice(0, 2), [...getIds(two!)].slice(0, 2));
  assert.notEqual(getIds(one!).at(-1), getIds(two!).at(-1));
  assert.equal(blocks.stats().windows[0]!.numUsedBlocks, 4);
  blocks.release(one!);
  assert.equal(blocks.stats().windows[0]!.numUsedBlocks, 3);
  blocks.release(two!);
  assert.equal(blocks.stats().windows[0]!.numUsedBlocks, 0);
});

Deno.test("BlockManager.resize() of a window's pool refuses to drop blocks in use", () => {
  const blocks = makeBlocks(16);
  const sequence = compute(blocks, makeSequence(countFrom(0, 30)));
  assert(!blocks.resize(1, 1));
  blocks.release(sequence);
  assert(blocks.resize(5, 1));
  const { numUsedBlocks, numCachedBlocks, numFreeBlocks } = blocks.stats().windows[0]!;
  assert.deepEqual([numUsedBlocks, numCachedBlocks + numFreeBlocks], [0, 5]);
});

Deno.test("Scheduler lets a request of 2,000 tokens hold only the blocks of its window and of a step's tokens", () => {
  const window = 40;
  const maxBatchTokens = 64;
  const limits = makeLimits({
    ...{ contextLength: 4096, blockSize: 16, numBlocks: 256, maxBatchTokens },
    windows: [{ window, numBlocks: 256 }],
  });
  const scheduler = new Scheduler(limits, { prefixCache: true });
  const promptTokens = Int32Array.from({ length: 2000 }, (_, i) => i % VOCAB_SIZE);
  scheduler.add({ promptTokens, samples: [GREEDY], maxTokens: 50 });
  let [mostInPrompt, mostInAnswer] = [0, 0];
  for (let i = 0; i < 80; i++) {
    const step = scheduler.schedule()!;
    const { numUsedBlocks, windows } = scheduler.stats();
    assert.ok(numUsedBlocks >= 125);
    const held = windows[0]!.numUsedBlocks;
    if (step.numNextTokens > 0) mostInAnswer = Math.max(mostInAnswer, held);
    else mostInPrompt = Math.max(mostInPrompt, held);
    scheduler.commit(
      step,
      step.scheduled.flatMap(({ samples }) => samples ? [{ tokenId: 1, logprob: 0, top: [] }] : []),
    );
  }
  // A prompt step holds its 64 tokens and the 39 before them; a decode step its token and the 39 before it.
  assert.deepEqual([mostInPrompt, mostInAnswer], [7, 4]);
});
