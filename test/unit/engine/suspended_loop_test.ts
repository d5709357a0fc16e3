/**
 * A prefill step that is suspended for decode steps: cancellations and failures meanwhile do not affect other requests.
 */
import assert from "node:assert/strict";
import type {
  Decoder,
  DecoderLimits,
  StepBatch,
  Suspension,
} from "../../../src/decoder/decoder.ts";
import { EngineLoop } from "../../../src/engine/loop.ts";
import { hurryPace } from "../../fixtures/engine/hurried_pace.ts";
import { readMetric } from "../../fixtures/engine/generate.ts";
import { GREEDY, makeLimits, SimulatedDecoder } from "./simulated_decoder.ts";

const PARTS = 10;
const STREAM = [1, 2, 3];
const LONG = Array.from({ length: 40 }, (_, i) => (i * 5) % 12);

/** A decoder whose prompt steps have parts. */
class PartsDecoder implements Decoder {
  readonly limits: DecoderLimits;
  readonly suspension = { mostBeside: 0, isQueued: false };
  readonly #simulated: SimulatedDecoder;
  /** Number of parts that have run. */
  numParts = 0;
  /** Number of decode steps that ran during a suspension. */
  numBeside = 0;
  #isSuspended = false;
  /** Called after each part, before the step may be suspended. */
  onPart: (part: number) => void = () => {};
  /** Called before a step runs during a suspension. */
  onBeside: () => void = () => {};

  constructor(changes: Partial<DecoderLimits> = {}) {
    this.limits = makeLimits(changes);
    this.#simulated = new SimulatedDecoder(this.limits);
  }

