import assert from "node:assert/strict";
import { limitPeaks } from "../../../src/media/sound_format.ts";
import { stretchTime } from "../../../src/media/sound_rate.ts";

const RATE_HZ = 16_000;

function tone(hz: number, seconds: number): Float32Array<ArrayBuffer> {
  return Float32Array.from(
    { length: seconds * RATE_HZ },
    (_, i) => 0.5 * Math.sin(2 * Math.PI * hz * i / RATE_HZ),
  );
}

/** Of the strongest tone between 120 and 220 Hz, to a hertz. */
function computePitch(samples: Float32Array): number {
  let [best, most] = [0, 0];
  for (let hz = 120; hz <= 220; hz++) {
    let [re, im] = [0, 0];
    samples.forEach((sample, i) => {
      re += sample * Math.cos(2 * Math.PI * hz * i / RATE_HZ);
      im += sample * Math.sin(2 * Math.PI * hz * i / RATE_HZ);
    });
    if (re * re + im * im > most) [best, most] = [hz, re * re + im * im];
  }
  return best;
}

for (const speed of [0.25, 0.5, 0.8, 1.3, 2, 4]) {
  Deno.test(`stretchTime() by ${speed} changes the length and not the pitch`, () => {
    const samples = tone(170, 1);
    const stretched = stretchTime(samples, { speed, sampleRateHz: RATE_HZ });
    assert.equal(stretched.length, Math.round(RATE_HZ / speed));
    const inside = stretched.subarray(400, -900);
    assert.ok(Math.abs(computePitch(inside.subarray(0, RATE_HZ)) - 170) <= 2);
    // Neither gaps nor bumps where frames meet.
    for (let at = 0; at + 200 < inside.length; at += 200) {
      const loudest = inside.subarray(at, at + 200).reduce((a, b) => Math.max(a, Math.abs(b)), 0);
      assert.ok(loudest > 0.4 && loudest < 0.6, `${loudest} at ${at}`);
    }
  });
}

Deno.test("stretchTime() leaves alone what has the right speed, or is too short to cut", () => {
  const samples = tone(100, 0.01);
  assert.equal(stretchTime(samples, { speed: 2, sampleRateHz: RATE_HZ }), samples);
  const long = tone(100, 1);
  assert.equal(stretchTime(long, { speed: 1, sampleRateHz: RATE_HZ }), long);
});

Deno.test("limitPeaks() makes softer as a whole what is too loud, and nothing else", () => {
  const loud = Float32Array.of(0.5, -2, 1);
  limitPeaks(loud);
  assert.deepEqual(loud, Float32Array.of(0.2375, -0.95, 0.475));
  const soft = Float32Array.of(0.5, -1);
  limitPeaks(soft);
  assert.deepEqual(soft, Float32Array.of(0.5, -1));
});

Deno.test("limitPeaks() refuses samples that are not finite", () => {
  assert.throws(() => limitPeaks(Float32Array.of(0, NaN, 0.5)), RangeError);
  assert.throws(() => limitPeaks(Float32Array.of(0, Infinity)), RangeError);
});
