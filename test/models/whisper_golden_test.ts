/** The built-in speech model writes what independent references wrote, on both backends. */
import assert from "node:assert/strict";
import type { Backend } from "../../src/backend/backend.ts";
import { CpuBackend } from "../../src/backend/cpu.ts";
import { WebGpuBackend } from "../../src/backend/webgpu.ts";
import type { Dtype } from "../../src/config.ts";
import { gpuTest } from "../fixtures/gpu.ts";
import { findSpeechFolder, speechTest } from "../fixtures/speech.ts";
import {
  type GoldenSegment,
  readSpeechGoldens,
  transcribeFile,
  withAsr,
} from "../fixtures/transcribe.ts";
import type { TranscriptSegment } from "../../src/models/task.ts";

function assertSegments(
  got: readonly TranscriptSegment[],
  want: readonly GoldenSegment[],
  name: string,
): void {
  assert.deepEqual(got.map(({ text }) => text), want.map(({ text }) => text), name);
  got.forEach(({ startSeconds, endSeconds }, i) => {
    const { start, end } = want[i]!;
    assert.ok(
      Math.abs(startSeconds - start) <= 0.1,
      `${name}: ${startSeconds} where ${start} is right`,
    );
    assert.ok(Math.abs(endSeconds - end) <= 0.1, `${name}: ${endSeconds} where ${end} is right`);
  });
}

interface GoldenOptions {
  readonly backend: Backend;
  readonly dtype: Dtype;
  /** Files to transcribe; all if absent. */
  readonly files?: readonly string[];
}

/** Transcribes clips one after the other, without naming their language, and compares text, tokens and times. */
async function assertClips(speechFolder: string, options: GoldenOptions): Promise<void> {
  const { clips } = readSpeechGoldens(speechFolder);
  await withAsr(options, async (model) => {
    for (const clip of clips) {
      if (options.files?.includes(clip.file) === false) continue;
      const audio = await Deno.readFile(`${speechFolder}/demo/${clip.file}`);
      const transcript = await transcribeFile(model, audio);
      assert.equal(transcript.text, clip.text.trim(), clip.file);
      assert.ok(Math.abs(transcript.durationSeconds - clip.seconds) < 0.01);
      assertSegments(transcript.segments, clip.segments, clip.file);
      if (options.dtype !== "fp32" || clip.segments.length === 0) continue;
      assert.equal(transcript.language, "english");
      const tokens = transcript.segments.flatMap(({ tokens }) => tokens);
      assert.deepEqual([...tokens, 768], clip.token_ids_timestamps, clip.file);
    }
  });
}

/** Transcribes the recording that is longer than a window. */
async function assertLong(speechFolder: string, options: GoldenOptions): Promise<void> {
  const { file, sequential } = readSpeechGoldens(speechFolder).long;
  await withAsr(options, async (model) => {
    const audio = await Deno.readFile(`${speechFolder}/demo/${file}`);
    const { segments, text } = await transcribeFile(model, audio, { language: "en" });
    assert.equal(text, sequential.text.trim());
    assertSegments(segments, sequential.segments, file);
    for (const { seek, token_ids } of sequential.windows) {
      const tokens = segments.filter(({ seekFrame }) => seekFrame === seek)
        .flatMap(({ tokens }) => tokens);
      assert.deepEqual(tokens, token_ids, `window at ${seek}`);
    }
  });
}

speechTest(
  "hearth-demo-asr fp32 on the CPU transcribes its goldens",
  (folder) => assertClips(folder, { backend: new CpuBackend(), dtype: "fp32" }),
);

speechTest(
  "hearth-demo-asr fp32 on the CPU transcribes 38 s window after window",
  (folder) => assertLong(folder, { backend: new CpuBackend(), dtype: "fp32" }),
);

const speechFolder = findSpeechFolder();

function gpuSpeechTest(
  name: string,
  fn: (folder: string, backend: WebGpuBackend) => Promise<void>,
): void {
  if (speechFolder === undefined) {
    Deno.test.ignore(`${name} (../shared is not there)`, () => {});
    return;
  }
  gpuTest(name, async (gpu) => await fn(speechFolder, await WebGpuBackend.create(gpu)));
}

// A software adapter takes seconds for a window; these are one sentence, two, and none.
const FILES = ["04_voice.wav", "10_both.wav", "12_none.wav"];

gpuSpeechTest(
  "hearth-demo-asr fp32 on WebGPU transcribes its goldens",
  (folder, backend) => assertClips(folder, { backend, dtype: "fp32", files: FILES }),
);

gpuSpeechTest(
  "hearth-demo-asr fp16 on WebGPU transcribes its goldens",
  (folder, backend) => assertClips(folder, { backend, dtype: "fp16", files: FILES.slice(0, 1) }),
);

gpuSpeechTest(
  "hearth-demo-asr fp32 on WebGPU transcribes 38 s window after window",
  (folder, backend) => assertLong(folder, { backend, dtype: "fp32" }),
);

speechTest(
  "AsrModel gives recordings that are decoded together what each gives alone",
  async (folder) => {
    const { clips } = readSpeechGoldens(folder);
    await withAsr({ backend: new CpuBackend(), dtype: "fp32" }, async (model) => {
      const files = clips.slice(5).map(({ file }) => Deno.readFileSync(`${folder}/demo/${file}`));
      const transcripts = await Promise.all(files.map((file) => transcribeFile(model, file)));
      assert.deepEqual(
        transcripts.map(({ text }) => text),
        clips.slice(5).map(({ text }) => text.trim()),
      );
      const figures = (await model.metrics.getMetricsAsJSON())
        .find(({ name }) => name === "hearth_encoder_seconds")!.values;
      const { value } = figures.find((figure) =>
        "metricName" in figure && figure.metricName === "hearth_encoder_seconds_count"
      )!;
      assert.ok(value <= 3, `seven windows were encoded in ${value} pieces`);
    });
  },
);

speechTest(
  "AsrModel tries again, hotter, what goes wrong, and gives the same every time, alone or beside others",
  async (folder) => {
    const numSamples = 30 * 16_000;
    const wav = (await Deno.readFile(`${folder}/demo/long_40s.wav`)).slice(0, 44 + 2 * numSamples);
    new DataView(wav.buffer).setUint32(40, 2 * numSamples, true);
    // Overdriven beyond all measure: the model is not sure of any word.
    const samples = new Int16Array(wav.buffer, 44);
    samples.forEach((sample, i) => samples[i] = sample > 0 ? 8000 : -8000);
    const clip = await Deno.readFile(`${folder}/demo/10_both.wav`);
    await withAsr({ backend: new CpuBackend(), dtype: "fp32" }, async (model) => {
      const hear = (file: Uint8Array<ArrayBuffer>) =>
        transcribeFile(model, file, { language: "en" });
      const alone = await hear(wav);
      assert.ok(alone.segments.length > 0);
      assert.ok(alone.segments.every(({ temperature }) => temperature > 0));
      const [again, other] = await Promise.all([hear(wav), hear(clip)]);
      assert.deepEqual(
        again.segments.map(({ tokens, temperature }) => ({ tokens, temperature })),
        alone.segments.map(({ tokens, temperature }) => ({ tokens, temperature })),
      );
      assert.equal(
        other.text,
        "Set an alarm for six in the morning. Ask Michael to feed the horse.",
      );
      assert.ok(other.segments.every(({ temperature }) => temperature === 0));
    });
  },
);
