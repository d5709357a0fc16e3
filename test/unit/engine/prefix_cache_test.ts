import assert from "node:assert/strict";
import { BlockIndex, mixHash } from "../../../src/engine/prefix_cache.ts";
import { makeSequence } from "./make_sequence.ts";

function makeSequenceWithBlocks(tokens: readonly number[], blockIds: readonly number[]) {
  const sequence = makeSequence(tokens);
  for (const blockId of blockIds) sequence.blockIds.push(blockId);
  return sequence;
}

/** Computes the inverse of `odd` modulo 2³². */
function invert(odd: number): number {
  let inverse = odd;
  for (let i = 0; i < 5; i++) inverse = Math.imul(inverse, 2 - Math.imul(odd, inverse));
  return inverse;
}

function rotateRight(value: number, by: number): number {
  return (value >>> by) | (value << (32 - by));
}

/** Finds the token with which mixHash changes `hash` to `wanted`. */
function tokenBetween(hash: number, wanted: number): number {
  const mixed = rotateRight(Math.imul(wanted - 0xe6546b64, invert(5)), 13) ^ hash;
  const scrambled = rotateRight(Math.imul(mixed, invert(0x1b873593)), 15);
  return Math.imul(scrambled, invert(0xcc9e2d51));
}

Deno.test("BlockIndex.find() distinguishes blocks of different tokens with the same hash", () => {
  const hash = mixHash(mixHash(0, 1), 2);
  const forged = [5, tokenBetween(mixHash(0, 5), hash)];
  assert.equal(mixHash(mixHash(0, forged[0]!), forged[1]!), hash);

  const index = new BlockIndex(4, 2);
  assert.equal(index.findOrAdd(makeSequenceWithBlocks([1, 2], [0]), 0), 0);
  assert.equal(index.find(makeSequenceWithBlocks(forged, []), 0), undefined);
  assert.equal(index.findOrAdd(makeSequenceWithBlocks(forged, [1]), 0), 1);
  assert.equal(index.find(makeSequenceWithBlocks([1, 2], []), 0), 0);
  assert.equal(index.find(makeSequenceWithBlocks(forged, []), 0), 1);
});

Deno.test("BlockIndex.find() distinguishes equal blocks after different prefixes with the same hash", () => {
  const forged = [5, tokenBetween(mixHash(0, 5), mixHash(mixHash(0, 1), 2))];
  const index = new BlockIndex(8, 2);
  const honest = makeSequenceWithBlocks([1, 2, 7, 7], [0, 1]);
  const other = makeSequenceWithBlocks([...forged, 7, 7], [2, 3]);
  assert.deepEqual([0, 1].map((i) => index.findOrAdd(honest, i)), [0, 1]);
  assert.equal(index.findOrAdd(other, 0), 2);
  assert.equal(index.find(other, 1), undefined);
  assert.equal(index.findOrAdd(other, 1), 3);
});

Deno.test("BlockIndex.remove() forgets only the given block, wherever it is in its bucket", () => {
  // So many blocks that some share a bucket.
  const numBlocks = 64;
  for (let removed = 0; removed < numBlocks; removed++) {
    const index = new BlockIndex(numBlocks, 1);
    for (let id = 0; id < numBlocks; id++) {
      index.findOrAdd(makeSequenceWithBlocks([id * 7], [id]), 0);
    }
    index.remove(removed);
    for (let id = 0; id < numBlocks; id++) {
      assert.equal(
        index.find(makeSequenceWithBlocks([id * 7], []), 0),
        id === removed ? undefined : id,
      );
      assert.equal(index.has(id), id !== removed);
    }
  }
});
