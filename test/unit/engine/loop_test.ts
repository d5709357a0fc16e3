import assert from "node:assert/strict";
import { type Decoder, EncoderError, type StepBatch } from "../../../src/decoder/decoder.ts";
import { EngineLoop } from "../../../src/engine/loop.ts";
import { GREEDY, makeLimits, SimulatedDecoder } from "./simulated_decoder.ts";

/** A decoder that calls the sources of a step's embeddings before it runs the step. */
class AskingDecoder implements Decoder {
  readonly limits = makeLimits();
  readonly #simulated = new SimulatedDecoder(this.limits);

  async run(batch: StepBatch) {
    for (const { sequenceId, source } of batch.embeddings ?? []) {
      await source.rows().catch((error: unknown) => {
        throw new EncoderError([sequenceId], error);
      });
    }
    return this.#simulated.run(batch);
  }

  dispose(): Promise<void> {
    return Promise.resolve();
  }
}

function generate(
  engine: EngineLoop,
  promptTokens: readonly number[],
  failure?: Error,
): Promise<number[]> {
  const tokens: number[] = [];
  const source = { rows: () => Promise.reject(failure) };
  return new Promise((resolve, reject) =>
    engine.add({
      promptTokens: Int32Array.from(promptTokens),
      samples: [GREEDY],
      maxTokens: 5,
      topLogprobs: 0,
      ...(failure && { media: [{ start: 1, end: 2, key: "broken", source }] }),
    }, {
      onToken: (_, { tokenId }) => {
        tokens.push(tokenId);
        return false;
      },
      onDone: () => resolve(tokens),
      onError: reject,
    })
  );
}

Deno.test("EngineLoop ends only the request whose image cannot be encoded, with the reason", async () => {
  const wanted = await generate(new EngineLoop(new AskingDecoder(), { prefixCache: true }), [1, 2]);
  const engine = new EngineLoop(new AskingDecoder(), { prefixCache: true });
  const failure = new Error("no memory for this image");
  const [before, broken, after] = await Promise.allSettled([
    generate(engine, [1, 2]),
    generate(engine, [1, 2], failure),
    generate(engine, [1, 2]),
  ]);
  assert.deepEqual([before, after], [before, before]);
  assert.deepEqual(before, { status: "fulfilled", value: wanted });
  assert.deepEqual(broken, { status: "rejected", reason: failure });
});

for (const throwing of ["onToken", "onDone"] as const) {
  Deno.test(`EngineLoop ends only the request whose listener throws in ${throwing}`, async () => {
    const wanted = await generate(new EngineLoop(new AskingDecoder(), { prefixCache: true }), [1]);
    const engine = new EngineLoop(new AskingDecoder(), { prefixCache: true });
    const failure = new Error("this listener is broken");
    const broken = Promise.withResolvers<unknown>();
    const fail = () => {
      throw failure;
    };
    const before = generate(engine, [1]);
    engine.add({
      promptTokens: Int32Array.of(1),
      samples: [GREEDY],
      maxTokens: 5,
      topLogprobs: 0,
    }, {
      onToken: () => false,
      onDone: () => {},
      // An exception from this listener must not affect other requests either.
      onError: (error) => {
        broken.resolve(error);
        fail();
      },
      [throwing]: fail,
    });
    const after = generate(engine, [1]);
    assert.deepEqual(await Promise.all([before, after]), [wanted, wanted]);
    assert.equal(await broken.promise, failure);
    const metrics = await engine.metrics.registry.metrics();
    assert.match(metrics, /^hearth_sequences_running 0$/m);
    assert.match(metrics, /^hearth_kv_blocks_used 0$/m);
  });
}

Deno.test("EngineLoop passes the encoder input and the rules of each sample to each step", async () => {
  const seen: StepBatch["sequences"][number][] = [];
  class Watched extends AskingDecoder {
    override run(batch: StepBatch) {
      seen.push(...batch.sequences.map((sequence) => ({
        ...sequence,
        sample: sequence.sample && { ...sequence.sample, mask: sequence.sample.mask },
      })));
      return super.run(batch);
    }
  }
  const engine = new EngineLoop(new Watched(), { prefixCache: false });
  const encoderInput = {};
  const accepted: number[][] = [[], []];
  const chosen: number[][] = [[], []];
  await new Promise<void>((resolve, reject) =>
    engine.add({
      promptTokens: Int32Array.of(1, 2),
      samples: [GREEDY, GREEDY],
      maxTokens: 2,
      topLogprobs: 0,
      encoderInput,
      rules: (sample) => ({
        get mask() {
          return Uint32Array.of(sample, accepted[sample]!.length);
        },
        accept: (tokenId) => void accepted[sample]!.push(tokenId),
      }),
    }, {
      onToken: (sample, { tokenId }) => (chosen[sample]!.push(tokenId), false),
      onDone: () => resolve(),
      onError: reject,
    })
  );
  assert.ok(seen.every((sequence) => sequence.encoderInput === encoderInput));
  const masks = seen.flatMap(({ sample }) => sample?.mask === undefined ? [] : [[...sample.mask]]);
  assert.deepEqual(masks.toSorted(), [[0, 0], [0, 1], [1, 0], [1, 1]]);
  assert.deepEqual(accepted, chosen);
  assert.equal(chosen[0]!.length, 2);
});
