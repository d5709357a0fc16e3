import assert from "node:assert/strict";
import type { DecoderLimits } from "../../../src/decoder/decoder.ts";
import type { GenerationRequest, Sequence } from "../../../src/engine/sequence.ts";
import { Scheduler, type SchedulerOptions } from "../../../src/engine/scheduler.ts";
import { HearthError } from "../../../src/base/errors.ts";
import { countFrom } from "./make_sequence.ts";
import { GREEDY, makeLimits } from "./simulated_decoder.ts";

const TOKEN = { tokenId: 7, logprob: 0, top: [] };

/** A scheduler that samples the same token in every step. Blocks have 4 tokens. */
class Server {
  readonly scheduler: Scheduler;

  constructor(limits: Partial<DecoderLimits> = {}, options: Partial<SchedulerOptions> = {}) {
    this.scheduler = new Scheduler(makeLimits(limits), { prefixCache: true, ...options });
  }

  add(prompt: readonly number[], options: Partial<GenerationRequest> = {}): Sequence[] {
    const promptTokens = Int32Array.from(prompt);
    return this.scheduler.add({ promptTokens, samples: [GREEDY], topLogprobs: 0, ...options });
  }

  addOne(prompt: readonly number[], options: Partial<GenerationRequest> = {}): Sequence {
    return this.add(prompt, options)[0]!;
  }

  /** Runs a step. @returns the ids of its sequences with their numbers of tokens. */
  step(duringRun?: () => void): [id: number, numTokens: number][] {
    const step = this.scheduler.schedule();
    if (step === undefined) return [];
    duringRun?.();
    const sampled = step.scheduled.filter(({ samples }) => samples).map(() => TOKEN);
    this.scheduler.commit(step, sampled);
    return step.scheduled.map(({ sequence, numTokens }) => [sequence.id, numTokens]);
  }

  /** Runs steps and ends full sequences, until none is left. */
  drain(): void {
    for (let step = this.scheduler.schedule(); step; step = this.scheduler.schedule()) {
      const sampled = step.scheduled.filter(({ samples }) => samples).map(() => TOKEN);
      for (const { sequence } of this.scheduler.commit(step, sampled)) {
        if (sequence.isFull) this.scheduler.end(sequence.id);
      }
    }
  }
}

function getRefusal(action: () => unknown): HearthError {
  try {
    action();
  } catch (error) {
    assert(error instanceof HearthError);
    return error;
  }
  return assert.fail("not refused");
}

Deno.test("Scheduler.add() accepts a prompt that fills the context, or the pool, if no token is requested", () => {
  const wide = { contextLength: 16, numBlocks: 8 };
  const narrow = { contextLength: 64, numBlocks: 3 };
  for (const [limits, most] of [[wide, 16], [narrow, 12]] as const) {
    const server = new Server(limits);
    const sequence = server.addOne(countFrom(0, most), { maxTokens: 0 });
    server.drain();
    assert.equal(sequence.status, "ended");
    assert.equal(sequence.length, most + 1);
    const { message } = getRefusal(() => server.add(countFrom(0, most + 1), { maxTokens: 0 }));
    assert.match(message, new RegExp(`is ${most} tokens.*; the prompt has ${most + 1}\\.$`));
  }
});

Deno.test("Scheduler.add() refuses a prompt that leaves no room in the context", () => {
  const server = new Server({ contextLength: 16 });
  const { kind, message } = getRefusal(() => server.add(countFrom(0, 16)));
  assert.equal(kind, "context_length_exceeded");
  assert.match(message, /maximum context length is 16 tokens, .* trained for; the prompt has 16/);
  assert.equal(server.add(countFrom(0, 15)).length, 1);
});

Deno.test("Scheduler.add() refuses a prompt that the whole pool cannot hold", () => {
  const server = new Server({ numBlocks: 3 });
  const { kind, message } = getRefusal(() => server.add(countFrom(0, 13)));
  assert.equal(kind, "context_length_exceeded");
  assert.match(
    message,
    /maximum context length is 13 tokens, as many as the free memory.*; the prompt has 13/,
  );
  assert.equal(server.scheduler.stats().numWaiting, 0);
  server.add(countFrom(0, 12));
  server.drain();
});

