/** Voice activity: the model's likelihoods, and recordings whose silence is skipped. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import type { Backend } from "../../src/device/backend.ts";
import type { AsrModel } from "../../src/models/asr/asr.ts";
import { loadAsr } from "../fixtures/engine/open_folder.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { findSpeechRegions } from "../../src/models/asr/speech_regions.ts";
import { VoiceActivity } from "../../src/models/asr/voice_activity.ts";
import { makeWav } from "../fixtures/audio/audio_files.ts";
import { findModelFolder, unlessThere } from "../fixtures/engine/goldens.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { findForeignSpeech, findSpeechFolder, readJfk } from "../fixtures/audio/speech.ts";
import { moveWeights } from "../fixtures/models/move_weights.ts";
import { makeTinyVad, referenceLikelihoods } from "../fixtures/models/tiny_vad.ts";
import { makeTinySpeech } from "../fixtures/models/tiny_speech.ts";
import {
  readSpeechGoldens,
  transcribeFile,
  type Transcript,
} from "../fixtures/audio/transcribe.ts";

const SILERO = findModelFolder("silero-vad");
const TINY = await makeTinyVad();
const MODELS = [["", TINY.folder], ...SILERO ? [[" (Silero)", SILERO]] : []] as const;
const SPEECH = findSpeechFolder();
const RATE_HZ = 16_000;

interface VadGolden {
  readonly runs: readonly { readonly sampling_rate: number; readonly probs: readonly number[] }[];
  readonly speech_segments_16k_seconds: readonly (readonly [number, number])[];
}

/** Registers a test for the tiny model, and for the published one if it is available. */
function vadTest(name: string, fn: (vadFolder: string) => Promise<void>): void {
  for (const [suffix, folder] of MODELS) Deno.test(`${name}${suffix}`, () => fn(folder!));
}

/** Registers a test of the published model's goldens. */
function goldenTest(name: string, fn: (vadFolder: string) => Promise<void>): void {
  const isThere = SILERO !== undefined && findForeignSpeech() !== undefined;
  const note = unlessThere(isThere, "models/silero-vad", "published weights");
  Deno.test({ name: name + note, ignore: !isThere, fn: () => fn(SILERO!) });
}

function readGolden(vadFolder: string): VadGolden {
  return JSON.parse(Deno.readTextFileSync(`${vadFolder}/golden.json`));
}

Deno.test("VoiceActivity gives each window the state and the last samples of the window before", async () => {
  const samples = Float32Array.from(
    { length: 5 * 512 + 100 },
    (_, i) => Math.sin(i / 9) * (Math.floor(i / 700) % 2 ? 0.01 : 0.002),
  );
  for (const [rate, size, context] of [[16_000, 512, 64], [8_000, 256, 32]] as const) {
    const padded = new Float32Array(context + Math.ceil(samples.length / size) * size);
    padded.set(samples, context);
    const windows = Array.from(
      { length: (padded.length - context) / size },
      (_, i) => padded.subarray(i * size, (i + 1) * size + context),
    );
    const activity = await VoiceActivity.load(TINY.folder);
    const listeners = [activity.listen(rate), activity.listen(rate)];
    for (let at = 0; at < samples.length; at += 333) {
      for (const listener of listeners) await listener.push(samples.subarray(at, at + 333));
    }
    const wanted = referenceLikelihoods(windows);
    assert.ok(Math.min(...wanted) < 0.2 && Math.max(...wanted) > 0.8);
    for (const listener of listeners) {
      const seen = await listener.finish();
      assert.equal(seen.length, wanted.length);
      wanted.forEach((want, i) => assert.ok(Math.abs(seen[i]! - want) < 1e-5, `${i}: ${seen[i]}`));
    }
    await activity.dispose();
  }
});

Deno.test("VoiceActivity reads weights from a file beside its graph", async () => {
  await using copy = await makeTinyVad();
  const [weights] = await moveWeights(join(copy.folder, "onnx"));
  const samples = Float32Array.from({ length: 2048 }, (_, i) => Math.sin(i / 9) * 0.005);
  const [want, seen] = await Promise.all([TINY, copy].map(async ({ folder }) => {
    const activity = await VoiceActivity.load(folder);
    const listener = activity.listen(RATE_HZ);
    await listener.push(samples);
    await activity.dispose();
    return listener.wholeLikelihoods;
  }));
  assert.deepEqual(seen, want);
  await Deno.truncate(weights!, 5);
  await assert.rejects(VoiceActivity.load(copy.folder), {
    name: "StartupError",
    message: /onnx\/model\.onnx cannot be loaded: .*onnx_data ends at byte 5/,
  });
});

