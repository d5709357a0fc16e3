/** Long recordings in a CTC recogniser with a network that detects tones, one per letter. */
import assert from "node:assert/strict";
import { AudioReader } from "../../../../src/media/audio.ts";
import { CtcGreedyDecoder } from "../../../../src/models/asr/ctc_load.ts";
import { openFrameRecogniser } from "../../../../src/models/asr/frame_recogniser.ts";
import type { SampleRange } from "../../../../src/models/asr/recogniser.ts";
import { SpeechMetrics } from "../../../../src/models/asr/recogniser.ts";
import type { TranscriptSegment } from "../../../../src/models/task.ts";
import { makeWav, RATE_HZ } from "../../../fixtures/audio/audio_files.ts";

const LETTERS = ["", " ", "a", "b", "c", "d", "e", "f"];
const SAMPLES_PER_FRAME = 320;
const KERNEL_SAMPLES = 400;
const LETTER_SECONDS = 0.1;
const GAP_SECONDS = 0.06;

function computeFrequency(letter: number): number {
  return 200 + 200 * letter;
}

/** The strength of each tone in each frame, with a blank that is weaker than any tone. */
function hearTones(samples: Float32Array): Float32Array {
  const numFrames = Math.floor((samples.length - KERNEL_SAMPLES) / SAMPLES_PER_FRAME) + 1;
  const logits = new Float32Array(numFrames * LETTERS.length);
  for (let frame = 0; frame < numFrames; frame++) {
    const start = frame * SAMPLES_PER_FRAME;
    const sound = samples.subarray(start, start + KERNEL_SAMPLES);
    logits[frame * LETTERS.length] = 2;
    if (sound.every((sample) => sample === 0)) continue;
    for (let letter = 1; letter < LETTERS.length; letter++) {
      let [cosine, sine] = [0, 0];
      sound.forEach((sample, i) => {
        const phase = 2 * Math.PI * computeFrequency(letter) * i / RATE_HZ;
        cosine += sample * Math.cos(phase);
        sine += sample * Math.sin(phase);
      });
      logits[frame * LETTERS.length + letter] = 10 * Math.hypot(cosine, sine) * 2 / KERNEL_SAMPLES;
    }
  }
  return logits;
}

