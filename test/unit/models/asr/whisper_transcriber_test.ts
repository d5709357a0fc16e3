/** The sequential algorithm with a simulated decoder that knows the script. */
import assert from "node:assert/strict";
import { Sequential } from "../../../../src/models/asr/whisper_transcriber.ts";
import type { DecodingResult } from "../../../../src/models/asr/window_decoder.ts";

const TIMES = 1000;
const GOOD = {
  meanLogprob: -0.2,
  compressionRatio: 1,
  noSpeechProbability: 0.01,
  temperature: 0,
};

/** A sentence of words with one token each, and its time. */
interface Said {
  readonly start: number;
  readonly end: number;
  readonly words: readonly number[];
}

interface Heard {
  readonly start: number;
  readonly end: number;
  readonly words: readonly number[];
}

function timestamp(seconds: number): number {
  return TIMES + Math.round(seconds * 50);
}

function makeWindow(
  tokens: readonly number[],
  figures: Partial<DecodingResult> = {},
): DecodingResult {
  return { ...GOOD, tokens, ...figures };
}

/** The decoder's output for a sentence that the window cuts off. */
type AtCut = "omits" | "opens" | "writes";

/** The output of a perfect model for a window that begins at `offset`. */
function writeWindow(script: readonly Said[], offset: number, atCut: AtCut): number[] {
  const end = offset + 30;
  return script.flatMap(({ start, end: stop, words }) => {
    // A sentence that started before the window is not transcribed.
    if (start < offset - 0.011 || start >= end) return [];
    if (stop <= end) return [timestamp(start - offset), ...words, timestamp(stop - offset)];
    if (atCut === "omits") return [];
    const heard = words.slice(0, Math.ceil(words.length * (end - start) / (stop - start)));
    return [timestamp(start - offset), ...(atCut === "writes" ? heard : [])];
  });
}

interface Run {
  readonly heard: readonly Heard[];
  readonly seeks: readonly number[];
  /** Where windows ended. */
  readonly ends: readonly number[];
}

function run(
  totalSeconds: number,
  decode: (offsetSeconds: number, endSeconds: number) => DecodingResult,
  speech?: readonly (readonly [startSeconds: number, endSeconds: number])[],
): Run {
  const sequential = new Sequential({
    numFrames: Math.round(totalSeconds * 100),
    windowFrames: 3000,
    framesPerSecond: 100,
    timestampsStart: TIMES,
    speech: speech?.map(([start, end]) => ({ start: start * 100, end: end * 100 })),
  });
  const heard: Heard[] = [];
  const seeks: number[] = [];
  const ends: number[] = [];
  for (let range = sequential.next(); range !== undefined; range = sequential.next()) {
    const { start, end } = range;
    seeks.push(start);
    ends.push(end);
    assert.ok(seeks.length < 10_000, "the recording has no end");
    for (const segment of sequential.accept(decode(start / 100, end / 100))) {
      heard.push({
        start: Number(segment.startSeconds.toFixed(2)),
        end: Number(segment.endSeconds.toFixed(2)),
        words: segment.tokens.filter((token) => token < TIMES),
      });
    }
  }
  return { heard, seeks, ends };
}

/** Sentences with pauses between them; every word is a different token. */
function makeScript(totalSeconds: number, seed: number): Said[] {
  let state = seed;
  const random = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
  const round = (seconds: number) => Math.round(seconds * 50) / 50;
  const script: Said[] = [];
  let word = 0;
  for (let start = round(random() * 3);;) {
    const end = round(start + 0.4 + random() * 8);
    if (end > totalSeconds) return script;
    const words = Array.from({ length: 1 + Math.floor(random() * 9) }, () => word++ % TIMES);
    script.push({ start, end, words });
    start = round(end + random() * (random() < 0.1 ? 20 : 2));
  }
}

for (const atCut of ["omits", "opens", "writes"] as const) {
  Deno.test(`Sequential loses and duplicates no word in an hour if the decoder ${atCut} cut sentences`, () => {
    for (const seed of [1, 2, 3]) {
      const script = makeScript(3600, seed);
      const { heard, seeks } = run(3600, (offset) => {
        const tokens = writeWindow(script, offset, atCut);
        // A decoder that omits the cut sentence ends the window with two timestamps instead of one.
        const isCut = script.some(({ start, end }) =>
          start > offset - 0.011 && start < offset + 30 && end > offset + 30
        );
        return makeWindow(
          atCut === "omits" && isCut && tokens.length > 0 ? [...tokens, tokens.at(-1)!] : tokens,
        );
      });
      assert.deepEqual(heard, script.map(({ start, end, words }) => ({ start, end, words })));
      assert.ok(seeks.length < 300);
    }
  });
}