goldenTest(
  "VoiceActivity returns the likelihoods of an independent reference, for sound in chunks of any size",
  async (vad) => {
    const whole = readJfk(findForeignSpeech()!);
    const activity = await VoiceActivity.load(vad);
    for (const { sampling_rate, probs } of readGolden(vad).runs) {
      const samples = sampling_rate === RATE_HZ ? whole : whole.filter((_, i) => i % 2 === 0);
      // Two recordings at a time, in different chunk sizes.
      const listeners = (sampling_rate === RATE_HZ ? [1000, 37_123] : [5000]).map((size) => ({
        size,
        listener: activity.listen(sampling_rate),
      }));
      await Promise.all(listeners.map(async ({ size, listener }) => {
        for (let at = 0; at < samples.length; at += size) {
          await listener.push(samples.subarray(at, at + size));
        }
        const likelihoods = await listener.finish();
        // The reference omits a window that is not full.
        assert.equal(likelihoods.length, Math.ceil(samples.length / (sampling_rate / 31.25)));
        probs.forEach((want, i) =>
          assert.ok(Math.abs(likelihoods[i]! - want) < 1e-3, `${i}: ${likelihoods[i]}`)
        );
      }));
    }
    await activity.dispose();
  },
);

goldenTest(
  "findSpeechRegions() finds the same speech regions as an independent reference",
  (vad) => {
    const { runs, speech_segments_16k_seconds } = readGolden(vad);
    const { probs } = runs.find((run) => run.sampling_rate === RATE_HZ)!;
    const regions = findSpeechRegions(probs, {
      sampleRateHz: RATE_HZ,
      windowSamples: 512,
      numSamples: probs.length * 512,
      maxSpeechSeconds: Infinity,
      minSpeechSeconds: 0.25,
      minSilenceSeconds: 0.1,
      paddingSeconds: 0,
    });
    assert.deepEqual(
      regions.map(({ start, end }) => [start / RATE_HZ, end / RATE_HZ]),
      speech_segments_16k_seconds,
    );
    return Promise.resolve();
  },
);

