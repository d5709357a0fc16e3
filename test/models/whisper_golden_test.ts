/** The built-in speech model transcribes like independent references, on both backends. */
import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import type { Dtype } from "../../src/base/config.ts";
import type { AsrModel } from "../../src/models/asr/asr.ts";
import { copyWithDisguisedAttention } from "../fixtures/graphs/disguised_softmax.ts";
import { gatherRequests } from "../fixtures/engine/count_calls.ts";
import { unlessThere } from "../fixtures/engine/goldens.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { findSpeechFolder, speechTest } from "../fixtures/audio/speech.ts";
import {
  type GoldenSegment,
  readSpeechGoldens,
  type SpeechGoldens,
  transcribeFile,
  withAsr,
} from "../fixtures/audio/transcribe.ts";
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
  /** The built-in model's if absent. */
  readonly folder?: string;
}

interface ClipOptions extends GoldenOptions {
  /** All at once, instead of one after the other. */
  readonly together: boolean;
  /** Uses every nth clip, from the first on; all if absent. */
  readonly every?: number;
  readonly first?: number;
}

/** Transcribes clips without a given language, and compares text, tokens and times. */
async function assertClips(speechFolder: string, options: ClipOptions): Promise<void> {
  const { every = 1, first = 0 } = options;
  const clips = readSpeechGoldens(speechFolder).clips.filter((_, i) => i % every === first);
  await withAsr(options, async (model) => {
    const hear = async ({ file }: SpeechGoldens["clips"][number]) =>
      transcribeFile(model, await Deno.readFile(`${speechFolder}/demo/${file}`));
    const heard = options.together ? clips.map(hear) : undefined;
    for (const [i, clip] of clips.entries()) {
      const transcript = await (heard?.[i] ?? hear(clip));
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

/** The number of observations of a metric. */
async function readCount(model: AsrModel, metric: string): Promise<number> {
  const { values } = (await model.metrics.getMetricsAsJSON()).find(({ name }) => name === metric)!;
  return values.find((each) => "metricName" in each && each.metricName === `${metric}_count`)!
    .value;
}

/** Transcribes a recording that is longer than a window. */
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

for (const choice of ["native", "web"] as const) {
  const backend = new CpuBackend({ choice });
  speechTest(
    `hearth-demo-asr fp32 on the CPU transcribes its goldens (${choice})`,
    (folder) =>
      assertClips(folder, {
        backend,
        dtype: "fp32",
        together: false,
        every: choice === "web" ? 2 : 1,
      }),
  );
}

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
    Deno.test.ignore(`${name}${unlessThere(false, "models", "published weights")}`, () => {});
    return;
  }
  gpuTest(name, async (gpu) => await fn(speechFolder, await WebGpuBackend.create(gpu)));
}

// A software adapter needs two seconds per window. So each dtype gets few clips: fp32 one with one
// segment and the one with two, fp16 one with one segment and the one without speech.
gpuSpeechTest(
  "hearth-demo-asr fp32 on WebGPU transcribes its goldens, at once",
  (folder, backend) =>
    assertClips(folder, { backend, dtype: "fp32", together: true, every: 8, first: 1 }),
);

gpuSpeechTest(
  "hearth-demo-asr fp16 on WebGPU transcribes its goldens, at once",
  (folder, backend) =>
    assertClips(folder, { backend, dtype: "fp16", together: true, every: 8, first: 3 }),
);

speechTest(
  "AsrModel gives recordings that are decoded together the same text as each alone",
  async (folder) => {
    const { clips } = readSpeechGoldens(folder);
    // The native runtime runs the encoder whole, one window at a time. A cut encoder processes the
    // windows of a step together: a step has eight sequences, two for each window.
    for (const [choice, numPieces] of [["native", 7], ["web", 2]] as const) {
      await withAsr({ backend: new CpuBackend({ choice }), dtype: "fp32" }, async (model) => {
        const files = clips.slice(5).map(({ file }) => Deno.readFileSync(`${folder}/demo/${file}`));
        // Each recording first detects silence and the language.
        using _gathered = gatherRequests(2 * files.length);
        const transcripts = await Promise.all(files.map((file) => transcribeFile(model, file)));
        assert.deepEqual(
          transcripts.map(({ text }) => text),
          clips.slice(5).map(({ text }) => text.trim()),
        );
        assert.equal(await readCount(model, "hearth_encoder_seconds"), numPieces);
      });
    }
  },
);

speechTest(
  "AsrModel adds a clip to the steps of an earlier recording, and gives each the same text as alone",
  async (folder) => {
    const { clips, long } = readSpeechGoldens(folder);
    const clip = clips.find(({ file }) => file === "10_both.wav")!;
    await withAsr({ backend: new CpuBackend(), dtype: "fp32" }, async (model) => {
      const hear = async (file: string) =>
        await transcribeFile(model, await Deno.readFile(`${folder}/demo/${file}`));
      const numSteps = () => readCount(model, "hearth_step_seconds");
      await hear(long.file);
      await hear(clip.file);
      const inTurn = await numSteps();
      const before = hear(long.file);
      while (await numSteps() < inTurn + 5) await new Promise((resolve) => setTimeout(resolve, 1));
      using _gathered = gatherRequests(2);
      const after = hear(clip.file);
      assert.equal((await before).text, long.sequential.text.trim());
      assert.equal((await after).text, clip.text.trim());
      const together = await numSteps() - inTurn;
      // The clip alone needs about twenty steps.
      assert.ok(
        together < inTurn - 10,
        `${together} steps together, ${inTurn} one after the other`,
      );
    });
  },
);

speechTest(
  "hearth-demo-asr transcribes its goldens with a decoder that cannot be cut",
  async (folder) => {
    await using copy = await copyWithDisguisedAttention();
    const backend = new CpuBackend();
    const options = { backend, dtype: "fp32", folder: copy.path, every: 4 } as const;
    await assertClips(folder, { ...options, together: false });
    await assertClips(folder, { ...options, together: true });
  },
);

speechTest(
  "AsrModel retries failed windows at a higher temperature, with the same result every time, alone or together with others",
  async (folder) => {
    const numSamples = 30 * 16_000;
    const wav = (await Deno.readFile(`${folder}/demo/long_40s.wav`)).slice(0, 44 + 2 * numSamples);
    new DataView(wav.buffer).setUint32(40, 2 * numSamples, true);
    // Heavily overdriven: the model is not sure of any word.
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