Deno.test("Sequential begins the next window at the end of the last complete segment", () => {
  const tokens = [
    timestamp(0.5),
    1,
    timestamp(10),
    timestamp(12),
    2,
    timestamp(25),
    timestamp(25),
    3,
  ];
  const { seeks } = run(60, (offset) => makeWindow(offset === 0 ? tokens : []));
  assert.deepEqual(seeks, [0, 2500, 5500]);
});

Deno.test("Sequential continues after the whole window if its text is complete", () => {
  const tokens = [timestamp(0), 1, timestamp(10), timestamp(12), 2, timestamp(25)];
  const { heard, seeks } = run(40, (offset) => makeWindow(offset === 0 ? tokens : []));
  assert.deepEqual(seeks, [0, 3000]);
  assert.deepEqual(heard, [{ start: 0, end: 10, words: [1] }, { start: 12, end: 25, words: [2] }]);
});

Deno.test("Sequential leaves a single cut sentence to the next window", () => {
  const { heard, seeks } = run(50, (offset) =>
    makeWindow(
      offset === 0 ? [timestamp(24), 1, 2] : [timestamp(0), 1, 2, 3, timestamp(10)],
    ));
  assert.deepEqual(seeks, [0, 2400]);
  assert.deepEqual(heard, [{ start: 24, end: 34, words: [1, 2, 3] }]);
});

Deno.test("Sequential ends unterminated text at the end of the recording", () => {
  const { heard } = run(12.34, () => makeWindow([timestamp(2), 1]));
  assert.deepEqual(heard, [{ start: 2, end: 12.34, words: [1] }]);
});

Deno.test("Sequential skips windows that are probably silent, unless their text is likely", () => {
  const silent = { meanLogprob: -1.5, noSpeechProbability: 0.9 };
  const speech = [timestamp(1), 7, timestamp(2)];
  const { heard, seeks } = run(90, (offset) => makeWindow(speech, offset === 60 ? {} : silent));
  assert.deepEqual(seeks, [0, 3000, 6000]);
  assert.deepEqual(heard, [{ start: 61, end: 62, words: [7] }]);
  const likely = run(30, () => makeWindow(speech, { noSpeechProbability: 0.9 }));
  assert.equal(likely.heard.length, 1);
});

Deno.test("Sequential advances if a decoder makes no progress, repeats itself, or is silent", () => {
  const stuck = [timestamp(0), 1, timestamp(0), timestamp(0), 2];
  const looping = [timestamp(0), ...new Array(223).fill(5)];
  for (const tokens of [stuck, looping, [], [timestamp(0)], [timestamp(0.02)], [5, 6]]) {
    const { seeks } = run(300, () => makeWindow(tokens));
    assert.deepEqual(seeks, Array.from({ length: 10 }, (_, i) => i * 3000), String(tokens));
  }
});

Deno.test("Sequential skips a remainder too short for a word, but not a short recording", () => {
  assert.deepEqual(run(30.05, () => makeWindow([])).seeks, [0]);
  assert.deepEqual(run(30.2, () => makeWindow([])).seeks, [0, 3000]);
  assert.deepEqual(run(0.05, () => makeWindow([])).seeks, [0]);
});

Deno.test("Sequential skips everything except speech, and cuts no speech", () => {
  const speech = [[12, 20], [23, 40], [41, 55], [60, 62], [300, 302], [305, 329], [
    331,
    340,
  ]] as const;
  const { seeks, ends, heard } = run(600, (start, end) => {
    const inside = speech.filter(([from, to]) => from >= start && to <= end);
    return makeWindow(
      inside.flatMap(([from, to]) => [timestamp(from - start), 1, timestamp(to - start)]),
    );
  }, speech);
  assert.deepEqual(seeks, [1200, 4100, 6000, 30000, 33100]);
  assert.deepEqual(ends, [4000, 5500, 6200, 32900, 34000]);
  assert.deepEqual(heard.map(({ start, end }) => [start, end]), speech);
});

Deno.test("Sequential divides speech that is longer than a window, and leaves the cut sentence to the next", () => {
  const { seeks, ends, heard } = run(90, (start) =>
    makeWindow(
      start === 10
        ? [timestamp(0), 1, timestamp(20), timestamp(20), 2]
        : [timestamp(0), 2, 3, timestamp(15)],
    ), [[10, 45]]);
  assert.deepEqual({ seeks, ends }, { seeks: [1000, 3000], ends: [4000, 4500] });
  assert.deepEqual(heard, [{ start: 10, end: 30, words: [1] }, {
    start: 30,
    end: 45,
    words: [2, 3],
  }]);
});

Deno.test("Sequential ends no segment after the speech, and transcribes nothing without speech", () => {
  const late = makeWindow([timestamp(0.2), 1, timestamp(29)]);
  const { heard } = run(60, () => late, [[3, 7]]);
  assert.deepEqual(heard, [{ start: 3.2, end: 7, words: [1] }]);
  assert.deepEqual(run(60, () => late, []).seeks, []);
});
