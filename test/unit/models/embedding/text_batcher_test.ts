import assert from "node:assert/strict";
import { type Encoder, TextBatcher } from "../../../../src/models/embedding/text_batcher.ts";
import type { TextJob } from "../../../../src/models/embedding/text_batcher.ts";

/** Runs any batch immediately. */
const ENCODER: Encoder = {
  maxTexts: 16,
  pads: true,
  width: 1,
  run: (texts) => Promise.resolve(new Float32Array(texts.length)),
  dispose: () => Promise.resolve(),
};

/** A request of `numTexts` texts, each of which takes `encodeMs` to encode. */
class Texts implements TextJob {
  readonly numTexts: number;
  readonly #encodeMs: number;
  numEncoded = 0;

  constructor(numTexts: number, encodeMs: number) {
    this.numTexts = numTexts;
    this.#encodeMs = encodeMs;
  }

  encode(): { readonly ids: readonly number[] } {
    const endMs = performance.now() + this.#encodeMs;
    while (performance.now() < endMs);
    this.numEncoded++;
    return { ids: [1, 2, 3] };
  }

  onRow(): void {}
}

for (const pads of [true, false]) {
  Deno.test(`TextBatcher: texts that are slow to encode do not delay others, with${pads ? "" : "out"} padding`, async () => {
    const batcher = new TextBatcher({ encoder: { ...ENCODER, pads }, maxBatchTokens: 4096 });
    const ending = new AbortController();
    const large = new Texts(1000, 2);
    const larger = new Texts(1000, 2);
    const endings = [large, larger].map((job) => batcher.run(job, ending.signal).catch(() => {}));
    await new Promise((resolve) => setTimeout(resolve, 20));
    await batcher.run(new Texts(1, 0), ending.signal);
    assert.ok(
      large.numEncoded < 100,
      `${large.numEncoded} texts were encoded before the small request`,
    );
    assert.ok(
      larger.numEncoded < 100,
      `${larger.numEncoded} texts were encoded before the small request`,
    );
    ending.abort();
    await Promise.all(endings);
    await batcher.dispose();
  });
}
