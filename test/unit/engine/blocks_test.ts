import assert from "node:assert/strict";
import { BlockManager } from "../../../src/engine/blocks.ts";
import type { Sequence } from "../../../src/engine/sequence.ts";
import { countFrom, makeSequence } from "./make_sequence.ts";

/** Admits a sequence, and commits its whole prompt at once. */
function compute(blocks: BlockManager, sequence: Sequence): Sequence {
  assert(blocks.admit(sequence, 0));
  sequence.numComputed = sequence.length;
  blocks.commit(sequence);
  return sequence;
}

function makeTable(sequence: Sequence): number[] {
  return [...sequence.blockIds.view()];
}

function makeBlocks(numBlocks: number, sharesBlocks = true): BlockManager {
  return new BlockManager({ numBlocks, blockSize: 4, sharesBlocks, maxBatchTokens: 64 });
}

Deno.test("BlockManager.admit() shares the full blocks of a common prefix and no others", () => {
  const blocks = makeBlocks(16);
  const first = compute(blocks, makeSequence([...countFrom(0, 10)]));
  const second = makeSequence([...countFrom(0, 9), 99, 98, 97, 96]);
  assert(blocks.admit(second, 0));
  assert.deepEqual(makeTable(second).slice(0, 2), makeTable(first).slice(0, 2));
  assert.equal(second.numComputed, 8);
  assert.equal(second.numCachedTokens, 8);
  assert.equal(second.blockIds.length, 4);
  assert.equal(new Set([...makeTable(first), ...makeTable(second)]).size, 5);
  const { numUsedBlocks, numPrefixQueryTokens, numPrefixHitTokens } = blocks.stats();
  assert.deepEqual([numUsedBlocks, numPrefixQueryTokens, numPrefixHitTokens], [5, 23, 8]);
});

Deno.test("BlockManager.admit() leaves the last token to compute if everything is cached", () => {
  const blocks = makeBlocks(16);
  compute(blocks, makeSequence(countFrom(0, 8)));
  const same = makeSequence(countFrom(0, 8));
  assert(blocks.admit(same, 0));
  assert.equal(same.numComputed, 4);
});

Deno.test("BlockManager.admit() finds a block only after the same preceding blocks", () => {
  const blocks = makeBlocks(16);
  compute(blocks, makeSequence([1, 1, 1, 1, 7, 7, 7, 7, 0]));
  for (const prompt of [[7, 7, 7, 7, 0], [2, 1, 1, 1, 7, 7, 7, 7, 0]]) {
    const sequence = makeSequence(prompt);
    assert(blocks.admit(sequence, 0));
    assert.equal(sequence.numComputed, 0);
  }
});

Deno.test("BlockManager.admit() changes nothing if there are too few blocks", () => {
  const blocks = makeBlocks(4);
  compute(blocks, makeSequence(countFrom(0, 8)));
  const before = blocks.stats();
  const tooLong = makeSequence(countFrom(0, 20));
  assert.equal(blocks.admit(tooLong, 0), false);
  assert.deepEqual(makeTable(tooLong), []);
  assert.deepEqual(blocks.stats(), before);
  const fits = makeSequence(countFrom(0, 16));
  assert.equal(blocks.admit(fits, 1), false, "a spare block was required");
  assert(blocks.admit(fits, 0));
});

Deno.test("BlockManager.admit() takes a cached block from the free ones only if no sequence uses it", () => {
  const blocks = makeBlocks(3);
  const first = compute(blocks, makeSequence(countFrom(0, 8)));
  const second = makeSequence(countFrom(0, 12));
  assert(blocks.admit(second, 0), "two blocks are in use already, one is free");
  blocks.release(second);
  blocks.release(first);
  assert(blocks.admit(makeSequence(countFrom(0, 12)), 0));
  assert.equal(blocks.admit(makeSequence(countFrom(50, 1)), 0), false);
});

