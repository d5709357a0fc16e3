/** Word times, in a recording with known times, on both backends. */
import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import type { Dtype } from "../../src/base/config.ts";
import { loadWithModels, makeSessions, onWeb } from "../fixtures/engine/transformers_sessions.ts";
import { loadAsr } from "../fixtures/engine/open_folder.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import type { TranscriptSegment } from "../../src/models/task.ts";
import { copyWithAttentionOutputs } from "../fixtures/graphs/attention_outputs.ts";
import { decodeWhole, makeWav, RATE_HZ } from "../fixtures/audio/audio_files.ts";
import { findModelFolder, unlessThere } from "../fixtures/engine/goldens.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { speechTest } from "../fixtures/audio/speech.ts";
import { assertOrdered, measureWords, SPOKEN } from "../fixtures/audio/spoken_words.ts";
import { transcribeFile, withAsr } from "../fixtures/audio/transcribe.ts";

/** Allowed error of a word's start within a sentence: the median, and for nine of ten words. */
const STARTS_SECONDS = { median: 0.08, most: 0.35 };
/** Allowed error of the start of a sentence's first word and the end of its last. */
const EDGES_SECONDS = { median: 0.03, most: 0.2 };

function assertNear(
  errors: readonly number[],
  allowed: { readonly median: number; readonly most: number },
): void {
  const [median, most] = [0.5, 0.9].map((part) => errors[Math.floor(part * errors.length)]!);
  assert.ok(median! <= allowed.median, `the median is ${median}`);
  assert.ok(most! <= allowed.most, `one in ten is off by more than ${most}`);
}

function assertWords(segments: readonly TranscriptSegment[]): void {
  assertOrdered(segments);
  const { numSentences, starts, edges } = measureWords(segments);
  assert.ok(numSentences >= 9, `${numSentences} of ten sentences were transcribed correctly`);
  assertNear(starts, STARTS_SECONDS);
  assertNear(edges, EDGES_SECONDS);
}

async function hear(
  audio: Uint8Array<ArrayBuffer>,
  options: { readonly backend: Backend; readonly dtype: Dtype },
): Promise<readonly TranscriptSegment[]> {
  let segments: readonly TranscriptSegment[] = [];
  await withAsr(options, async (model) => {
    const task = { language: "en", timesWords: true };
    ({ segments } = await transcribeFile(model, audio.slice(), task));
  });
  return segments;
}

Deno.test("hearth-demo-asr fp32 on the CPU returns word times, window after window", async () => {
  assertWords(await hear(SPOKEN.audio, { backend: new CpuBackend(), dtype: "fp32" }));
});

gpuTest("hearth-demo-asr on WebGPU returns the same word times as on the CPU", async (gpu) => {
  const samples = await decodeWhole(SPOKEN.audio.slice());
  const audio = makeWav(samples.subarray(0, 9.5 * RATE_HZ));
  const readWords = (segments: readonly TranscriptSegment[]) =>
    segments.flatMap(({ words }) => words!);
  const want = readWords(await hear(audio, { backend: new CpuBackend(), dtype: "fp32" }));
  assert.equal(want.length, 8 + 6 + 4);
  const segments = await hear(audio, { backend: await WebGpuBackend.create(gpu), dtype: "fp16" });
  assertOrdered(segments);
  for (const [i, { text, startSeconds, endSeconds }] of readWords(segments).entries()) {
    assert.equal(text, want[i]!.text);
    // Attention in half precision differs slightly.
    assert.ok(Math.abs(startSeconds - want[i]!.startSeconds) < 0.061, text);
    assert.ok(Math.abs(endSeconds - want[i]!.endSeconds) < 0.061, text);
  }
});

Deno.test("AsrModel gives words on request, and the same results alone and together", async () => {
  await withAsr({ backend: new CpuBackend(), dtype: "fp32" }, async (model) => {
    const clip = await Deno.readFile(new URL("../fixtures/audio/speech.wav", import.meta.url));
    const ask = async (file: Uint8Array, timesWords: boolean) =>
      (await transcribeFile(model, file.slice(), { language: "en", timesWords })).segments;
    const [withWords, without] = await Promise.all([
      ask(SPOKEN.audio, true),
      ask(SPOKEN.audio, false),
    ]);
    assertWords(withWords);
    assert.deepEqual(without, withWords.map(({ words: _, ...segment }) => segment));
    assert.ok(without.every((segment) => !("words" in segment)));
    const [again, other] = await Promise.all([ask(SPOKEN.audio, true), ask(clip, true)]);
    assert.deepEqual(again, withWords);
    assert.deepEqual(other, await ask(clip, true));
    assertOrdered(other);
  });
});

