/** A stream goes on while a long prompt is read, on devices whose steps take what a formula says. */
import assert from "node:assert/strict";
import { PrefillPace } from "../../../src/engine/prefill_pace.ts";
import { Scheduler } from "../../../src/engine/scheduler.ts";
import type { ScheduledStep } from "../../../src/engine/step.ts";
import { countFrom } from "./make_sequence.ts";
import { GREEDY, makeLimits } from "./simulated_decoder.ts";

const PROMPT_TOKENS = 20_000;
const LIMITS = makeLimits({
  contextLength: 40_960,
  maxBatchTokens: 512,
  numBlocks: 8192,
  blockSize: 16,
});
const TOKEN = { tokenId: 7, logprob: 0, top: [] };

/** Milliseconds of a step of so many rows, which see so many keys all together. */
type StepMs = (numRows: number, numKeys: number) => number;

/** Named after what they are like. */
const DEVICES: Readonly<Record<string, StepMs>> = {
  "a graphics card": (rows, keys) => 8 + 0.11 * rows + keys * 2e-6,
  "a slow graphics card, long prompts of which cost more": (rows, keys) =>
    40 + 0.9 * rows + keys * 4e-5,
  "a processor": (rows, keys) => 60 + 16 * rows + keys * 1e-4,
  "a processor that has but one way for all steps": (rows, keys) => 30 * rows + keys * 1e-4,
};

/** A device on which steps of more rows than `most` run in another way, which takes `ms` more. */
function withCliff(step: StepMs, most: number, ms: number): StepMs {
  return (rows, keys) => step(rows, keys) + (rows > most ? ms : 0);
}

interface Reading {
  /** Between two tokens of the stream, before and while the prompt is read. */
  readonly usualMs: number;
  readonly gapsMs: readonly number[];
  /** Until the prompt is read, in the stream's company and if the stream did not matter. */
  readonly readMs: number;
  readonly heedlessMs: number;
}

/** A stream of tokens, beside which a long prompt arrives. */
function read(stepMs: StepMs): Reading {
  const scheduler = new Scheduler(LIMITS, { prefixCache: true });
  const pace = new PrefillPace();
  let nowMs = 0;
  const computeTime = ({ scheduled, numTokens }: ScheduledStep) =>
    stepMs(
      numTokens,
      scheduled.reduce(
        (sum, { sequence, numTokens }) => sum + numTokens * (sequence.numComputed + numTokens),
        0,
      ),
    );
  const run = () => {
    const step = scheduler.schedule(pace.mostPromptTokens(nowMs))!;
    const ms = computeTime(step);
    nowMs += ms;
    const sampled = step.scheduled.filter(({ samples }) => samples).map(() => TOKEN);
    scheduler.commit(step, sampled);
    pace.observe(step, { ms, nowMs });
    return { ms, step };
  };
  const add = (promptTokens: readonly number[]) =>
    scheduler.add({ promptTokens: Int32Array.from(promptTokens), samples: [GREEDY] })[0]!;
  const stream = add(countFrom(0, 30));
  const before = Array.from({ length: 40 }, () => run().ms).slice(1);
  const prompt = add(countFrom(100, PROMPT_TOKENS));
  const gapsMs: number[] = [];
  const startMs = nowMs;
  while (prompt.length === PROMPT_TOKENS) {
    const { ms, step } = run();
    assert(step.scheduled.some(({ sequence }) => sequence === stream), "the stream waits");
    gapsMs.push(ms);
  }
  let heedlessMs = 0;
  for (let done = 0; done < PROMPT_TOKENS; done += 511) heedlessMs += stepMs(512, 511 * done);
  return { usualMs: Math.max(...before), gapsMs, readMs: nowMs - startMs, heedlessMs };
}

for (const [name, stepMs] of Object.entries(DEVICES)) {
  Deno.test(`PrefillPace keeps a stream going on ${name}`, () => {
    const { usualMs, gapsMs, readMs, heedlessMs } = read(stepMs);
    const longest = Math.max(...gapsMs) / usualMs;
    assert(longest < 3, `a gap of ${longest.toFixed(2)} times the usual one`);
    // As much as the aim allows is read, and no less.
    assert(readMs < 2.6 * heedlessMs, `${(readMs / heedlessMs).toFixed(2)} times as long`);
  });
}

Deno.test("PrefillPace learns once of a size from which on steps take far longer", () => {
  const { usualMs, gapsMs } = read(withCliff(DEVICES["a graphics card"]!, 17, 200));
  const tooLong = gapsMs.filter((ms) => ms >= 3 * usualMs);
  assert(tooLong.length <= 1, `${tooLong.length} of ${gapsMs.length} gaps`);
});

Deno.test("PrefillPace lets prompts be read at once where nobody waits for a next token", () => {
  const scheduler = new Scheduler(LIMITS, { prefixCache: true });
  const pace = new PrefillPace();
  scheduler.add({ promptTokens: new Int32Array(2000), samples: [GREEDY] });
  const step = scheduler.schedule(pace.mostPromptTokens(0))!;
  assert.deepEqual([step.numTokens, step.numNextTokens], [512, 0]);
});

Deno.test("PrefillPace never reads less than costs little, whatever a step took", () => {
  const pace = new PrefillPace(24);
  const observe = (numPromptTokens: number, ms: number) =>
    pace.observe({ numNextTokens: 1, numTokens: 1 + numPromptTokens }, { ms, nowMs: 0 });
  observe(0, 5);
  for (const ms of [500, 9, 200]) {
    assert.equal(pace.mostPromptTokens(0), 24);
    observe(24, ms);
  }
  assert.equal(pace.mostPromptTokens(0), 24);
});

Deno.test("PrefillPace follows a device that gets slower, and quicker again", () => {
  const pace = new PrefillPace();
  let nowMs = 0;
  const run = (perToken: number) => {
    const numPromptTokens = pace.mostPromptTokens(nowMs);
    const ms = 10 + perToken * numPromptTokens;
    pace.observe({ numNextTokens: 1, numTokens: 1 + numPromptTokens }, { ms, nowMs: nowMs += ms });
    return numPromptTokens;
  };
  const settle = (perToken: number) => Array.from({ length: 30 }, () => run(perToken)).at(-1)!;
  assert.equal(settle(0.1), 125);
  assert.equal(settle(1), 12);
  assert.equal(settle(0.2), 62);
});
