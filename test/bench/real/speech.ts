/**
 * Compares speech synthesis of a sentence to a WAV file, with models of the sizes of mms-tts-eng and Kokoro: Hearth
 * over HTTP, transformers.js in Node.
 *
 * @module
 */
import { time } from "../report.ts";
import type { Comparison, Running } from "./comparison.ts";
import { type HearthOptions, RunningHearth } from "./hearth.ts";
import { PeerProcess } from "./peer_process.ts";
import { vitsFolder } from "./vits.ts";
import { kokoroFolder } from "./kokoro.ts";

const SENTENCE = "the morning light came slowly over the hills and the river";
const TOGETHER = 8;

interface RunningSpeech extends Running {
  /** @returns the bytes of the file. */
  speak(): Promise<number>;
}

/**
 * Compares a model of 30 million parameters. @throws {Error} when one program's sound is much longer than the other's.
 */
export async function compareVits(hearth: HearthOptions): Promise<Comparison<RunningSpeech>> {
  const model = { title: "mms-tts-eng", folder: await vitsFolder(), task: "text-to-speech" };
  return compareSpeech(model, hearth);
}

/**
 * Compares a model of 82 million parameters. @throws {Error} when one program's sound is much longer than the other's.
 */
export async function compareKokoro(hearth: HearthOptions): Promise<Comparison<RunningSpeech>> {
  const model = { title: "Kokoro-82M", folder: await kokoroFolder(), task: "kokoro" };
  return compareSpeech(model, hearth);
}

function compareSpeech(
  { title, folder, task }: {
    readonly title: string;
    readonly folder: string;
    /** The task of transformers.js's pipeline. */
    readonly task: string;
  },
  hearth: HearthOptions,
): Comparison<RunningSpeech> {
  let expected: number | undefined;
  const speak = async (running: RunningSpeech) => {
    const bytes = await running.speak();
    expected ??= bytes;
    if (Math.abs(bytes / expected - 1) < 0.1) return;
    throw new Error(`One side's sound has ${expected} bytes, the other's ${bytes}.`);
  };
  return {
    title,
    contenders: [
      { name: "Hearth", start: async () => ours(await RunningHearth.start(folder, hearth)) },
      {
        name: "transformers.js",
        start: async () =>
          theirs(
            await PeerProcess.transformers(folder, {
              ...{ task, dtype: "fp32", device: hearth.device },
              threads: hearth.threads,
            }),
          ),
      },
    ],
    series: [
      {
        label: "a sentence",
        unit: "ms",
        compare: "gain",
        goals: { "transformers.js": 1.1 },
        measure: (running) => time(() => speak(running)),
      },
      {
        label: `${TOGETHER} clients with a sentence each`,
        unit: "ms",
        compare: "gain",
        goals: { "transformers.js": 1.1 },
        measure: (running) =>
          time(() => Promise.all(Array.from({ length: TOGETHER }, () => speak(running)))),
      },
    ],
    startGoals: { "transformers.js": { ready: 1, peak: 1 } },
  };
}

function ours(hearth: RunningHearth): RunningSpeech {
  return {
    pid: hearth.pid,
    speak: async () => {
      const body = { input: SENTENCE, response_format: "wav" };
      const response = await hearth.request("/v1/audio/speech", body);
      return (await response.bytes()).length;
    },
    [Symbol.asyncDispose]: () => hearth[Symbol.asyncDispose](),
  };
}

function theirs(peer: PeerProcess): RunningSpeech {
  return {
    pid: peer.pid,
    // The file has 32-bit floats; Hearth's has 16-bit integers.
    speak: async () => (await peer.ask({ text: SENTENCE }))["samples"] as number * 2,
    [Symbol.asyncDispose]: () => peer[Symbol.asyncDispose](),
  };
}
