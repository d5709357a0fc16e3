/** Other requests continue while the vocabulary for grammars is read. */
import assert from "node:assert/strict";
import { assertSameValues } from "../fixtures/engine/compare_values.ts";
import { yieldToEvents } from "../../src/base/timing.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { GrammarCompiler } from "../../src/engine/grammar/compiler.ts";
import type { GrammarTokens } from "../../src/engine/grammar/grammar.ts";
import { GREEDY, withEngine } from "../fixtures/engine/generate.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { schemaSpec } from "../fixtures/text/grammar.ts";
import { Random } from "../unit/engine/random.ts";

const VOCAB_SIZE = 151_936;

/** Words and parts of words, like those of tokenizers, many with the same prefixes. */
function readTokens(): GrammarTokens {
  const random = new Random(11);
  const letter = () => 97 + random.between(0, 25);
  const bytes = Array.from({ length: VOCAB_SIZE }, (_, id) => {
    if (id < 256) return Uint8Array.of(id);
    const space = random.chance(0.5) ? [32] : [];
    return Uint8Array.of(...space, ...Array.from({ length: random.between(2, 9) }, letter));
  });
  return {
    vocabSize: VOCAB_SIZE,
    getBytes: (id) => bytes[id],
    addedTokens: new Map(),
    endTokenIds: new Set([VOCAB_SIZE - 1]),
  };
}

Deno.test("GrammarCompiler.prepare() lets other requests' steps continue, and returns the same masks", async () => {
  const tokens = readTokens();
  const grammars = new GrammarCompiler(() => tokens);
  const folder = findModelFolder("hearth-demo-chat")!;
  await withEngine({ backend: new CpuBackend(), folder, dtype: "q4" }, async (engine) => {
    let numTokens = 0;
    const end = engine.add({
      promptTokens: Int32Array.of(5, 6, 7),
      samples: [GREEDY],
      topLogprobs: 0,
      logitBias: new Map([[2039, -100], [2041, -100]]),
    }, { onToken: () => (numTokens++, false), onDone: () => {}, onError: assert.fail });
    while (numTokens === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    const numBefore = numTokens;
    const [first, second] = [grammars.prepare(), grammars.prepare()];
    assert.equal(first, second, "concurrent callers wait for the same vocabulary");
    // The number of steps between two slices depends on the machine.
    let numTurns = 0;
    while (!grammars.isPrepared) {
      await yieldToEvents();
      numTurns++;
    }
    await first;
    assert.ok(numTurns >= 20, `the vocabulary was read in ${numTurns} slices`);
    assert.ok(numTokens > numBefore, "no token came while the vocabulary was read");
    end();
    await engine.close();
  });
  const spec = schemaSpec({ type: "object", properties: { a: { maxLength: 5 } } });
  const [sliced, whole] = [grammars, new GrammarCompiler(() => tokens)]
    .map((each) => each.compile(spec).createMatcher());
  for (const byte of new TextEncoder().encode('{"a": "')) {
    assertSameValues(sliced!.mask, whole!.mask);
    sliced!.accept(byte);
    whole!.accept(byte);
  }
  const { mask } = sliced!;
  for (let id = 256; id < VOCAB_SIZE - 1; id++) {
    const isAllowed = (mask[id >>> 5]! >>> (id & 31) & 1) === 1;
    assert.equal(isAllowed, tokens.getBytes(id)!.length <= 5, `token ${id}`);
  }
});
