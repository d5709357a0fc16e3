import assert from "node:assert/strict";
import {
  type BatchLimits,
  type QueuedText,
  TextQueue,
} from "../../../../src/models/embedding/text_queue.ts";
import { Random } from "../../engine/random.ts";

const LIMITS = { maxTexts: 8, maxTokens: 100, maxPadding: 10 } satisfies BatchLimits;

function texts(owner: string, ...lengths: number[]): QueuedText<string>[] {
  return lengths.map((length, index) => ({ owner, index, text: { ids: Array(length).fill(7) } }));
}

function getLengths(batch: readonly QueuedText<string>[]): number[] {
  return batch.map(({ text }) => text.ids.length);
}

Deno.test("TextQueue.take() groups texts of similar length, longest first", () => {
  const queue = new TextQueue<string>();
  queue.add(texts("a", 5, 40, 8, 38, 6, 45));
  assert.deepEqual(getLengths(queue.take(LIMITS)), [45, 40]);
  assert.deepEqual(getLengths(queue.take(LIMITS)), [38]);
  assert.deepEqual(getLengths(queue.take(LIMITS)), [8, 6, 5]);
  assert.deepEqual(queue.take(LIMITS), []);
});

Deno.test("TextQueue.take() respects the limits of texts and of tokens, including padding", () => {
  const queue = new TextQueue<string>();
  queue.add(texts("a", ...Array(20).fill(4), ...Array(5).fill(30)));
  assert.deepEqual(getLengths(queue.take(LIMITS)), [30, 30, 30]);
  assert.deepEqual(getLengths(queue.take(LIMITS)), [30, 30]);
  assert.equal(queue.take(LIMITS).length, 8);
});

Deno.test("TextQueue.take() runs a text longer than the limit alone", () => {
  const queue = new TextQueue<string>();
  queue.add(texts("a", 300, 295));
  assert.deepEqual(getLengths(queue.take(LIMITS)), [300]);
  assert.deepEqual(getLengths(queue.take(LIMITS)), [295]);
});

Deno.test("TextQueue.take() puts a short text that came first into a batch of longer ones, within the limit of padding", () => {
  const queue = new TextQueue<string>();
  queue.add(texts("a", 20));
  queue.add(texts("b", 28, 31));
  const batch = queue.take(LIMITS);
  assert.deepEqual(batch.map(({ owner }) => owner), ["b", "a"]);
  assert.deepEqual(getLengths(batch), [28, 20]);
});

Deno.test("TextQueue.take() runs a new request before the rest of a large one", () => {
  const queue = new TextQueue<string>();
  queue.add(texts("large", ...Array(1000).fill(50)));
  queue.take(LIMITS);
  queue.add(texts("small", 5));
  const next = [queue.take(LIMITS), queue.take(LIMITS)].flat();
  assert.ok(next.some(({ owner }) => owner === "small"));
});

Deno.test("TextQueue.take() does not let a stream of new requests starve a large one", () => {
  const queue = new TextQueue<string>();
  queue.add(texts("large", ...Array(100).fill(90)));
  let numLarge = 0;
  for (let round = 0; round < 300; round++) {
    // New requests use half of the capacity, so that they do not accumulate.
    if (round % 2 === 0) queue.add(texts(`small ${round}`, 45, 45));
    const batch = queue.take(LIMITS);
    numLarge += batch.filter(({ owner }) => owner === "large").length;
    for (const { owner } of batch) if (owner !== "large") queue.remove(owner);
  }
  // The large request gets the other half.
  assert.ok(numLarge >= 80, `${numLarge} of 100`);
});

Deno.test("TextQueue.remove() drops only an owner's texts", () => {
  const queue = new TextQueue<string>();
  queue.add(texts("a", 5, 6));
  queue.add(texts("b", 5));
  queue.remove("a");
  assert.equal(queue.numTokens, 5);
  assert.equal(queue.numTexts, 1);
  assert.deepEqual(queue.take(LIMITS).map(({ owner }) => owner), ["b"]);
});

