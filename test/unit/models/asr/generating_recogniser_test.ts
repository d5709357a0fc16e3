import assert from "node:assert/strict";
import { findQuietCut } from "../../../../src/models/asr/generating_recogniser.ts";

const RATE_HZ = 1000;
const OPTIONS = { sampleRateHz: RATE_HZ, maxSamples: 20 * RATE_HZ };

/** Noise with quieter stretches `[startSeconds, endSeconds, loudness]`. */
function makeSound(
  seconds: number,
  quiet: readonly (readonly [number, number, number])[],
): Float32Array {
  let state = 1;
  return Float32Array.from({ length: seconds * RATE_HZ }, (_, i) => {
    state = state * 48271 % 2147483647;
    const time = i / RATE_HZ;
    const loudness = quiet.find(([start, end]) => start <= time && time < end)?.[2] ?? 1;
    return (state / 2147483647 - 0.5) * loudness;
  });
}

Deno.test("findQuietCut() cuts at the quietest point of the last five seconds", () => {
  const cut = findQuietCut(makeSound(20, [[3, 5, 0], [16, 16.4, 0.1], [18, 18.3, 0.05]]), OPTIONS);
  assert.ok(cut > 18 * RATE_HZ && cut < 18.3 * RATE_HZ, `${cut}`);
});

Deno.test("findQuietCut() cuts silence as late as possible, and does not cut sound below the limit", () => {
  assert.equal(findQuietCut(new Float32Array(20 * RATE_HZ), OPTIONS), 19_950);
  assert.equal(findQuietCut(new Float32Array(19_999), OPTIONS), 19_999);
});

Deno.test("findQuietCut() cuts only in the second half if the limit is short", () => {
  const options = { sampleRateHz: RATE_HZ, maxSamples: 4 * RATE_HZ };
  const cut = findQuietCut(makeSound(4, [[1, 1.5, 0], [2.5, 2.8, 0.1]]), options);
  assert.ok(cut > 2.5 * RATE_HZ && cut < 2.8 * RATE_HZ, `${cut}`);
});
