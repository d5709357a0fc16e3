/** A stream continues while a long prompt is computed, on simulated devices with durations from a formula. */
import assert from "node:assert/strict";
import { PrefillPace } from "../../../src/engine/prefill_pace.ts";

const PROMPT_TOKENS = 20_000;
const MOST_TOKENS = 512;

/** Durations of a device, in milliseconds. */
interface Device {
  /** Duration of a decode step. */
  readonly usualMs: number;
  /** Number of parts of a prefill step. */
  readonly numParts: number;
  /** Duration of a part, by the step's tokens and all keys up to its end. */
  readonly partMs: (numTokens: number, numKeys: number) => number;
  readonly isQueued?: boolean;
}

const DEVICES: Readonly<Record<string, Device>> = {
  "a graphics card": {
    usualMs: 3,
    numParts: 57,
    partMs: (tokens, keys) => tokens * (1e-3 + keys * 1.5e-7),
    isQueued: true,
  },
  "a slow graphics card, whose parts are long": {
    usualMs: 40,
    numParts: 7,
    partMs: (tokens, keys) => tokens * (0.5 + keys * 4e-5),
    isQueued: true,
  },
  "a processor, which divides parts": {
    usualMs: 60,
    numParts: 2000,
    partMs: (tokens, keys) => tokens * (8e-3 + keys * 5e-7),
  },
};

/** Times between the stream's tokens during a prompt, and the prompt's duration with and without the stream. */
interface Reading {
  readonly gapsMs: readonly number[];
  readonly readMs: number;
  readonly aloneMs: number;
}

/** Simulates a stream while a long prompt is computed. */
function read({ usualMs, numParts, partMs, isQueued = false }: Device): Reading {
  const pace = new PrefillPace({ isQueued });
  let nowMs = 0;
  let lastMs = 0;
  /** Queued work, which the device does before the next decode step. */
  let queuedMs = 0;
  const gapsMs: number[] = [];
  const runNext = () => {
    const ms = queuedMs + usualMs;
    queuedMs = 0;
    nowMs += ms;
    pace.observe(ms, nowMs);
    gapsMs.push(nowMs - lastMs);
    lastMs = nowMs;
  };
  for (let i = 0; i < 5; i++) runNext();
  gapsMs.length = 0;
  const startMs = nowMs;
  let aloneMs = 0;
  for (let done = 0; done < PROMPT_TOKENS;) {
    const numTokens = Math.min(MOST_TOKENS, PROMPT_TOKENS - done, pace.mostPromptTokens);
    for (let part = 0; part < numParts; part++) {
      const ms = partMs(numTokens, done + numTokens);
      aloneMs += ms;
      if (isQueued) queuedMs += ms;
      else nowMs += ms;
      pace.addPart();
      if (pace.remainingMs(nowMs) > 0) continue;
      for (let left = pace.isStale ? 2 : 1; left > 0; left--) runNext();
    }
    pace.endPrompts(numTokens);
    done += numTokens;
  }
  return { gapsMs, readMs: nowMs - startMs, aloneMs };
}

for (const [name, device] of Object.entries(DEVICES)) {
  Deno.test(`PrefillPace keeps 99 % of a stream's gaps below three decode steps on ${name}`, () => {
    const { gapsMs, readMs, aloneMs } = read(device);
    // Where parts are long, the first gaps are longer, until the pace limits the tokens of a step.
    const tooLong = gapsMs.filter((ms) => ms >= 3 * device.usualMs);
    assert(tooLong.length <= gapsMs.length / 100, `${tooLong.length} of ${gapsMs.length} gaps`);
    const share = readMs / aloneMs;
    assert(share < 2.6, `${share.toFixed(2)} times as long as alone`);
  });
}

Deno.test("PrefillPace lets the stream's first steps run immediately, and knows their length after two in a row", () => {
  const pace = new PrefillPace();
  pace.addPart();
  assert.equal(pace.remainingMs(0), 0);
  assert.equal(pace.isStale, true);
  pace.observe(30, 30);
  assert.equal(pace.isStale, true);
  pace.observe(10, 40);
  assert.equal(pace.isStale, false);
  // The first decode step ran during a prefill step, and took longer: that leaves the prefill step less time.
  assert.equal(pace.remainingMs(40), 5);
  assert.equal(pace.remainingMs(45), 0);
});

Deno.test("PrefillPace follows a stream that becomes slower, and faster again", () => {
  const pace = new PrefillPace();
  const settle = (ms: number) => {
    for (let i = 0; i < 1000; i++) {
      pace.addPart();
      for (let left = pace.isStale ? 2 : 1; left > 0; left--) pace.observe(ms, 0);
    }
    return pace.remainingMs(0);
  };
  assert.equal(Math.round(settle(10)), 10);
  assert.equal(Math.round(settle(40)), 40);
  assert.equal(Math.round(settle(5)), 5);
});
