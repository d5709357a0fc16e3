/** Speech models other than Whisper transcribe like transformers.js on its stock runtime, on both backends. */
import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import type { AsrModel } from "../../src/models/asr/asr.ts";
import { cpuTest } from "../fixtures/engine/cpu.ts";
import { makeWav } from "../fixtures/audio/audio_files.ts";
import goldens from "../fixtures/models/goldens/speech.json" with { type: "json" };
import { gatherRequests } from "../fixtures/engine/count_calls.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import {
  goldenSound,
  TINY_SPEECH,
  type TinySpeechModel,
  withTinySpeech,
} from "../fixtures/models/tiny_speech.ts";
import { transcribeFile } from "../fixtures/audio/transcribe.ts";

async function assertGoldens(
  name: TinySpeechModel,
  backend: Backend,
  maxSeconds = Infinity,
): Promise<void> {
  await withTinySpeech(name, { backend }, async (model) => {
    const own = goldens.filter(({ model, seconds }) => model === name && seconds <= maxSeconds);
    assert.ok(own.length > 0);
    for (const { seconds, text } of own) {
      const wav = makeWav(goldenSound(seconds));
      const asked = ["cohere_asr", "voxtral"].includes(name) ? { language: "fr" } : {};
      const transcript = await transcribeFile(model, wav, asked);
      // If a model ends one word twice, transformers.js has two spaces.
      assert.equal(transcript.text, text.replaceAll(/ +/g, " "), `${seconds} s`);
      assert.equal(transcript.durationSeconds, seconds);
      assertTimes(transcript.segments, seconds);
    }
  });
}

/** Asserts that segments are in order and within the recording. */
function assertTimes(
  segments: readonly { startSeconds: number; endSeconds: number; id: number }[],
  seconds: number,
): void {
  let lastEnd = 0;
  for (const [index, { id, startSeconds, endSeconds }] of segments.entries()) {
    assert.equal(id, index);
    assert.ok(startSeconds >= lastEnd && endSeconds > startSeconds, `${startSeconds}`);
    lastEnd = endSeconds;
  }
  assert.ok(lastEnd <= seconds);
}

for (const name of TINY_SPEECH) {
  cpuTest(`a tiny ${name} on the CPU transcribes like transformers.js`, async (backend) => {
    await assertGoldens(name, backend);
  });

  // HuBERT has the graph of wav2vec2, which is tested, and a software adapter is slow.
  if (name === "hubert") continue;
  gpuTest(`a tiny ${name} on WebGPU transcribes like transformers.js`, async (gpu) => {
    const maxSeconds = ["granite_speech", "voxtral"].includes(name) ? 2 : 7;
    await assertGoldens(name, await WebGpuBackend.create(gpu), maxSeconds);
  });
}

for (const name of ["moonshine", "granite_speech"] as const) {
  cpuTest(`concurrent recordings for a tiny ${name} share steps`, async (backend) => {
    await withTinySpeech(name, { backend }, async (model) => {
      const wav = makeWav(goldenSound(1.2));
      const alone = (await transcribeFile(model, wav)).text;
      const before = await figures(model);
      using _gathered = gatherRequests(6);
      const texts = await Promise.all(Array.from({ length: 6 }, () => transcribeFile(model, wav)));
      assert.deepEqual(texts.map(({ text }) => text), new Array(6).fill(alone));
      const after = await figures(model);
      const [numSteps, numTokens] = after.map((value, i) => value - before[i]!) as [number, number];
      assert.ok(numTokens >= 6 && numSteps * 2 < numTokens, `${numTokens} in ${numSteps} steps`);
    });
  });
}

/** Number of steps and tokens so far. */
async function figures({ metrics }: AsrModel): Promise<number[]> {
  const all = (await metrics.getMetricsAsJSON()).flatMap(({ values }) => values as unknown[]) as {
    metricName?: string;
    value: number;
  }[];
  const steps = all.find(({ metricName }) => metricName === "hearth_step_seconds_count")!;
  const tokens = await metrics.getSingleMetric("hearth_completion_tokens_total")!.get();
  return [steps.value, tokens.values[0]!.value];
}