interface Said {
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

/** Clips of the goldens with silence and faint noise around them. */
function makeRecording(
  speechFolder: string,
  parts: readonly (string | number)[],
): { wav: Uint8Array<ArrayBuffer>; said: Said[] } {
  const { clips } = readSpeechGoldens(speechFolder);
  const samples: number[] = [];
  const said: Said[] = [];
  let state = 1;
  for (const part of parts) {
    const offset = samples.length / RATE_HZ;
    if (typeof part === "number") {
      for (let i = 0; i < part * RATE_HZ; i++) {
        state = state * 48271 % 2147483647;
        samples.push((state / 2147483647 - 0.5) * 0.002);
      }
      continue;
    }
    const pcm = new Int16Array(Deno.readFileSync(`${speechFolder}/demo/${part}`).slice(44).buffer);
    for (const sample of pcm) samples.push(sample / 32768);
    for (const { start, end, text } of clips.find(({ file }) => file === part)!.segments) {
      said.push({ text, start: offset + start, end: offset + end });
    }
  }
  return { wav: makeWav(samples), said };
}

async function numWindows(model: AsrModel): Promise<number> {
  const figures = await model.metrics.getMetricsAsJSON();
  return figures.find(({ name }) => name === "hearth_windows_total")!.values[0]!.value;
}

function assertSaid({ segments }: Transcript, said: readonly Said[]): void {
  assert.deepEqual(segments.map(({ text }) => text), said.map(({ text }) => text));
  segments.forEach(({ startSeconds, endSeconds, text }, i) => {
    assert.ok(
      Math.abs(startSeconds - said[i]!.start) <= 0.1,
      `${text}: ${startSeconds}, ${said[i]!.start}`,
    );
    assert.ok(
      Math.abs(endSeconds - said[i]!.end) <= 0.1,
      `${text}: ${endSeconds}, ${said[i]!.end}`,
    );
  });
}

async function assertPassesOver(
  backend: Backend,
  [vadFolder, speechFolder]: readonly [string, string],
  parts: readonly (string | number)[],
): Promise<void> {
  const { wav, said } = makeRecording(speechFolder, parts);
  const folder = await openFolder(findModelFolder("hearth-demo-asr")!);
  const model = await loadAsr(folder, { backend, dtype: "fp32", onProgress: () => {}, vadFolder });
  assertSaid(await transcribeFile(model, wav), said);
  assert.equal(await numWindows(model), parts.filter((part) => typeof part === "string").length);
  await model.dispose();
}

const PARTS = [3, "10_both.wav", 125, "04_voice.wav", 20, "01_sent.wav", 12];

vadTest(
  "AsrModel with a voice activity model transcribes speech minutes apart, at its true times, and no silence",
  (vad) => assertPassesOver(new CpuBackend(), [vad, SPEECH], PARTS),
);

gpuTest(
  "AsrModel with a voice activity model also skips silence on WebGPU",
  async (gpu) =>
    await assertPassesOver(await WebGpuBackend.create(gpu), [TINY.folder, SPEECH], [
      3,
      PARTS[1]!,
      62,
    ]),
);

vadTest(
  "AsrModel with a voice activity model transcribes nothing in silence, and keeps the requested language",
  async (vad) => {
    const folder = await openFolder(findModelFolder("hearth-demo-asr")!);
    const model = await loadAsr(folder, {
      backend: new CpuBackend(),
      onProgress: () => {},
      vadFolder: vad,
    });
    const silence = makeWav(new Float32Array(RATE_HZ * 35));
    const transcript = await transcribeFile(model, silence, { language: "en" });
    assert.deepEqual(transcript, {
      language: "english",
      durationSeconds: 35,
      segments: [],
      text: "",
      type: "start",
    });
    assert.equal((await transcribeFile(model, silence)).language, "");
    assert.equal(await numWindows(model), 0);
    await model.dispose();
  },
);

vadTest("models without times use those of the speech regions", async (vadFolder) => {
  const { wav, said } = makeRecording(SPEECH, [5, "10_both.wav", 20, "04_voice.wav", 5]);
  for (const name of ["moonshine", "wav2vec2"] as const) {
    await using tiny = await makeTinySpeech(name);
    const options = { backend: new CpuBackend(), onProgress: () => {}, vadFolder };
    const model = await loadAsr(await openFolder(tiny.folder), options);
    const { segments } = await transcribeFile(model, wav);
    assert.equal(await numWindows(model), 2, name);
    assert.ok(segments.length >= 2);
    for (const { startSeconds, endSeconds } of segments) {
      const isSpeech = (from: Said, to: Said) =>
        startSeconds > from.start - 0.6 && endSeconds < to.end + 0.6;
      assert.ok(
        isSpeech(said[0]!, said[1]!) || isSpeech(said[2]!, said[2]!),
        `${startSeconds} to ${endSeconds}`,
      );
    }
    await model.dispose();
  }
});

vadTest(
  "a broken or missing voice activity model is refused, with the files that were read",
  async (vad) => {
    const asr = await openFolder(findModelFolder("hearth-demo-asr")!);
    const load = (vadFolder: string) =>
      loadAsr(asr, { backend: new CpuBackend(), onProgress: () => {}, vadFolder });
    const startup = (message: RegExp) => ({
      name: "StartupError",
      setting: "vadFolder",
      message,
    });
    await assert.rejects(
      load("/no/such/folder"),
      startup(/^.*\/no\/such\/folder cannot be read/),
    );
    const made = await Deno.makeTempDir({ prefix: "hearth-vad-" });
    try {
      await assert.rejects(load(made), startup(/ has no config\.json/));
      const config = JSON.parse(await Deno.readTextFile(`${vad}/config.json`));
      const write = (changed: object) =>
        Deno.writeTextFile(`${made}/config.json`, JSON.stringify(changed));
      await write(config);
      await assert.rejects(
        load(made),
        startup(/ has no onnx\/model\.onnx; it has no graph/),
      );
      await Deno.mkdir(`${made}/onnx`);
      await Deno.writeTextFile(`${made}/onnx/model.onnx`, "no graph");
      await assert.rejects(load(made), startup(/model\.onnx cannot be loaded: /));
      await Deno.copyFile(
        `${findModelFolder("hearth-demo-asr")}/onnx/encoder_model.onnx`,
        `${made}/onnx/model.onnx`,
      );
      await assert.rejects(
        load(made),
        startup(/its graph has the inputs input_features; wanted: input, state, sr/),
      );
      await Deno.copyFile(`${vad}/onnx/model.onnx`, `${made}/onnx/model.onnx`);
      await write({ ...config, sampling_rates: [8000] });
      await assert.rejects(load(made), startup(/does not support 16000 Hz.*\[8000\]/));
      await write({ ...config, state_shape: [2, 1, 64] });
      await assert.rejects(load(made), startup(/is not a voice activity model: /));
    } finally {
      await Deno.remove(made, { recursive: true });
    }
  },
);

Deno.test.afterAll(async () => await TINY[Symbol.asyncDispose]());

vadTest(
  "VoiceActivity returns the same likelihoods if it continues from a saved state",
  async (vadFolder) => {
    const activity = await VoiceActivity.load(vadFolder);
    const samples = Float32Array.from(
      { length: 20 * 512 },
      (_, i) => Math.sin(i / 9) * (Math.floor(i / 2700) % 2 ? 0.3 : 0.002),
    );
    const whole = activity.listen(RATE_HZ);
    await whole.push(samples);
    const pieces: number[] = [];
    let state: ReturnType<typeof activity.listen>["state"] | undefined;
    for (let at = 0; at < samples.length; at += 1777) {
      const listener = activity.listen(RATE_HZ, structuredClone(state));
      await listener.push(samples.subarray(at, at + 1777));
      pieces.push(...listener.wholeLikelihoods);
      state = listener.state;
    }
    assert.deepEqual(pieces, whole.wholeLikelihoods);
    assert.equal(pieces.length, 20);
    await activity.dispose();
  },
);
