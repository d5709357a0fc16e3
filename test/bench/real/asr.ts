/**
 * Compares the transcription of 30 seconds with a model of whisper-base's size: Hearth over HTTP, from a WAV file, and
 * transformers.js in Node, from samples, since it reads no files there.
 *
 * @module
 */
import { join } from "node:path";
import { makeWav } from "../../fixtures/audio/audio_files.ts";
import { goldenSound } from "../../fixtures/models/tiny_speech.ts";
import { time } from "../report.ts";
import type { Comparison, Running } from "./comparison.ts";
import { type HearthOptions, RunningHearth } from "./hearth.ts";
import { PeerProcess } from "./peer_process.ts";
import { CACHE } from "./twin.ts";
import { whisperFolder } from "./whisper.ts";

const SECONDS = 30;
const RATE_HZ = 16_000;
const TOGETHER = 8;

interface RunningAsr extends Running {
  transcribe(): Promise<string>;
}

/** Makes the comparison. @throws {Error} when the two programs transcribe different words. */
export async function compareAsr(hearth: HearthOptions): Promise<Comparison<RunningAsr>> {
  const folder = await whisperFolder();
  const sound = goldenSound(SECONDS);
  const samples = join(CACHE, "speech.f32");
  await Deno.writeFile(samples, new Uint8Array(sound.buffer));
  const { device, threads } = hearth;
  const task = { task: "automatic-speech-recognition", dtype: "fp32", device, threads };
  const texts = new Set<string>();
  const transcribe = async (running: RunningAsr) => {
    texts.add((await running.transcribe()).trim());
    if (texts.size > 1) throw new Error(`Two texts of one recording:\n${[...texts].join("\n")}`);
  };
  return {
    title: "whisper-base",
    contenders: [
      { name: "Hearth", start: async () => ours(await RunningHearth.start(folder, hearth), sound) },
      {
        name: "transformers.js",
        start: async () => theirs(await PeerProcess.transformers(folder, task), samples),
      },
    ],
    series: [
      {
        label: `${SECONDS} s of sound`,
        unit: "ms",
        compare: "gain",
        goals: { "transformers.js": 2 },
        measure: (running) => time(() => transcribe(running)),
      },
      {
        label: `${TOGETHER} clients with ${SECONDS} s each`,
        unit: "ms",
        compare: "gain",
        goals: { "transformers.js": 2 },
        measure: (running) =>
          time(() => Promise.all(Array.from({ length: TOGETHER }, () => transcribe(running)))),
      },
    ],
    startGoals: { "transformers.js": { ready: 1, peak: 1 } },
  };
}

function ours(hearth: RunningHearth, sound: Float32Array): RunningAsr {
  const wav = new Blob([makeWav(sound, { sampleRateHz: RATE_HZ })]);
  return {
    pid: hearth.pid,
    transcribe: async () => {
      const form = new FormData();
      form.append("file", wav, "speech.wav");
      form.append("language", "en");
      return (await hearth.post("/v1/audio/transcriptions", form)).text;
    },
    [Symbol.asyncDispose]: () => hearth[Symbol.asyncDispose](),
  };
}

function theirs(peer: PeerProcess, samples: string): RunningAsr {
  const options = { language: "en", task: "transcribe" };
  return {
    pid: peer.pid,
    transcribe: async () => (await peer.ask({ samples, options }))["text"] as string,
    [Symbol.asyncDispose]: () => peer[Symbol.asyncDispose](),
  };
}