Deno.test("AsrModel refuses only the recording whose words cannot be aligned", async () => {
  const backend = new CpuBackend();
  const openCrossAttention = backend.openCrossAttention.bind(backend);
  backend.openCrossAttention = (options) => {
    const attention = openCrossAttention(options);
    attention.openAlignment = () => {
      throw new Error("no memory for the alignment");
    };
    return attention;
  };
  await withAsr({ backend, dtype: "fp32" }, async (model) => {
    const file = await Deno.readFile(new URL("../fixtures/audio/speech.wav", import.meta.url));
    const ask = (timesWords: boolean) =>
      transcribeFile(model, file.slice(), { language: "en", timesWords });
    const { text } = await ask(false);
    const [before, refused, after] = await Promise.allSettled([ask(false), ask(true), ask(false)]);
    assert.equal(refused.status, "rejected");
    for (const other of [before, after]) {
      assert.equal(other.status === "fulfilled" && other.value.text, text);
    }
  });
});

speechTest("AsrModel returns word times for a window that it retried", async (speech) => {
  await withAsr({ backend: new CpuBackend(), dtype: "fp32" }, async (model) => {
    // Heavily overdriven: the model is not sure of any word.
    const long = await Deno.readFile(`${speech}/demo/long_40s.wav`);
    const samples = (await decodeWhole(long)).slice(0, 30 * RATE_HZ);
    const wav = makeWav(samples.map((sample) => sample > 0 ? 0.25 : -0.25));
    const { segments } = await transcribeFile(model, wav, { language: "en", timesWords: true });
    assert.ok(segments.some(({ temperature }) => temperature > 0));
    assertOrdered(segments);
  });
});

Deno.test("hearth-demo-asr's word times equal those that transformers.js gives to the word before, and are closer to the truth", async () => {
  await using folder = await copyWithAttentionOutputs();
  const samples = (await decodeWhole(SPOKEN.audio.slice())).subarray(0, 9.5 * RATE_HZ);
  const { pipeline } = await loadWithModels({
    modelsFolder: folder.models,
    openModel: makeSessions(onWeb()),
  });
  const recognise = await pipeline("automatic-speech-recognition", folder.name, {
    dtype: "fp32",
    device: "auto",
  });
  const { chunks } = await recognise(samples, { language: "en", return_timestamps: "word" }) as {
    readonly chunks: readonly { readonly text: string; readonly timestamp: readonly number[] }[];
  };
  const options = { backend: new CpuBackend(), dtype: "fp32" } as const;
  const segments = await hear(makeWav(samples), options);
  const ours = segments.flatMap(({ words }) => words!);
  assert.deepEqual(chunks.map(({ text }) => text.trim()), ours.map(({ text }) => text));
  const known = SPOKEN.sentences.flatMap(({ words }) => words);
  const differences = { next: [] as number[], ours: [] as number[], theirs: [] as number[] };
  let index = 0;
  for (const [i, { text, startSeconds }] of ours.entries()) {
    const theirs = chunks[i]!.timestamp[0]!;
    const next = ours[i + 1]?.startSeconds ?? NaN;
    if (!/[.?]$/.test(text)) differences.next.push(Math.abs(theirs - next));
    if (known[index]!.text !== text.replaceAll(/[^\w']/g, "")) continue;
    const { start } = known[index++]!;
    differences.ours.push(Math.abs(startSeconds - start));
    differences.theirs.push(Math.abs(theirs - start));
  }
  const computeMedian = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]!;
  const [next, own, other] = [differences.next, differences.ours, differences.theirs].map(
    computeMedian,
  );
  // transformers.js assigns to a token the attention after that token, which is the position of the next one.
  assert.ok(next! <= 0.061, `the median is ${next}`);
  assert.ok(own! < 0.06 && own! < other! / 2, `${own} and ${other}`);
});

const VAD = findModelFolder("silero-vad");
const SILENCE_SECONDS = 40;

interface Span {
  readonly startSeconds: number;
  readonly endSeconds: number;
}

Deno.test({
  name: "AsrModel has right word times where it skips silence" +
    unlessThere(VAD !== undefined, "models/silero-vad", "a model that tells speech from silence"),
  ignore: VAD === undefined,
  fn: async () => {
    const folder = await openFolder(findModelFolder("hearth-demo-asr")!);
    const model = await loadAsr(folder, {
      ...{ backend: new CpuBackend(), dtype: "fp32", vadFolder: VAD },
      onProgress: () => {},
    });
    try {
      const silence = new Float32Array(SILENCE_SECONDS * RATE_HZ);
      const wav = makeWav([...silence, ...await decodeWhole(SPOKEN.audio.slice())]);
      const heard = await transcribeFile(model, wav, { language: "en", timesWords: true });
      assertOrdered(heard.segments);
      const earlier = <T extends Span>(span: T): T => ({
        ...span,
        startSeconds: span.startSeconds - SILENCE_SECONDS,
        endSeconds: span.endSeconds - SILENCE_SECONDS,
      });
      assertWords(
        heard.segments.map(({ words, ...segment }) => ({
          ...earlier(segment),
          words: words!.map(earlier),
        })),
      );
    } finally {
      await model.dispose();
    }
  },
});
