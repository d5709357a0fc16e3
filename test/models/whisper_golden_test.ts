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
import type { TranscriptSegment } from "../../src/worker/protocol.ts";

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

function gpuSpeechTest(name: string, options: { files?: string[]; dtype: Dtype }): void {
  if (speechFolder === undefined) {
    return Deno.test.ignore(`${name} (../shared is not there)`, () => {});
  }
  gpuTest(name, async (gpu) => {
    const backend = await WebGpuBackend.create(gpu);
    await assertClips(speechFolder, { backend, ...options });
  });
}

gpuSpeechTest("hearth-demo-asr fp32 on WebGPU transcribes its goldens", { dtype: "fp32" });
