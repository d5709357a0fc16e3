/**
 * Compares speech synthesis with transformers.js on its own ONNX Runtime: the same folder, weights, device and text,
 * alternating in one process per device, medians of several rounds, which begin with different programs. The models
 * have random weights, since the content does not affect the speed. Both programs convert text to a WAV file.
 *
 *     deno task bench speech
 *
 * @module
 */
import { benchEachDevice, type DeviceName } from "./each_device.ts";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { openDevice } from "../../src/gpu/device.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import type { SpeakEvent } from "../../src/models/task.ts";
import type { TtsModel } from "../../src/models/tts/tts.ts";
import { loadTts } from "../fixtures/engine/open_folder.ts";
import {
  TTS_FAMILIES,
  type TtsFamily,
  ttsFiles,
  writeTinyTts,
} from "../fixtures/models/tiny_tts.ts";
import { median, printTable } from "./report.ts";
import type { TheirSpeech } from "./speech_theirs.ts";

/** Hidden states of 256 numbers; a software adapter would take an hour with them. */
const FORM = { scale: 16, rounds: 30, sentences: 5 } as const;
const SOFTWARE_FORM = { scale: 1, rounds: 10, sentences: 2 } as const;
/** A text of several sentences is also spoken in each round whose number is a multiple of this. */
const TEXT_EVERY = 5;
/** A sentence without numbers, since transformers.js does not normalize text. */
const SENTENCE = "The morning light came slowly over the hills and the river";

/** @returns milliseconds to the first sound and to the last. */
function speakOurs(model: TtsModel, text: string): Promise<{ first: number; whole: number }> {
  const startMs = performance.now();
  let first = NaN;
  const { promise, resolve, reject } = Promise.withResolvers<{ first: number; whole: number }>();
  const emit = (event: SpeakEvent) => {
    if (Number.isNaN(first)) first = performance.now() - startMs;
    if (event.type === "error") reject(new Error(event.error.message));
    if (event.type === "done") resolve({ first, whole: performance.now() - startMs });
    return Promise.resolve();
  };
  const rest = { requestId: "bench", param: "input", speed: 1, format: "wav", seed: 0 } as const;
  model.start({ type: "speak", text, ...rest }, emit);
  return promise;
}

/**
 * @returns a function that measures the milliseconds from a text to a WAV file. Its thread lasts as long as the
 * process.
 */
async function openTheirs(speech: TheirSpeech): Promise<(text: string) => Promise<number>> {
  const thread = new Worker(new URL("./speech_theirs.ts", import.meta.url), { type: "module" });
  const ask = (message: TheirSpeech | string) => {
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    thread.onmessage = ({ data }) => resolve(data);
    thread.onerror = ({ message }) => reject(new Error(message));
    thread.postMessage(message);
    return promise;
  };
  await ask(speech);
  return ask;
}

async function benchFamily(
  family: TtsFamily,
  { backend, device, scale, rounds, sentences }: {
    readonly backend: Backend;
    readonly device: DeviceName;
    readonly scale: number;
    readonly rounds: number;
    readonly sentences: number;
  },
): Promise<string[][]> {
  const folder = await Deno.makeTempDir({ prefix: `hearth-bench-${family}-` });
  await writeTinyTts(folder, ttsFiles(family, { scale }));
  const theirs = await openTheirs({ family, folder, device });
  const model = await loadTts(await openFolder(folder), { backend, onProgress: () => {} });
  await Deno.remove(folder, { recursive: true });
  const text = Array.from({ length: sentences }, () => `${SENTENCE}.`).join(" ");
  const measures: Readonly<Record<string, () => Promise<number>>> = {
    ours: async () => (await speakOurs(model, SENTENCE)).whole,
    theirs: () => theirs(SENTENCE),
    first: async () => (await speakOurs(model, text)).first,
    theirText: () => theirs(text),
  };
  const names = Object.keys(measures);
  const times = Object.fromEntries(names.map((name) => [name, [] as number[]]));
  for (let round = 0; round <= rounds; round++) {
    // Texts of several sentences take long, and the programs differ more on them than rounds do.
    const measured = round % TEXT_EVERY === 0 ? names : names.slice(0, 2);
    for (const name of round % 2 === 0 ? measured : measured.toReversed()) {
      const ms = await measures[name]!();
      // The first round warms up.
      if (round > 0) times[name]!.push(ms);
    }
  }
  await model.dispose();
  const row = (what: string, ours: readonly number[], others: readonly number[]) => {
    const [a, b] = [median(ours), median(others)];
    return [`${family}: ${what}, ms`, a.toFixed(1), b.toFixed(1), `${(b / a).toFixed(2)}×`];
  };
  return [
    row("one sentence", times["ours"]!, times["theirs"]!),
    row(`${sentences} sentences, first sound`, times["first"]!, times["theirText"]!),
  ];
}

async function benchDevice(name: DeviceName, families: readonly TtsFamily[]): Promise<void> {
  const gpu = name === "webgpu" ? await openDevice({ allowFallback: true }) : undefined;
  const backend = gpu ? await WebGpuBackend.create(gpu) : new CpuBackend();
  const form = gpu?.isFallbackAdapter === true ? SOFTWARE_FORM : FORM;
  const rows: string[][] = [];
  for (const family of families) {
    rows.push(...await benchFamily(family, { backend, device: name, ...form }));
  }
  printTable([backend.adapter, "Hearth", "transformers.js", "ratio"], rows);
}

const wanted = Deno.args.filter((argument) => TTS_FAMILIES.some((family) => family === argument));
const families = TTS_FAMILIES.filter((family) => wanted.length === 0 || wanted.includes(family));
await benchEachDevice(import.meta.filename!, (device) => benchDevice(device, families));