interface Word {
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

/** Spells words in tones, each word from its start in seconds. */
function spell(
  words: readonly (readonly [string, number])[],
  seconds: number,
): { samples: Float32Array; spelt: Word[] } {
  const samples = new Float32Array(seconds * RATE_HZ);
  const spelt = words.map(([text, start]) => {
    let at = start;
    for (const letter of `${text} `) {
      const frequency = computeFrequency(LETTERS.indexOf(letter));
      const first = Math.round(at * RATE_HZ);
      for (let i = first; i < first + LETTER_SECONDS * RATE_HZ; i++) {
        samples[i] = 0.5 * Math.sin(2 * Math.PI * frequency * i / RATE_HZ);
      }
      at += LETTER_SECONDS + GAP_SECONDS;
    }
    return { text, start, end: at - LETTER_SECONDS - 2 * GAP_SECONDS };
  });
  return { samples, spelt };
}

interface Heard {
  readonly segments: readonly TranscriptSegment[];
  /** Number of samples of each window. */
  readonly windows: readonly number[];
}

async function hear(samples: Float32Array, speech?: readonly SampleRange[]): Promise<Heard> {
  const windows: number[] = [];
  const recogniser = openFrameRecogniser({
    dtype: "fp32",
    sampleRateHz: RATE_HZ,
    samplesPerFrame: SAMPLES_PER_FRAME,
    languages: [],
    metrics: new SpeechMetrics(),
    run: (window) => {
      windows.push(window.length);
      const rows = hearTones(window);
      return Promise.resolve({ rows, numFrames: rows.length / LETTERS.length });
    },
    openDecoder: () => new CtcGreedyDecoder({ blank: 0, texts: LETTERS }),
    dispose: () => Promise.resolve(),
  });
  await using audio = new AudioReader(makeWav(samples), { sampleRateHz: RATE_HZ });
  const segments: TranscriptSegment[] = [];
  const recording = {
    read: audio.read.bind(audio),
    numSamples: await audio.scan(),
    speech,
    index: 0,
    language: undefined,
    translates: false,
    timesWords: true,
  };
  const { signal } = new AbortController();
  for await (const window of recogniser.transcribe({ ...recording, temperature: 0, signal })) {
    segments.push(...window.segments);
  }
  return { segments, windows };
}

function assertHeard({ segments }: Heard, spelt: readonly Word[]): void {
  assert.equal(
    segments.map(({ text }) => text).join(""),
    spelt.map(({ text }) => ` ${text}`).join(""),
  );
  assert.deepEqual(segments.map(({ id }) => id), [...segments.keys()]);
  const timed = segments.flatMap(({ words }) => words!);
  assert.deepEqual(timed.map(({ text }) => text), spelt.map(({ text }) => text));
  for (const [i, { text, startSeconds, endSeconds }] of timed.entries()) {
    assert.ok(Math.abs(startSeconds - spelt[i]!.start) < 0.05, `${startSeconds}: ${text}`);
    assert.ok(Math.abs(endSeconds - spelt[i]!.end) < 0.05, `${endSeconds}: ${text}`);
  }
  const words = segments.flatMap(({ text }) => text.trim().split(" "));
  let at = 0;
  for (const { text, startSeconds, endSeconds } of segments) {
    const [first, last] = [at, at + text.trim().split(" ").length - 1];
    assert.ok(
      Math.abs(startSeconds - spelt[first]!.start) < 0.05,
      `${startSeconds}: ${words[first]}`,
    );
    assert.ok(Math.abs(endSeconds - spelt[last]!.end) < 0.05, `${endSeconds}: ${words[last]}`);
    at = last + 1;
  }
}

/** Words throughout a recording, so that some lie on every seam of the windows. */
const MANY = Array.from({ length: 60 }, (_, i): [string, number] => {
  const text = ["abba", "fee", "cab", "deed", "facade"][i % 5]!;
  return [text, 0.4 + i * 1.55 + (i % 3) * 0.1];
});

Deno.test("openFrameRecogniser() transcribes a long recording in windows, and loses and repeats no word", async () => {
  const { samples, spelt } = spell(MANY, 95);
  const heard = await hear(samples);
  assertHeard(heard, spelt);
  assert.deepEqual(heard.windows.map((length) => length / RATE_HZ), [30, 30, 30, 23]);
  assert.ok(heard.segments.length > 20, "pauses end segments");
});

Deno.test("openFrameRecogniser() transcribes recordings of any length, including the shortest", async () => {
  for (const seconds of [29.98, 30, 30.02, 30.3, 54, 54.01]) {
    const { samples, spelt } = spell([["abba", 1], ["fade", 23.6], ["bed", seconds - 1]], seconds);
    assertHeard(await hear(samples), spelt);
  }
  for (const length of [1, 160, 399, 400, 2000]) {
    const { segments, windows } = await hear(new Float32Array(length));
    assert.deepEqual({ segments, windows }, { segments: [], windows: [Math.max(length, 1600)] });
  }
});

Deno.test("openFrameRecogniser() transcribes only speech, with correct times", async () => {
  const { samples, spelt } = spell([["abba", 1], ["face", 50], ["bad", 70], ["fed", 71.2]], 120);
  const speech = [[49.7, 51.3], [69.813, 73]].map(([start, end]) => ({
    start: Math.round(start! * RATE_HZ),
    end: Math.round(end! * RATE_HZ),
  }));
  const heard = await hear(samples, speech);
  assertHeard(heard, spelt.slice(1));
  assert.deepEqual(heard.windows.map((length) => length / RATE_HZ), [1.6, 3.187]);
});
