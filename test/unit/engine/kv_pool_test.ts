/** The pool grows for requests, reports a device's refusal, and returns memory. */
import assert from "node:assert/strict";
import type { Decoder, StepBatch } from "../../../src/decoder/decoder.ts";
import { PoolSize } from "../../../src/engine/kv_pool.ts";
import { EngineLoop } from "../../../src/engine/loop.ts";
import type { HearthError } from "../../../src/base/errors.ts";
import { countFrom } from "./make_sequence.ts";
import {
  GREEDY,
  makeLimits,
  nextToken,
  SimulatedDecoder,
  VOCAB_SIZE,
} from "./simulated_decoder.ts";

const PROMPT_TOKENS = 40;

/** A decoder that starts with eight blocks of four tokens, on a device with memory for `most` blocks. */
class GrowingDecoder implements Decoder {
  readonly limits = makeLimits({ numBlocks: 8, roomyBlocks: 16, maxBlocks: 64 });
  readonly sizes: number[] = [];
  readonly #most: number;
  readonly #simulated = new SimulatedDecoder(this.limits);

  constructor(most: number) {
    this.#most = most;
  }

  run(batch: StepBatch) {
    return Promise.resolve(this.#simulated.run(batch));
  }

  async resizeCache(numBlocks: number): Promise<boolean> {
    // Devices are slow: requests arrive and end meanwhile.
    await new Promise((resolve) => setTimeout(resolve, 1));
    if (numBlocks > this.#most) return false;
    this.sizes.push(numBlocks);
    this.#simulated.resize(numBlocks);
    return true;
  }

  dispose(): Promise<void> {
    return Promise.resolve();
  }
}

function generate(engine: EngineLoop, prompt: readonly number[], maxTokens: number) {
  const tokens: number[] = [];
  return new Promise<{ tokens: number[]; end: string | undefined }>((resolve, reject) => {
    let end: string | undefined;
    engine.add({ promptTokens: Int32Array.from(prompt), samples: [GREEDY], maxTokens }, {
      onToken: (_, { tokenId }, reason) => {
        tokens.push(tokenId);
        end = reason;
        return false;
      },
      onDone: () => resolve({ tokens, end }),
      onError: reject,
    });
  });
}

function makePrompt(seed: number, length = PROMPT_TOKENS): number[] {
  return countFrom(seed * 7, length).map((value) => value % VOCAB_SIZE);
}

/** Computes a prompt's completion without an engine. */
function makeCompletion(prompt: readonly number[], length: number): number[] {
  const tokens = [...prompt];
  for (let tokenIndex = 0; tokenIndex < length; tokenIndex++) {
    tokens.push(nextToken(tokens, { params: GREEDY, tokenIndex }).tokenId);
  }
  return tokens.slice(prompt.length);
}

async function metric(engine: EngineLoop, name: string): Promise<number> {
  const text = await engine.metrics.registry.metrics();
  return Number(new RegExp(`^${name} (\\d+)$`, "m").exec(text)![1]);
}

Deno.test("EngineLoop enlarges the pool for requests that do not fit, and preempts none", async () => {
  const decoder = new GrowingDecoder(64);
  const engine = new EngineLoop(decoder, { prefixCache: true });
  const prompts = [0, 1, 2, 3].map((seed) => makePrompt(seed));
  const answers = await Promise.all(prompts.map((prompt) => generate(engine, prompt, 20)));
  answers.forEach(({ tokens }, i) => assert.deepEqual(tokens, makeCompletion(prompts[i]!, 20)));
  assert.deepEqual(decoder.sizes, [16, 32, 64]);
  assert.equal(await metric(engine, "hearth_preemptions_total"), 0);
  assert.equal(await metric(engine, "hearth_kv_blocks_used"), 0);
  await engine.close();
});

Deno.test("EngineLoop refuses a request for which the device has no memory, with the reason, and serves those that fit", async () => {
  const decoder = new GrowingDecoder(12);
  const engine = new EngineLoop(decoder, { prefixCache: true });
  assert.equal(engine.maxSequenceLength, 256);
  const short = generate(engine, makePrompt(0, 30), 60);
  const long = generate(engine, makePrompt(1, 60), 5);
  const other = generate(engine, makePrompt(2, 30), 10);
  await assert.rejects(long, (error: HearthError) => {
    assert.equal(error.kind, "context_length_exceeded");
    assert.match(error.message, /maximum context length is 49 tokens.*free memory.*has 60/);
    return true;
  });
  const { tokens, end } = await short;
  // Twelve blocks hold 48 tokens; the last token needs no slot.
  assert.deepEqual(tokens, makeCompletion(makePrompt(0, 30), 49 - 30));
  assert.equal(end, "length");
  assert.deepEqual((await other).tokens, makeCompletion(makePrompt(2, 30), 10));
  // The limit applies to new requests until the device is asked again.
  assert.throws(() =>
    engine.add({ promptTokens: new Int32Array(60), samples: [GREEDY] }, {
      onToken: () => false,
      onDone: () => {},
      onError: () => {},
    }), /maximum context length is 49 tokens/);
  await engine.close();
});

Deno.test("EngineLoop returns memory that no step has needed for ten minutes", async () => {
  const decoder = new GrowingDecoder(64);
  // Steps run five minutes after the pool has grown.
  const { now } = performance;
  let laterMs = 0;
  performance.now = () => now.call(performance) + laterMs;
  decoder.run = (batch) => {
    laterMs = 5 * MINUTES;
    return GrowingDecoder.prototype.run.call(decoder, batch);
  };
  const engine = new EngineLoop(decoder, { prefixCache: true });
  const timers: { run: () => void; ms: number }[] = [];
  const { setTimeout } = globalThis;
  globalThis.setTimeout = ((run: () => void, ms: number) => {
    if (ms < 60_000) return setTimeout(run, ms);
    timers.push({ run, ms });
    return { unref: () => {} };
  }) as unknown as typeof setTimeout;
  try {
    await generate(engine, makePrompt(0, 100), 4);
    while (timers.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    assert.deepEqual(decoder.sizes, [26]);
    assert.ok(timers[0]!.ms > 9.9 * 60_000);
    timers[0]!.run();
    // A request arrives while the pool shrinks; the low blocks contain its prefix.
    const { tokens } = await generate(engine, makePrompt(0, 50), 4);
    assert.deepEqual(tokens, makeCompletion(makePrompt(0, 50), 4));
    assert.deepEqual(decoder.sizes, [26, 16]);
    assert.equal(await metric(engine, "hearth_prefix_hit_tokens_total"), 48);
  } finally {
    globalThis.setTimeout = setTimeout;
    performance.now = now;
    await engine.close();
  }
});

const LIMITS = makeLimits({ numBlocks: 100, roomyBlocks: 300, maxBlocks: 1000 });
const lacking = (numMissing: number) => ({ numMissing, numEvicted: numMissing });
const MINUTES = 60_000;

Deno.test("PoolSize.sizesFor() asks for twice as many blocks first, then for fewer", () => {
  const pool = new PoolSize(LIMITS);
  assert.deepEqual(pool.sizesFor(lacking(0), 0), []);
  assert.deepEqual(pool.sizesFor(lacking(1), 0), [200, 125, 105, 101]);
  assert.deepEqual(pool.sizesFor(lacking(150), 0), [250, 125, 105]);
  assert.deepEqual(
    pool.sizesFor(lacking(5000), 0),
    [1000, 125, 105],
    "no more blocks than the maximum",
  );
  pool.set(1000, 0);
  assert.deepEqual(pool.sizesFor(lacking(1), 0), []);
});

Deno.test("PoolSize.sizesFor() keeps cached prefixes by growing up to roomyBlocks, and not beyond", () => {
  const pool = new PoolSize(LIMITS);
  const evicting = { numMissing: -5, numEvicted: 3 };
  assert.deepEqual(pool.sizesFor(evicting, 0), [200, 125, 105, 101]);
  pool.set(200, 0);
  assert.deepEqual(pool.sizesFor(evicting, 0), [300, 250, 210, 201]);
  pool.set(300, 0);
  assert.deepEqual(pool.sizesFor(evicting, 0), []);
  const fixed = new PoolSize(makeLimits({ numBlocks: 100 }));
  assert.deepEqual(fixed.sizesFor(lacking(9), 0), [], "a pool of fixed size does not grow");
});

Deno.test("PoolSize asks a device again half a minute after a refusal", () => {
  const pool = new PoolSize(LIMITS);
  pool.refuse(1000);
  assert.deepEqual(pool.sizesFor(lacking(1), 2000), []);
  assert.deepEqual([pool.mostAt(2000), pool.mostAt(40_000)], [100, 1000]);
  assert.deepEqual(pool.sizesFor(lacking(1), 40_000), [200, 125, 105, 101]);
});

Deno.test("PoolSize shrinks to its resting size ten minutes after more than half was last in use", () => {
  const pool = new PoolSize(LIMITS);
  assert.equal(pool.shrinksIn(0), undefined);
  pool.set(800, 0);
  assert.equal(pool.shrinksIn(MINUTES), 9 * MINUTES);
  pool.observe(401, 5 * MINUTES);
  pool.observe(400, 7 * MINUTES);
  assert.equal(pool.shrinksIn(6 * MINUTES), 9 * MINUTES);
  assert.equal(pool.shrinksIn(60 * MINUTES), 0);
  assert.equal(pool.restingSize, 300);
  pool.set(300, 60 * MINUTES);
  assert.equal(pool.shrinksIn(90 * MINUTES), undefined);
});
