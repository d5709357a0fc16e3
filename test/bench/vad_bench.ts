/**
 * Measures the cost of a voice activity model, and what it saves in a mostly silent recording: the same recording with
 * and without the model, alternating in one process, medians of several rounds.
 *
 *     deno task bench vad
 *
 * @module
 */
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import type { AsrModel } from "../../src/models/asr/asr.ts";
import { loadAsr } from "../fixtures/engine/open_folder.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { VoiceActivity } from "../../src/models/asr/voice_activity.ts";
import { makeWav } from "../fixtures/audio/audio_files.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { findSpeechFolder } from "../fixtures/audio/speech.ts";
import { transcribeFile } from "../fixtures/audio/transcribe.ts";
import { median, printTable, time } from "./report.ts";

const RATE_HZ = 16_000;
const WAV_HEADER_BYTES = 44;
const ROUNDS = 3;
const MINUTES = 5;
/** A clip of two sentences, and how often it occurs. */
const CLIP = "demo/10_both.wav";
const NUM_CLIPS = 4;

/** Makes a silent recording with evenly spread clips. */
async function makeRecording(speechFolder: string): Promise<Float32Array> {
  const file = await Deno.readFile(`${speechFolder}/${CLIP}`);
  const clip = new Int16Array(file.buffer, WAV_HEADER_BYTES);
  const samples = new Float32Array(MINUTES * 60 * RATE_HZ);
  for (let i = 0; i < NUM_CLIPS; i++) {
    const start = Math.floor(samples.length * (i + 0.5) / NUM_CLIPS);
    clip.forEach((sample, at) => samples[start + at] = sample / 32768);
  }
  return samples;
}

async function load(vadFolder: string | undefined): Promise<AsrModel> {
  const folder = await openFolder(findModelFolder("hearth-demo-asr")!);
  return await loadAsr(folder, {
    backend: new CpuBackend(),
    dtype: "fp32",
    onProgress: () => {},
    vadFolder,
  });
}

async function countWindows(model: AsrModel): Promise<number> {
  const figures = await model.metrics.getMetricsAsJSON();
  return figures.find(({ name }) => name === "hearth_windows_total")!.values[0]!.value;
}

const speechFolder = findSpeechFolder();
const vadFolder = findModelFolder("silero-vad");
if (speechFolder === undefined || vadFolder === undefined) {
  throw new Error("../shared is missing: it contains the recordings and silero-vad.");
}
const samples = await makeRecording(speechFolder);
const wav = makeWav(samples);
const models = { with: await load(vadFolder), without: await load(undefined) };
const times = { with: [] as number[], without: [] as number[] };
const windows = { with: 0, without: 0 };
const sentences = { with: 0, without: 0 };
for (let round = 0; round <= ROUNDS; round++) {
  for (const name of ["with", "without"] as const) {
    const before = await countWindows(models[name]);
    const ms = await time(async () => {
      sentences[name] = (await transcribeFile(models[name], wav)).segments.length;
    });
    windows[name] = await countWindows(models[name]) - before;
    // The first round warms up.
    if (round > 0) times[name].push(ms);
  }
}
const activity = await VoiceActivity.load(vadFolder);
const alone = await time(async () => {
  const listener = activity.listen(RATE_HZ);
  await listener.push(samples);
  await listener.finish();
});
const [withVad, without] = [median(times.with), median(times.without)];
printTable(
  [`${MINUTES} minutes with ${2 * NUM_CLIPS} sentences`, "with --vad", "without", "gain"],
  [
    ["ms", withVad.toFixed(0), without.toFixed(0), `${(without / withVad).toFixed(1)}×`],
    ["windows decoded", String(windows.with), String(windows.without), ""],
    ["sentences heard", String(sentences.with), String(sentences.without), ""],
    ["of it the voice activity model, ms", alone.toFixed(0), "", ""],
  ],
);
Deno.exit(0);