Deno.test("Scheduler.add() refuses an empty prompt", () => {
  assert.equal(getRefusal(() => new Server().add([])).kind, "invalid_value");
});

Deno.test("Scheduler lets a lone sequence grow to the size of the pool", () => {
  const server = new Server({ numBlocks: 3 });
  const sequence = server.addOne([1]);
  server.drain();
  assert.equal(sequence.length, 13);
  assert.equal(server.scheduler.stats().numPreemptions, 0);
});

Deno.test("Scheduler.schedule() schedules next tokens first, then prompts in chunks within the budget", () => {
  const server = new Server({ maxBatchTokens: 10 });
  const a = server.addOne(countFrom(0, 4));
  assert.deepEqual(server.step(), [[a.id, 4]]);
  const b = server.addOne(countFrom(100, 20));
  const c = server.addOne(countFrom(200, 3));
  assert.deepEqual(server.step(), [[a.id, 1], [b.id, 9]]);
  assert.deepEqual(server.step(), [[a.id, 1], [b.id, 9]]);
  assert.deepEqual(server.step(), [[a.id, 1], [b.id, 2], [c.id, 3]]);
  assert.deepEqual(server.step(), [[a.id, 1], [b.id, 1], [c.id, 1]]);
});

Deno.test("Scheduler.schedule() reads up to mostBeside prompt tokens beside next tokens, and more in a step of their own", () => {
  for (const [numTokens, isApart] of [[4, undefined], [5, true]] as const) {
    const server = new Server({ maxBatchTokens: 10 });
    const a = server.addOne([1]);
    server.step();
    const b = server.addOne(countFrom(100, numTokens));
    const step = server.scheduler.schedule({ mostBeside: 4 })!;
    const scheduled = step.scheduled.map(({ sequence, numTokens }) => [sequence.id, numTokens]);
    assert.equal(step.isApart || undefined, isApart);
    assert.deepEqual(scheduled, [...isApart ? [] : [[a.id, 1]], [b.id, numTokens]]);
  }
});

Deno.test("Scheduler.schedule() ends a prompt's chunks with blocks if sequences have states, except the last", () => {
  const server = new Server({ maxBatchTokens: 7, numStateSlots: 4 });
  const { id } = server.addOne(countFrom(0, 15));
  const steps = Array.from({ length: 5 }, () => server.step());
  assert.deepEqual(steps, [[[id, 4]], [[id, 4]], [[id, 7]], [[id, 1]], [[id, 1]]]);
});

Deno.test("Scheduler.schedule() samples a token only after a prompt is complete", () => {
  const server = new Server({ maxBatchTokens: 3 });
  server.add(countFrom(0, 5));
  assert.deepEqual(server.scheduler.schedule()?.scheduled.map(({ samples }) => samples), [false]);
  server.step();
  assert.deepEqual(server.scheduler.schedule()?.scheduled.map(({ samples }) => samples), [true]);
});

Deno.test("Scheduler.schedule() runs no more sequences than the decoder allows", () => {
  const server = new Server({ maxSequences: 2 });
  const [a, b, c] = [1, 2, 3].map((first) => server.addOne([first]));
  assert.deepEqual(server.step(), [[a!.id, 1], [b!.id, 1]]);
  server.scheduler.end(a!.id);
  assert.deepEqual(server.step(), [[b!.id, 1], [c!.id, 1]]);
});

Deno.test("Scheduler.schedule() lets no sequence overtake one that waits for blocks", () => {
  const server = new Server({ numBlocks: 6 });
  const a = server.addOne(countFrom(0, 8));
  assert.deepEqual(server.step(), [[a.id, 8]]);
  const large = server.addOne(countFrom(100, 16));
  const small = server.addOne([200]);
  assert.deepEqual(server.step(), [[a.id, 1]]);
  assert.deepEqual([large.status, small.status], ["waiting", "waiting"]);
  server.scheduler.end(a.id);
  assert.deepEqual(server.step(), [[large.id, 16], [small.id, 1]]);
});

