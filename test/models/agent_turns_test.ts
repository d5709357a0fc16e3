/**
 * A coding agent's turns, rendered by Qwen3's own template: tokens computed for one turn are not computed again for the
 * next.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Decoder, StepBatch, WindowLimits } from "../../src/decoder/decoder.ts";
import { EngineLoop } from "../../src/engine/loop.ts";
import { openAnyFolder } from "../../src/hub/model_folder.ts";
import { loadTokenizer } from "../../src/models/text/tokenizer.ts";
import { unlessThere } from "../fixtures/engine/goldens.ts";
import { generate, readMetric } from "../fixtures/engine/generate.ts";
import { makeLimits, SimulatedDecoder } from "../unit/engine/simulated_decoder.ts";

const FOLDER = fileURLToPath(new URL("../../../shared/tokenizers/qwen3", import.meta.url));
const IS_THERE = existsSync(FOLDER);

/** Counts the tokens that it computes. */
class CountingDecoder implements Decoder {
  readonly limits;
  numComputed = 0;
  readonly #simulated: SimulatedDecoder;

  constructor(numBlocks: number, windows?: readonly WindowLimits[]) {
    this.limits = makeLimits({
      ...{ contextLength: 40_960, maxBatchTokens: 512, blockSize: 16 },
      ...{ numBlocks, windows },
    });
    this.#simulated = new SimulatedDecoder(this.limits);
  }

  run(batch: StepBatch) {
    this.numComputed += batch.numTokens;
    return Promise.resolve(this.#simulated.run(batch));
  }

  dispose(): Promise<void> {
    return Promise.resolve();
  }

  /** Runs a prompt. @returns how many tokens were computed for it. */
  async ask(engine: EngineLoop, tokens: readonly number[]): Promise<number> {
    const before = this.numComputed;
    await generate(engine, { tokens, maxTokens: 1 });
    return this.numComputed - before;
  }
}

const TOOLS = ["read_file", "edit_file", "run_command", "search"].map((name) => ({
  type: "function",
  function: {
    name,
    description: `The ${name} tool. `.repeat(40),
    parameters: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
  },
}));

/** A system prompt of an agent's typical length, with all lines different. */
const SYSTEM = Array.from(
  { length: 900 },
  (_, i) =>
    `${i}. When a file of kind ${i * 7 % 101} is changed, run its checks, and say what failed.`,
).join("\n");

/** Each turn continues the previous one: a call, its result, and a message of the user. */
function makeTurns(count: number) {
  const messages: Record<string, unknown>[] = [
    { role: "system", content: SYSTEM },
    { role: "user", content: "Fix the failing test in parse_test.ts." },
  ];
  return Array.from({ length: count }, (_, turn) => {
    if (turn > 0) {
      const call = { name: "read_file", arguments: { path: `src/part_${turn}.ts` } };
      messages.push(
        { role: "assistant", content: "", tool_calls: [{ type: "function", function: call }] },
        { role: "tool", content: `line ${turn}\n`.repeat(60) },
      );
    }
    return [...messages];
  });
}

/** The prompts of four turns. */
async function renderTurns(): Promise<readonly number[][]> {
  const tokenizer = await loadTokenizer(await openAnyFolder(FOLDER));
  const prompts = makeTurns(4).map((messages) =>
    tokenizer.encode(
      tokenizer.template!.render(messages as never, {
        ...{ tools: TOOLS, add_generation_prompt: true },
      } as never),
    )
  );
  assert(prompts[0]!.length > 18_000, `${prompts[0]!.length} tokens`);
  return prompts.map((prompt) => [...prompt]);
}

/** Runs all turns, and asserts that each computes only its new tokens. */
async function askTurns(
  engine: EngineLoop,
  decoder: CountingDecoder,
  prompts: readonly (readonly number[])[],
): Promise<void> {
  assert.equal(await decoder.ask(engine, prompts[0]!), prompts[0]!.length);
  for (let turn = 1; turn < prompts.length; turn++) {
    const [before, now] = [prompts[turn - 1]!, prompts[turn]!];
    const numSame = now.findIndex((id, i) => id !== before[i]);
    assert(now.length - numSame < 600, "a turn has fewer than 600 new tokens");
    const numComputed = await decoder.ask(engine, now);
    const most = now.length - numSame + decoder.limits.blockSize;
    assert(numComputed <= most, `turn ${turn}: ${numComputed} computed, ${most} new`);
  }
}

Deno.test({
  name:
    "layers with a window continue each of an agent's turns from the previous one, and compute only its new tokens" +
    unlessThere(IS_THERE, "tokenizers/qwen3", "an agent's conversation in Qwen3's template"),
  ignore: !IS_THERE,
  fn: async () => {
    const prompts = await renderTurns();
    // The window is as long as a step; the prompt has more than a thousand blocks.
    const decoder = new CountingDecoder(2048, [{ window: 512, numBlocks: 130 }]);
    const engine = new EngineLoop(decoder, { prefixCache: true });
    await askTurns(engine, decoder, prompts);
    await engine.close();
  },
});

Deno.test({
  name:
    "with the prefix cache each of an agent's turns computes only its new tokens, and unused blocks are evicted" +
    unlessThere(IS_THERE, "tokenizers/qwen3", "an agent's conversation in Qwen3's template"),
  ignore: !IS_THERE,
  fn: async () => {
    const prompts = await renderTurns();
    const decoder = new CountingDecoder(2048);
    const engine = new EngineLoop(decoder, { prefixCache: true });
    await askTurns(engine, decoder, prompts);
    assert.equal(await readMetric(engine, "hearth_prefix_evicted_blocks_total"), 0);
    // Another conversation takes blocks; the agent's next turn finds the remaining blocks of its own.
    const other = prompts[0]!.map((id) => id + 1);
    await decoder.ask(engine, other.slice(0, 17_000));
    const numEvicted = await readMetric(engine, "hearth_prefix_evicted_blocks_total");
    assert(numEvicted > 0 && numEvicted < 1300, `${numEvicted} blocks evicted`);
    const again = await decoder.ask(engine, prompts[0]!);
    // Eviction takes the end of a conversation first.
    assert(again < prompts[0]!.length - 10_000, `${again} computed again`);
    const hits = await readMetric(engine, "hearth_prefix_hit_tokens_total");
    assert(hits > 3 * 18_000);
    await engine.close();
  },
});
