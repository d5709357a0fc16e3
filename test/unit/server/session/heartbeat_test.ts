import assert from "node:assert/strict";
import { countStepsIn, makeStepMemory, runStep } from "../../../../src/base/threads.ts";
import { Heartbeat, STEP_FACTOR } from "../../../../src/server/session/client.ts";

/** A heartbeat that watches the steps of this thread. */
function makeHeart(): Heartbeat {
  const steps = makeStepMemory();
  countStepsIn(steps);
  return new Heartbeat({ timeoutMs: 6_000, steps });
}

/** Beats until the worker is declared lost, at most `max` times. */
function untilLost(heart: Heartbeat, max = 1_000): { beats: number; reason: string | undefined } {
  for (let beats = 1; beats <= max; beats++) {
    const reason = heart.beat();
    if (reason !== undefined) return { beats, reason };
  }
  return { beats: max, reason: undefined };
}

Deno.test("Heartbeat.beat() declares a silent worker lost after the timeout, and reports its silence", () => {
  const heart = makeHeart();
  heart.loaded();
  heart.beat();
  assert.equal(heart.silentSeconds, 0);
  heart.beat();
  assert.equal(heart.silentSeconds, heart.beatMs / 1000);
  const { beats, reason } = untilLost(heart);
  assert.equal((beats + 1) * heart.beatMs, 6_000);
  assert.match(reason!, /did not answer \(--worker-timeout 6\)/);
});

Deno.test("Heartbeat.beat() never declares an answering worker lost", () => {
  const heart = makeHeart();
  heart.loaded();
  for (let beat = 0; beat < 1_000; beat++) {
    assert.equal(heart.beat(), undefined);
    heart.heard();
  }
});

Deno.test("Heartbeat.beat() allows more time for each stage of loading", () => {
  const heart = makeHeart();
  const stage = 6 * STEP_FACTOR;
  assert.equal(untilLost(heart, stage).reason, undefined);
  heart.heard();
  const { beats, reason } = untilLost(heart);
  assert.equal(beats, stage + 1);
  assert.match(reason!, /while it loaded/);
});

Deno.test("Heartbeat.beat() allows more time for a step, whether or not the worker answers meanwhile", async () => {
  for (const answers of [false, true]) {
    const heart = makeHeart();
    heart.loaded();
    const end = Promise.withResolvers<void>();
    const step = runStep(() => end.promise);
    let reason: string | undefined;
    let beats = 0;
    for (; reason === undefined; beats++) {
      reason = heart.beat();
      if (answers) heart.heard();
      assert.equal(heart.silentSeconds, 0);
    }
    assert.equal(beats, 6 * STEP_FACTOR + 1);
    assert.match(reason, /a step of the model did not end/);
    end.resolve();
    await step;
  }
});

Deno.test("Heartbeat.beat() counts every part of a step as a sign of life", async () => {
  const heart = makeHeart();
  heart.loaded();
  await runStep(async () => {
    for (let part = 0; part < 10; part++) {
      assert.equal(untilLost(heart, 100).reason, undefined);
      await runStep(() => Promise.resolve());
    }
  });
  assert.equal(
    untilLost(heart, 6).reason,
    undefined,
    "six beats of silence after the step are allowed",
  );
});