Deno.test("Scheduler.schedule() preempts the newest sequence when blocks run out", () => {
  const server = new Server({ numBlocks: 5 });
  const [a, b] = [server.addOne(countFrom(0, 7)), server.addOne(countFrom(100, 6))];
  const late = server.addOne([200]);
  assert.deepEqual(server.step(), [[a.id, 7], [b.id, 6]]);
  for (let i = 0; i < 2; i++) assert.deepEqual(server.step(), [[a.id, 1], [b.id, 1]]);
  // `a` and `b` need a third block each now, and only one is left.
  assert.deepEqual([a.length, b.length], [10, 9]);
  assert.deepEqual(server.step(), [[a.id, 1]]);
  assert.deepEqual([b.status, late.status], ["waiting", "waiting"]);
  assert.equal(b.blockIds.length, 0);
  assert.equal(server.scheduler.stats().numPreemptions, 1);

  server.scheduler.end(a.id);
  // The two full blocks of `b` are still cached, and `b` runs before later sequences.
  assert.deepEqual(server.step(), [[b.id, 1], [late.id, 1]]);
  assert.equal(b.length, 10);
  assert.equal(
    b.numCachedTokens,
    0,
    "blocks that the sequence itself had computed do not count as cached",
  );
});

Deno.test("Scheduler.schedule() admits a sequence only if running ones keep a block to grow", () => {
  const server = new Server({ numBlocks: 4 });
  const a = server.addOne(countFrom(0, 3));
  server.step();
  const b = server.addOne(countFrom(100, 9));
  assert.deepEqual(server.step(), [[a.id, 1]]);
  assert.equal(b.status, "waiting");
});

for (const prefixCache of [true, false]) {
  const where = `prefix cache ${prefixCache ? "on" : "off"}`;

  Deno.test(`Scheduler lets samples share the prompt's full blocks and compute the rest (${where})`, () => {
    const server = new Server({ maxBatchTokens: 8 }, { prefixCache });
    const [a, b, c] = server.add(countFrom(0, 11), { samples: [GREEDY, GREEDY, GREEDY] });
    assert.deepEqual(
      server.step(),
      [[a!.id, 8]],
      "the other samples wait for the blocks that the first one fills",
    );
    assert.deepEqual(server.step(), [[a!.id, 3], [b!.id, 3], [c!.id, 2]]);
    const shared = [...a!.blockIds.view(0, 2)];
    for (const sibling of [b!, c!]) assert.deepEqual([...sibling.blockIds.view(0, 2)], shared);
    assert.equal(new Set([a, b, c].map((sequence) => sequence!.blockIds.at(2))).size, 3);
    assert.equal(server.scheduler.stats().numUsedBlocks, 5);
    assert.deepEqual([a!.numCachedTokens, b!.numCachedTokens], [0, 8]);
  });

  Deno.test(`Scheduler lets a second sample wait until the first has computed the prompt (${where})`, () => {
    const server = new Server({}, { prefixCache });
    const [a, b] = server.add(countFrom(0, 11), { samples: [GREEDY, GREEDY] });
    assert.deepEqual(server.step(), [[a!.id, 11]]);
    assert.deepEqual(server.step(), [[a!.id, 1], [b!.id, 3]]);
  });

  Deno.test(`Scheduler lets a sample continue the prompt of a cancelled one (${where})`, () => {
    const server = new Server({ maxBatchTokens: 8 }, { prefixCache });
    const [a, b] = server.add(countFrom(0, 15), { samples: [GREEDY, GREEDY] });
    assert.deepEqual(server.step(), [[a!.id, 8]]);
    server.scheduler.end(a!.id);
    assert.deepEqual(server.step(), [[b!.id, 7]]);
  });

  Deno.test(`Scheduler runs samples one after the other if blocks cannot be shared (${where})`, () => {
    const server = new Server({ maxSequences: 1, sharesBlocks: false }, { prefixCache });
    const [a, b] = server.add(countFrom(0, 9), { samples: [GREEDY, GREEDY] });
    assert.deepEqual(server.step(), [[a!.id, 9]]);
    assert.deepEqual(server.step(), [[a!.id, 1]]);
    server.scheduler.end(a!.id);
    assert.deepEqual(server.step(), [[b!.id, 9]]);
  });
}