Deno.test("BlockManager.commit() moves a sequence to another sequence's block with the same contents", () => {
  const blocks = makeBlocks(8);
  const sequences = [makeSequence(countFrom(0, 9)), makeSequence(countFrom(0, 9))];
  for (const sequence of sequences) assert(blocks.admit(sequence, 0));
  assert.equal(blocks.stats().numUsedBlocks, 6);
  for (const sequence of sequences) {
    sequence.numComputed = 9;
    blocks.commit(sequence);
  }
  assert.deepEqual(makeTable(sequences[1]!).slice(0, 2), makeTable(sequences[0]!).slice(0, 2));
  assert.notEqual(makeTable(sequences[1]!)[2], makeTable(sequences[0]!)[2]);
  const { numUsedBlocks, numCachedBlocks, numFreeBlocks } = blocks.stats();
  assert.deepEqual([numUsedBlocks, numCachedBlocks, numFreeBlocks], [4, 0, 4]);
});

Deno.test("BlockManager.commit() moves a sequence to an unused block with the same contents", () => {
  const blocks = makeBlocks(8);
  const [first, second] = [makeSequence(countFrom(0, 5)), makeSequence(countFrom(0, 5))];
  assert(blocks.admit(second, 0));
  const [cachedId] = makeTable(compute(blocks, first));
  blocks.release(first);
  second.numComputed = 5;
  blocks.commit(second);
  assert.equal(makeTable(second)[0], cachedId);
  const { numUsedBlocks, numCachedBlocks, numFreeBlocks } = blocks.stats();
  assert.deepEqual([numUsedBlocks, numCachedBlocks, numFreeBlocks], [2, 1, 5]);
});

Deno.test("BlockManager.release() keeps computed blocks in the index, including those of completions", () => {
  const blocks = makeBlocks(8);
  const chat = makeSequence(countFrom(0, 6));
  compute(blocks, chat);
  for (const tokenId of [6, 7, 8]) chat.push(tokenId);
  assert(blocks.grow(chat, 9));
  chat.numComputed = 9;
  blocks.commit(chat);
  blocks.release(chat);
  const { numUsedBlocks, numCachedBlocks, numFreeBlocks } = blocks.stats();
  assert.deepEqual([numUsedBlocks, numCachedBlocks, numFreeBlocks], [0, 3, 5]);
  const nextTurn = makeSequence(countFrom(0, 12));
  assert(blocks.admit(nextTurn, 0));
  assert.equal(nextTurn.numComputed, 9);
});

Deno.test("BlockManager.grow() reuses empty blocks first, then the least recently used, a sequence's later blocks before its earlier ones", () => {
  const blocks = makeBlocks(7);
  const [old, recent] = [makeSequence(countFrom(0, 9)), makeSequence(countFrom(50, 9))];
  compute(blocks, old);
  compute(blocks, recent);
  const [oldStart, oldEnd, oldRest] = makeTable(old);
  const [recentStart, recentEnd, recentRest] = makeTable(recent);
  blocks.release(old);
  blocks.release(recent);
  const other = makeSequence(countFrom(100, 1));
  assert(blocks.grow(other, 28));
  const [empty, ...others] = makeTable(other);
  assert(![...makeTable(old), ...makeTable(recent)].includes(empty!));
  assert.deepEqual(others, [oldRest, oldEnd, oldStart, recentRest, recentEnd, recentStart]);
  assert.equal(blocks.grow(other, 29), false);
  assert.equal(blocks.stats().numCachedBlocks, 0);
});

Deno.test("BlockManager.grow() removes only reused blocks from the index", () => {
  const blocks = makeBlocks(4);
  const sequence = compute(blocks, makeSequence(countFrom(0, 13)));
  blocks.release(sequence);
  const other = makeSequence([99]);
  assert(blocks.grow(other, 8));
  blocks.release(other);
  const again = makeSequence(countFrom(0, 13));
  assert(blocks.admit(again, 0));
  assert.equal(again.numComputed, 8);
});

