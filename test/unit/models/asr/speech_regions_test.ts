import assert from "node:assert/strict";
import {
  findSpeechRegions,
  type SpeechRegionOptions,
} from "../../../../src/models/asr/speech_regions.ts";

const WINDOW = 512;
const RATE_HZ = 16_000;
const WINDOW_SECONDS = WINDOW / RATE_HZ;

/** Default options of the tests: no padding, and Silero's durations. */
const PLAIN = {
  sampleRateHz: RATE_HZ,
  windowSamples: WINDOW,
  maxSpeechSeconds: Infinity,
  minSpeechSeconds: 0.25,
  minSilenceSeconds: 0.1,
  paddingSeconds: 0,
} as const;

/** Likelihoods from stretches `[windows, likelihood]`. */
function make(...stretches: readonly (readonly [number, number])[]): number[] {
  return stretches.flatMap(([count, likelihood]) => new Array<number>(count).fill(likelihood));
}

/** Regions in windows. */
function find(
  likelihoods: readonly number[],
  options: Partial<SpeechRegionOptions> = {},
): number[][] {
  const numSamples = likelihoods.length * WINDOW;
  return findSpeechRegions(likelihoods, { ...PLAIN, numSamples, ...options })
    .map(({ start, end }) => [start / WINDOW, end / WINDOW]);
}

Deno.test("findSpeechRegions() starts a region at one threshold, and ends it below a lower one", () => {
  const likelihoods = make([5, 0.45], [10, 0.5], [20, 0.36], [1, 0.34], [9, 0.4], [5, 0.1], [9, 0]);
  assert.deepEqual(find(likelihoods), [[5, 35]]);
  assert.deepEqual(find(likelihoods, { threshold: 0.55 }), []);
  assert.deepEqual(find(likelihoods, { endThreshold: 0.38 }), [[5, 15]]);
});

Deno.test("findSpeechRegions() keeps short pauses, and drops short speech", () => {
  assert.deepEqual(find(make([10, 0.9], [3, 0.1], [10, 0.9], [4, 0.1], [10, 0.9])), [[0, 23], [
    27,
    37,
  ]]);
  assert.deepEqual(find(make([3, 0], [7, 0.9], [10, 0], [8, 0.9], [10, 0])), [[20, 28]]);
  assert.deepEqual(find(make([10, 0.9], [3, 0.1])), [[0, 13]]);
  assert.deepEqual(find(make([4, 0.2])), []);
  assert.deepEqual(find([]), []);
});

Deno.test("findSpeechRegions() pads regions, and divides a gap that is shorter than two paddings", () => {
  const options = { paddingSeconds: 4 * WINDOW_SECONDS };
  const likelihoods = make([2, 0], [20, 0.9], [6, 0], [20, 0.9], [10, 0], [20, 0.9], [3, 0]);
  assert.deepEqual(find(likelihoods, options), [[0, 25], [25, 52], [54, 81]]);
});

Deno.test("findSpeechRegions() ends with the recording, which may end within a window", () => {
  const regions = findSpeechRegions(make([20, 0.9]), { ...PLAIN, numSamples: 20 * WINDOW - 100 });
  assert.deepEqual(regions, [{ start: 0, end: 20 * WINDOW - 100 }]);
});

Deno.test("findSpeechRegions() cuts a long region at its longest pause, or where speech is least likely", () => {
  const maxSpeechSeconds = 100 * WINDOW_SECONDS;
  const pauses = make([40, 0.9], [5, 0.2], [20, 0.9], [8, 0.2], [20, 0.9], [6, 0.2], [60, 0.9]);
  const options = { maxSpeechSeconds, minSilenceSeconds: 1 };
  assert.deepEqual(find(pauses, options), [[0, 65], [73, 159]]);
  const two = make([60, 0.9], [5, 0.2], [60, 0.9], [5, 0.2], [60, 0.9]);
  assert.deepEqual(find(two, options), [[0, 60], [65, 125], [130, 190]]);
  const least = make([60, 0.9], [1, 0.6], [10, 0.9], [1, 0.5], [90, 0.9]);
  assert.deepEqual(find(least, options), [[0, 71], [71, 162]]);
  // An early cut would leave a short region.
  const early = make([10, 0.9], [1, 0.4], [49, 0.9], [1, 0.6], [90, 0.9]);
  assert.deepEqual(find(early, options), [[0, 60], [60, 151]]);
  const even = find(make([1000, 0.9]), options);
  assert.equal(even.length, 10);
  assert.deepEqual([even[0], even.at(-1)], [[0, 100], [900, 1000]]);
});

Deno.test("findSpeechRegions() returns ordered, disjoint regions within the recording, none too long", () => {
  let state = 1;
  const random = () => (state = state * 48271 % 2147483647) / 2147483647;
  for (let round = 0; round < 200; round++) {
    const pace = 0.02 + random() * 0.5;
    let likelihood = random();
    const likelihoods = Array.from({ length: Math.floor(random() * 3000) }, () => {
      if (random() < pace) likelihood = random();
      return likelihood;
    });
    const maxSpeechSeconds = 2 + random() * 30;
    const numSamples = Math.max(0, likelihoods.length * WINDOW - Math.floor(random() * WINDOW));
    const options = { sampleRateHz: RATE_HZ, windowSamples: WINDOW, numSamples, maxSpeechSeconds };
    const regions = findSpeechRegions(likelihoods, options);
    let last = 0;
    for (const { start, end } of regions) {
      assert.ok(start >= last && end > start && end <= numSamples);
      assert.ok(end - start <= maxSpeechSeconds * RATE_HZ);
      last = end;
    }
    // All speech that is likely for long enough is in a region.
    const covers = (position: number) =>
      regions.some(({ start, end }) => start <= position && position < end);
    likelihoods.forEach((_, window) => {
      const around = likelihoods.slice(window - 4, window + 5);
      if (around.length < 9 || around.some((each) => each < 0.5)) return;
      assert.ok(covers(window * WINDOW), `window ${window} of round ${round}`);
    });
  }
});