Deno.test("TextQueue returns every text once, for any arrivals and cancellations", () => {
  const random = new Random(5);
  const queue = new TextQueue<string>();
  const open = new Map<string, Set<number>>();
  let numOwners = 0;
  for (let round = 0; round < 500 || queue.numTexts > 0; round++) {
    const isDraining = round >= 500;
    if (!isDraining && random.chance(0.4)) {
      const owner = `owner ${numOwners++}`;
      const lengths = Array.from({ length: random.between(1, 30) }, () => random.between(1, 130));
      queue.add(texts(owner, ...lengths));
      open.set(owner, new Set(lengths.keys()));
    }
    if (!isDraining && random.chance(0.05) && open.size > 0) {
      const [owner] = open.keys();
      queue.remove(owner!);
      open.delete(owner!);
    }
    const batch = queue.take(LIMITS);
    const lengths = getLengths(batch);
    assert.ok(batch.length > 0 || queue.numTexts === 0);
    assert.ok(batch.length <= LIMITS.maxTexts);
    assert.ok(batch.length <= 1 || lengths[0]! * batch.length <= LIMITS.maxTokens);
    const padding = lengths.reduce((sum, length) => sum + lengths[0]! - length, 0);
    assert.ok(padding <= LIMITS.maxPadding, `${lengths}`);
    for (const { owner, index } of batch) {
      assert.ok(open.get(owner)?.delete(index), `${owner} ${index}`);
      if (open.get(owner)!.size > 0) continue;
      open.delete(owner);
      queue.remove(owner);
    }
    const left = [...open.values()].reduce((sum, indices) => sum + indices.size, 0);
    assert.equal(queue.numTexts, left);
  }
  assert.equal(open.size, 0);
  assert.equal(queue.numTokens, 0);
});

const UNPADDED: BatchLimits = { maxTexts: 8, maxTokens: 100 };

Deno.test("TextQueue.take() without padding groups texts of any length and of all owners", () => {
  const queue = new TextQueue<string>();
  queue.add(texts("a", 50, 4, 30));
  queue.add(texts("b", 9));
  queue.add(texts("c", 20, 1));
  const batch = queue.take(UNPADDED);
  assert.deepEqual(new Set(batch.map(({ owner }) => owner)), new Set(["a", "b", "c"]));
  const numTokens = getLengths(batch).reduce((sum, length) => sum + length, 0);
  assert.ok(numTokens <= 100 && numTokens >= 80, `${numTokens}`);
  const rest = queue.take(UNPADDED);
  assert.equal(batch.length + rest.length, 6);
  assert.equal(queue.numTokens, 0);
});

Deno.test("TextQueue.take() without padding runs a text longer than the limit alone", () => {
  const queue = new TextQueue<string>();
  queue.add(texts("a", 300));
  queue.add(texts("b", 20));
  assert.deepEqual(getLengths(queue.take(UNPADDED)), [300]);
  assert.deepEqual(getLengths(queue.take(UNPADDED)), [20]);
});

Deno.test("TextQueue.take() without padding runs a new request before the rest of a large one", () => {
  const queue = new TextQueue<string>();
  queue.add(texts("large", ...Array(1000).fill(50)));
  queue.take(UNPADDED);
  queue.add(texts("small", 5));
  assert.ok(queue.take(UNPADDED).some(({ owner }) => owner === "small"));
});

Deno.test("TextQueue.take() without padding returns every text once, in batches as full as possible", () => {
  const random = new Random(11);
  const queue = new TextQueue<string>();
  const seen = new Set<string>();
  let numAdded = 0;
  for (let step = 0; step < 300; step++) {
    if (random.chance(0.4)) {
      const longest = random.pick([2, 25, 150]);
      const added = texts(
        `owner ${step}`,
        ...Array.from({ length: random.between(1, 20) }, () => random.between(1, longest)),
      );
      numAdded += added.length;
      queue.add(added);
    }
    const batch = queue.take(UNPADDED);
    const numTokens = getLengths(batch).reduce((sum, length) => sum + length, 0);
    assert.ok(batch.length <= 8 && (batch.length === 1 || numTokens <= 100));
    for (const { owner, index } of batch) seen.add(`${owner}: ${index}`);
  }
  let last: number[] = [];
  while (queue.numTexts > 0) {
    const batch = queue.take(UNPADDED);
    const lengths = getLengths(batch);
    const withNext = [...last, lengths[0]!].reduce((sum, length) => sum + length, 0);
    assert.ok(last.length === 0 || last.length === 8 || withNext > 100, `${last} and ${lengths}`);
    for (const { owner, index } of batch) seen.add(`${owner}: ${index}`);
    last = lengths;
  }
  assert.equal(seen.size, numAdded);
});