Deno.test("Scheduler computes only the last token of a cached prompt", () => {
  const server = new Server();
  server.add(countFrom(0, 15), { maxTokens: 1 });
  server.drain();
  const again = server.addOne(countFrom(0, 15));
  assert.deepEqual(server.step(), [[again.id, 1]]);
  assert.equal(again.numCachedTokens, 14);
  const { numPrefixHitTokens, numPrefixQueryTokens } = server.scheduler.stats();
  assert.deepEqual([numPrefixHitTokens, numPrefixQueryTokens], [14, 30]);
});

Deno.test("Scheduler keeps nothing between requests without the prefix cache", () => {
  const server = new Server({}, { prefixCache: false });
  server.add(countFrom(0, 15), { maxTokens: 1, samples: [GREEDY, GREEDY] });
  server.drain();
  assert.equal(server.scheduler.stats().numCachedBlocks, 0);
  const again = server.addOne(countFrom(0, 15));
  assert.deepEqual(server.step(), [[again.id, 15]]);
});

Deno.test("Scheduler distinguishes prompts by their media", () => {
  const server = new Server();
  const withMedia = (key: string) => {
    const sequence = server.addOne(countFrom(0, 9), { media: [{ start: 2, end: 6, key }] });
    server.step();
    server.scheduler.end(sequence.id);
    return sequence.numCachedTokens;
  };
  assert.deepEqual(["cat", "dog", "cat"].map(withMedia), [0, 0, 8]);
});

Deno.test("Scheduler.end() frees a sequence's blocks immediately, in the middle of its prompt", () => {
  const server = new Server({ maxBatchTokens: 6 });
  const sequence = server.addOne(countFrom(0, 20));
  server.step();
  assert.equal(server.scheduler.stats().numUsedBlocks, 5);
  server.scheduler.end(sequence.id);
  const { numUsedBlocks, numCachedBlocks, numRunning } = server.scheduler.stats();
  assert.deepEqual([numUsedBlocks, numCachedBlocks, numRunning], [0, 2, 0]);
  assert.deepEqual(server.step(), []);
});

Deno.test("Scheduler.end() removes a waiting sequence from the queue, and ignores an ended one", () => {
  const server = new Server({ maxSequences: 1 });
  const [a, b, c] = [1, 2, 3].map((first) => server.addOne([first]));
  server.step();
  for (let i = 0; i < 2; i++) server.scheduler.end(b!.id);
  server.scheduler.end(a!.id);
  server.scheduler.end(a!.id);
  server.scheduler.end(12345);
  assert.deepEqual(server.step(), [[c!.id, 1]]);
});

Deno.test("Scheduler.commit() ignores only sequences that were cancelled during the step", () => {
  const server = new Server();
  const [a, b] = [server.addOne(countFrom(0, 5)), server.addOne(countFrom(100, 5))];
  server.step(() => server.scheduler.end(a.id));
  assert.deepEqual([a.length, b.length], [5, 6]);
  const { numUsedBlocks, numCachedBlocks } = server.scheduler.stats();
  assert.deepEqual(
    [numUsedBlocks, numCachedBlocks],
    [2, 0],
    "no incompletely written block is kept",
  );
});

Deno.test("Scheduler.commit() assigns each token to its sequence", () => {
  const server = new Server({ maxBatchTokens: 6 });
  const { scheduler } = server;
  const sequences = [2, 3, 9].map((length, i) => server.addOne(countFrom(100 * i, length)));
  const step = scheduler.schedule()!;
  const tokens = [41, 42].map((tokenId) => ({ ...TOKEN, tokenId }));
  const committed = scheduler.commit(step, tokens);
  assert.deepEqual(
    committed.map(({ sequence, token }) => [sequence.id, token.tokenId]),
    [[sequences[0]!.id, 41], [sequences[1]!.id, 42]],
  );
});

Deno.test("Scheduler.commit() refuses a step that sampled too few tokens", () => {
  const { scheduler } = new Server();
  scheduler.add({ promptTokens: Int32Array.of(1), samples: [GREEDY], topLogprobs: 0 });
  const step = scheduler.schedule()!;
  assert.throws(() => scheduler.commit(step, []), RangeError);
});