Deno.test("BlockManager.admit() continues in the tail (the partly filled last block) of an ended sequence, up to the first different token", () => {
  for (
    const { prompt, numComputed } of [
      { prompt: countFrom(0, 11), numComputed: 10 },
      { prompt: countFrom(0, 30), numComputed: 11 },
      { prompt: [...countFrom(0, 9), 99, 98], numComputed: 9 },
      { prompt: [...countFrom(0, 8), 99, 98], numComputed: 8 },
      { prompt: countFrom(0, 9), numComputed: 8 },
      { prompt: [99, ...countFrom(1, 11)], numComputed: 0 },
    ]
  ) {
    const blocks = makeBlocks(16);
    const ended = compute(blocks, makeSequence(countFrom(0, 11)));
    const tailId = ended.blockIds.at(2);
    const sooner = makeSequence(prompt);
    assert(blocks.admit(sooner, 0));
    assert(!makeTable(sooner).includes(tailId), "a tail that is still written to is taken");
    blocks.release(sooner);
    blocks.release(ended);
    const next = makeSequence(prompt);
    assert(blocks.admit(next, 0));
    assert.equal(next.numComputed, numComputed);
    assert.equal(next.numCachedTokens, numComputed);
    assert.equal(makeTable(next).includes(tailId), numComputed > 8);
    assert.equal(next.blockIds.length, Math.ceil(prompt.length / 4));
    const rival = makeSequence(prompt);
    assert(blocks.admit(rival, 0));
    assert(rival.numComputed <= 8, "a tail is taken twice");
    for (const sequence of [next, rival]) blocks.release(sequence);
    assert.equal(blocks.stats().numUsedBlocks, 0);
  }
});

Deno.test("BlockManager.release() keeps the newest tail after a block, and counts the older one as free", () => {
  const blocks = makeBlocks(8);
  const sequences = [[...countFrom(0, 5)], [...countFrom(0, 4), 50, 51]].map((prompt) =>
    compute(blocks, makeSequence(prompt))
  );
  for (const sequence of sequences) blocks.release(sequence);
  const { numUsedBlocks, numCachedBlocks, numFreeBlocks } = blocks.stats();
  assert.deepEqual([numUsedBlocks, numCachedBlocks, numFreeBlocks], [0, 2, 6]);
  const next = makeSequence([...countFrom(0, 4), 50, 51, 52]);
  assert(blocks.admit(next, 0));
  assert.equal(next.numComputed, 6);
});

Deno.test("BlockManager does not reuse a tail that contains media", () => {
  const blocks = makeBlocks(16);
  const prompt = [1, 2, 3, 4, 5, 9, 9, 8];
  const withMedia = (key: string) => makeSequence(prompt, { media: [{ start: 5, end: 7, key }] });
  const run = (sequence: Sequence) => {
    assert(blocks.admit(sequence, 0));
    const { numComputed } = sequence;
    sequence.numComputed = 7;
    blocks.commit(sequence);
    blocks.release(sequence);
    return numComputed;
  };
  assert.deepEqual([run(withMedia("cat")), run(withMedia("dog"))], [0, 4]);
  assert.equal(run(makeSequence(prompt)), 4, "placeholders of media are taken for text");
  assert.equal(run(withMedia("cat")), 4, "text is taken for placeholders of media");
});

Deno.test("BlockManager reuses a tail of text between two media", () => {
  const blocks = makeBlocks(16);
  const media = [{ start: 1, end: 4, key: "cat" }, { start: 7, end: 9, key: "dog" }];
  const prompt = [1, 9, 9, 9, 5, 6, 7, 9, 9, 10];
  const ended = makeSequence(prompt, { media });
  assert(blocks.admit(ended, 0));
  ended.numComputed = 7;
  blocks.commit(ended);
  blocks.release(ended);
  const next = makeSequence(prompt, { media });
  assert(blocks.admit(next, 0));
  assert.equal(next.numComputed, 7);
});

Deno.test("BlockManager distinguishes prompts by the media of their placeholders, and by their positions", () => {
  const blocks = makeBlocks(32);
  const prompt = [1, 2, 3, 9, 9, 9, 9, 9, 4, 5, 6, 7, 8];
  const withMedia = (key: string, start = 3) => {
    const sequence = makeSequence(prompt, { media: [{ start, end: 8, key }] });
    assert(blocks.admit(sequence, 0));
    return sequence;
  };
  const cat = withMedia("cat");
  cat.numComputed = cat.length;
  blocks.commit(cat);
  assert.equal(withMedia("cat").numComputed, 12);
  assert.equal(withMedia("dog").numComputed, 0);
  assert.equal(withMedia("cat", 2).numComputed, 0);
  const text = makeSequence(prompt);
  assert(blocks.admit(text, 0));
  assert.equal(text.numComputed, 0);
});

