import assert from "node:assert/strict";
import {
  LoudnessDetector,
  TurnDetector,
  type TurnEvent,
} from "../../../../../src/server/http/realtime/turn_detector.ts";

const SETTINGS = { threshold: 0.5, prefixMs: 300, silenceMs: 500 };

/** The events for these likelihoods, one for each 100 ms. */
function findTurns(likelihoods: readonly number[], settings = SETTINGS, startMs = 0): TurnEvent[] {
  const detector = new TurnDetector(settings, { windowMs: 100, startMs });
  return likelihoods.flatMap((likelihood) => detector.push(likelihood) ?? []);
}

const repeat = (value: number, times: number) => new Array<number>(times).fill(value);

Deno.test("TurnDetector: a turn includes the sound before it, and the silence that ends it", () => {
  const likelihoods = [...repeat(0, 10), ...repeat(0.9, 10), ...repeat(0, 10)];
  assert.deepEqual(findTurns(likelihoods), [
    { type: "started", atMs: 700 },
    { type: "stopped", atMs: 2500 },
  ]);
  assert.deepEqual(findTurns(likelihoods, { threshold: 0.5, prefixMs: 0, silenceMs: 1000 }), [
    { type: "started", atMs: 1000 },
    { type: "stopped", atMs: 3000 },
  ]);
  assert.deepEqual(findTurns(likelihoods, { ...SETTINGS, threshold: 0.95 }), []);
});

Deno.test("TurnDetector: a turn continues through short pauses, and while the likelihood is just below the threshold", () => {
  const pause = [...repeat(0.9, 5), ...repeat(0, 4), ...repeat(0.9, 5), ...repeat(0, 5)];
  assert.deepEqual(findTurns(pause).map(({ atMs }) => atMs), [0, 1900]);
  const almost = [...repeat(0.9, 5), ...repeat(0.4, 20), ...repeat(0, 5)];
  assert.deepEqual(findTurns(almost).map(({ atMs }) => atMs), [0, 3000]);
});

Deno.test("TurnDetector: turns do not share sound, and a click is not a turn", () => {
  const detector = new TurnDetector(SETTINGS, { windowMs: 32, startMs: 1000 });
  const click = [0.9, 0.9, 0, 0];
  assert.deepEqual(click.flatMap((likelihood) => detector.push(likelihood) ?? []), []);
  const twice = [...repeat(0.9, 5), ...repeat(0, 5), ...repeat(0.9, 5), ...repeat(0, 5)];
  assert.deepEqual(findTurns(twice, SETTINGS, 1000), [
    { type: "started", atMs: 1000 },
    { type: "stopped", atMs: 2000 },
    { type: "started", atMs: 2000 },
    { type: "stopped", atMs: 3000 },
  ]);
});

Deno.test("TurnDetector: in speech without pauses, a turn ends each minute", () => {
  const events = findTurns(repeat(0.9, 1500));
  assert.deepEqual(events.map(({ atMs }) => atMs), [0, 60_000, 60_000, 120_000, 120_000]);
});

/** The share of windows that are classified as speech. */
async function hear(
  loudness: (seconds: number) => number,
  { from = 0, to = 10 } = {},
): Promise<number> {
  const rateHz = 16_000;
  // The same noise each time.
  let seed = 1;
  const noise = () => (seed = seed * 48_271 % 2_147_483_647) / 2_147_483_647 * 2 - 1;
  const samples = Int16Array.from(
    { length: 10 * rateHz },
    (_, n) => 32_767 * 10 ** (loudness(n / rateHz) / 20) * noise(),
  );
  const likelihoods = await new LoudnessDetector(rateHz).push(samples);
  const part = likelihoods.slice(from / 10 * likelihoods.length, to / 10 * likelihoods.length);
  return part.filter((likelihood) => likelihood >= 0.5).length / part.length;
}

Deno.test("LoudnessDetector detects sound 30 dB above noise, and not the noise", async () => {
  assert.equal(await hear(() => -40), 0);
  assert.equal(await hear(() => -70), 0);
  for (const noiseDb of [-60, -50, -40]) {
    const speech = (seconds: number) => seconds >= 5 && seconds < 8 ? noiseDb + 30 : noiseDb;
    assert.equal(await hear(speech, { to: 5 }), 0, `${noiseDb}`);
    assert.equal(await hear(speech, { from: 5.1, to: 7.9 }), 1, `${noiseDb}`);
    assert.equal(await hear(speech, { from: 8.1 }), 0, `${noiseDb}`);
  }
});