  async run(batch: StepBatch, suspension?: Suspension) {
    this.#simulated.begin(batch);
    if (this.#isSuspended) {
      this.numBeside++;
      this.onBeside();
    }
    for (let part = 0; part < PARTS && suspension !== undefined; part++) {
      this.onPart(++this.numParts);
      this.#isSuspended = true;
      await suspension.endPart()?.finally(() => this.#isSuspended = false);
      this.#isSuspended = false;
    }
    return this.#simulated.compute(batch);
  }

  dispose(): Promise<void> {
    return Promise.resolve();
  }
}

/** A request and its result. */
interface Asked {
  readonly tokens: number[];
  readonly cancel: () => void;
  /** Resolves to the request's error, or to its number of cached tokens. */
  readonly done: Promise<unknown>;
}

function ask(
  engine: EngineLoop,
  prompt: readonly number[],
  maxTokens: number,
  onToken: () => void = () => {},
): Asked {
  const tokens: number[] = [];
  const { promise: done, resolve } = Promise.withResolvers<unknown>();
  const cancel = engine.add({
    promptTokens: Int32Array.from(prompt),
    samples: [GREEDY],
    maxTokens,
    topLogprobs: 0,
  }, {
    onToken: (_, { tokenId }) => {
      tokens.push(tokenId);
      onToken();
      return false;
    },
    onDone: resolve,
    onError: resolve,
  });
  return { tokens, cancel, done };
}

/** Runs a request alone. @returns its tokens. */
async function askAlone(prompt: readonly number[], maxTokens: number): Promise<number[]> {
  const { tokens, done } = ask(
    new EngineLoop(new PartsDecoder(), { prefixCache: false }),
    prompt,
    maxTokens,
  );
  await done;
  return tokens;
}

/** Starts a stream, and a long prompt at the stream's first token. */
async function askBoth(decoder: PartsDecoder) {
  const engine = new EngineLoop(decoder, { prefixCache: true });
  const { promise: long, resolve } = Promise.withResolvers<Asked>();
  const stream = ask(engine, STREAM, 60, () => {
    if (stream.tokens.length === 1) resolve(ask(engine, LONG, 5));
  });
  return { engine, stream, long: await long };
}

async function requireIdle(engine: EngineLoop): Promise<void> {
  await engine.close();
  assert.equal(await readMetric(engine, "hearth_kv_blocks_used"), 0);
  assert.equal(await readMetric(engine, "hearth_sequences_running"), 0);
}

Deno.test("EngineLoop gives a stream a token after each part of another request's prompt", async () => {
  using _pace = hurryPace();
  const decoder = new PartsDecoder();
  const { engine, stream, long } = await askBoth(decoder);
  assert.equal(await stream.done, 0);
  assert.equal(await long.done, 0);
  assert.deepEqual(stream.tokens, await askAlone(STREAM, 60));
  assert.deepEqual(long.tokens, await askAlone(LONG, 5));
  assert.equal(decoder.numParts, PARTS);
  // One after each part. Up to two more run to measure how long a decode step takes after another one.
  assert(decoder.numBeside >= PARTS && decoder.numBeside <= PARTS + 2, `${decoder.numBeside}`);
  await requireIdle(engine);
});

Deno.test("EngineLoop abandons a suspended step if all its requests are cancelled", async () => {
  using _pace = hurryPace();
  const decoder = new PartsDecoder();
  const { engine, stream, long } = await askBoth(decoder);
  decoder.onPart = (part) => part === 3 && long.cancel();
  assert.equal(await stream.done, 0);
  assert.deepEqual(stream.tokens, await askAlone(STREAM, 60));
  assert.equal(decoder.numParts, 3);
  assert.deepEqual(long.tokens, []);
  decoder.onPart = () => {};
  // Nothing of the long prompt was cached, since its step did not finish.
  const again = ask(engine, LONG, 5);
  assert.equal(await again.done, 0);
  assert.deepEqual(again.tokens, await askAlone(LONG, 5));
  await requireIdle(engine);
});

Deno.test("EngineLoop continues a suspended step if the concurrent stream is cancelled", async () => {
  using _pace = hurryPace();
  const decoder = new PartsDecoder();
  const { engine, stream, long } = await askBoth(decoder);
  decoder.onPart = (part) => part === 3 && stream.cancel();
  assert.equal(await long.done, 0);
  assert.deepEqual(long.tokens, await askAlone(LONG, 5));
  assert.equal(decoder.numParts, PARTS);
  await requireIdle(engine);
});

Deno.test("EngineLoop ends only the request whose part fails", async () => {
  using _pace = hurryPace();
  const decoder = new PartsDecoder();
  const { engine, stream, long } = await askBoth(decoder);
  const failure = new Error("no memory for this part");
  decoder.onPart = (part) => {
    if (part === 3) throw failure;
  };
  assert.equal(await long.done, failure);
  assert.equal(await stream.done, 0);
  assert.deepEqual(stream.tokens, await askAlone(STREAM, 60));
  await requireIdle(engine);
});

for (const numStateSlots of [undefined, 8]) {
  const kept = numStateSlots ? "states" : "keys and values";
  Deno.test(`EngineLoop ends only the stream that fails during a suspended step, with ${kept}`, async () => {
    using _pace = hurryPace();
    const decoder = new PartsDecoder({ numStateSlots });
    const { engine, stream, long } = await askBoth(decoder);
    const failure = new Error("no memory for this token");
    decoder.onBeside = () => {
      if (decoder.numParts === 3) throw failure;
    };
    assert.equal(await stream.done, failure);
    assert.equal(await long.done, 0);
    assert.deepEqual(long.tokens, await askAlone(LONG, 5));
    await requireIdle(engine);
  });
}

Deno.test("EngineLoop preempts a prompt if its suspended step holds the blocks that a stream needs", async () => {
  using _pace = hurryPace();
  // The prompt needs ten blocks, the stream up to 16.
  const decoder = new PartsDecoder({ numBlocks: 17, maxBatchTokens: 16 });
  const { engine, stream, long } = await askBoth(decoder);
  assert.equal(await stream.done, 0);
  // `long` may find the blocks that it computed before its preemption.
  assert.equal(typeof await long.done, "number");
  assert.deepEqual(stream.tokens, await askAlone(STREAM, 60));
  assert.deepEqual(long.tokens, await askAlone(LONG, 5));
  assert(await readMetric(engine, "hearth_preemptions_total") > 0);
  await requireIdle(engine);
});