Deno.test("BlockManager finds no prefix of another cache scope, and forget() empties a scope", () => {
  const blocks = makeBlocks(8);
  const prompt = countFrom(0, 9);
  const mine = compute(blocks, makeSequence(prompt, { cacheScope: 1 }));
  const others = makeSequence(prompt, { cacheScope: 2 });
  assert(blocks.admit(others, 0));
  assert.equal(others.numComputed, 0);
  const sibling = makeSequence(prompt, { cacheScope: 1 });
  assert(blocks.admit(sibling, 0));
  assert.equal(sibling.numComputed, 8);
  for (const sequence of [mine, others, sibling]) blocks.release(sequence);
  assert.equal(blocks.stats().numCachedBlocks, 3);
  blocks.forget(1);
  assert.equal(blocks.stats().numCachedBlocks, 0);
  assert.equal(blocks.stats().numFreeBlocks, 8);
});

Deno.test("BlockManager neither shares nor keeps blocks if the decoder cannot share them", () => {
  const blocks = makeBlocks(8, false);
  const first = compute(blocks, makeSequence(countFrom(0, 9)));
  blocks.release(first);
  assert.equal(blocks.stats().numFreeBlocks, 8);
  const second = makeSequence(countFrom(0, 9));
  assert(blocks.admit(second, 0));
  assert.equal(second.numComputed, 0);
});

Deno.test("BlockManager.resize() keeps prefixes in a larger pool, and new blocks are used before cached ones", () => {
  const blocks = makeBlocks(4);
  blocks.release(compute(blocks, makeSequence(countFrom(0, 13))));
  assert(blocks.resize(8));
  const other = compute(blocks, makeSequence(countFrom(50, 16)));
  assert.deepEqual(makeTable(other), [4, 5, 6, 7]);
  assert.equal(blocks.stats().numEvictedBlocks, 0);
  const again = makeSequence(countFrom(0, 13));
  assert(blocks.admit(again, 0));
  assert.equal(again.numComputed, 12);
});

Deno.test("BlockManager.resize() forgets removed blocks, and cached blocks after them", () => {
  const blocks = makeBlocks(8);
  const filler = makeSequence(countFrom(90, 8));
  compute(blocks, filler);
  // The filler has blocks 0 and 1, and `long` has 2 to 5. `longer` shares those, and adds 6, 7 and 1.
  const long = compute(blocks, makeSequence(countFrom(0, 16)));
  blocks.release(filler);
  const longer = compute(blocks, makeSequence(countFrom(0, 25)));
  assert.deepEqual(makeTable(longer), [2, 3, 4, 5, 6, 7, 1]);
  blocks.release(long);
  blocks.release(longer);
  assert(blocks.resize(5));
  const { numUsedBlocks, numCachedBlocks, numFreeBlocks } = blocks.stats();
  // Blocks 2 to 4 of `longer` are still cached, and block 0 of the filler.
  assert.deepEqual([numUsedBlocks, numCachedBlocks, numFreeBlocks], [0, 4, 1]);
  const again = makeSequence(countFrom(0, 17));
  assert(blocks.admit(again, 0));
  assert.deepEqual([again.numComputed, makeTable(again).slice(0, 3)], [12, [2, 3, 4]]);
});

Deno.test("BlockManager.resize() returns false if a sequence holds a block to be removed", () => {
  const blocks = makeBlocks(4);
  const sequence = compute(blocks, makeSequence(countFrom(0, 13)));
  assert.equal(blocks.resize(3), false);
  assert.deepEqual(makeTable(sequence), [0, 1, 2, 3]);
});

Deno.test("BlockManager counts the cached blocks that it evicts", () => {
  const blocks = makeBlocks(4);
  blocks.release(compute(blocks, makeSequence(countFrom(0, 13))));
  compute(blocks, makeSequence(countFrom(50, 8)));
  assert.equal(blocks.stats().numEvictedBlocks, 2);
});
