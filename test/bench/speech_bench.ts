/**
 * Speech synthesis beside transformers.js: the same folder, weights, device and text, in turn in one process per
 * device, medians of several rounds, in each of which another begins. The models have random weights; what they say
 * does not matter to their pace. Both go the whole way from the text to a WAV file.
 *
 *     deno task bench speech
 *
 * @module
 */
import { benchEachDevice } from "./each_device.ts";
import { basename, dirname } from "node:path";
import type { Backend } from "../../src/backend/backend.ts";
import { CpuBackend } from "../../src/backend/cpu.ts";
import { WebGpuBackend } from "../../src/backend/webgpu.ts";
import { openDevice } from "../../src/gpu/device.ts";
import { openFolder } from "../../src/models/folder.ts";
import type { SpeakEvent } from "../../src/models/task.ts";
import { readReference } from "../../src/models/tts/reference_recording.ts";
import type { TtsModel } from "../../src/models/tts/tts.ts";
import { loadTts } from "../../src/models/tts/tts_load.ts";
import { toPhonemes } from "../../src/models/tts/tts_phonemes.ts";
import { loadTransformers, type Transformers } from "../../src/onnx/hook.ts";
import { TTS_FAMILIES, type TtsFamily, ttsFiles, writeTinyTts } from "../fixtures/tiny_tts.ts";
import { median, printTable, time } from "./report.ts";

/** Hidden states of 256 numbers; a software adapter would take an hour with them. */
const FORM = { scale: 16, rounds: 30, sentences: 5 } as const;
const SOFTWARE_FORM = { scale: 1, rounds: 10, sentences: 2 } as const;
/** What a header says does not matter to the pace. */
const RATE_HZ = 24_000;
/** Rounds from one that speaks the text of several sentences, too, to the next. */
const TEXT_EVERY = 5;
/** Written as it is said: transformers.js writes nothing out. */
const SENTENCE = "The morning light came slowly over the hills and the river";

/** What its models are not all declared to give. */
interface Spoken {
  readonly waveform: { readonly data: Float32Array };
}

type Speak = (text: string) => Promise<Spoken>;

async function makeTheirs(
  family: TtsFamily,
  { AutoTokenizer, Tensor, ...transformers }: Transformers,
  folder: string,
): Promise<Speak> {
  const name = basename(folder);
  const options = { dtype: "fp32", device: "auto" } as const;
  const tokenizer = await AutoTokenizer.from_pretrained(name);
  const readVoice = async (voice: string) =>
    new Float32Array((await Deno.readFile(`${folder}/voices/${voice}.bin`)).buffer);
  switch (family) {
    case "vits": {
      const model = await transformers.VitsModel.from_pretrained(name, options);
      return async (text) => await model(tokenizer(text)) as Spoken;
    }
    case "kokoro": {
      const model = await transformers.StyleTextToSpeech2Model.from_pretrained(name, options);
      const styles = await readVoice("af_heart");
      const width = styles.length / 510;
      return async (text) => {
        const { input_ids } = tokenizer(await toPhonemes(text, "en-US"), { truncation: true });
        const row = input_ids.dims[1]! - 2;
        const style = styles.slice(row * width, (row + 1) * width);
        return await model({
          input_ids,
          style: new Tensor("float32", style, [1, width]),
          speed: new Tensor("float32", [1], [1]),
        }) as Spoken;
      };
    }
    case "supertonic": {
      const { SupertonicForConditionalGeneration } = transformers;
      const model = await SupertonicForConditionalGeneration.from_pretrained(name, options);
      const values = await readVoice("F1");
      const style = new Tensor("float32", values, [1, values.length / 8, 8]);
      return async (text) => await speaker(model).generate_speech({ ...tokenizer(text), style });
    }
    case "speecht5": {
      const model = await transformers.SpeechT5ForTextToSpeech.from_pretrained(name, options);
      const vocoder = await transformers.SpeechT5HifiGan.from_pretrained(name, {
        ...options,
        model_file_name: "decoder_postnet_and_vocoder",
        // Of its own configuration nothing is used but the type.
        config: { model_type: "hifigan" } as never,
      });
      const values = await readVoice("clb");
      const embedding = new Tensor("float32", values, [1, values.length]);
      return async (text) => {
        const { input_ids } = tokenizer(text);
        return await speaker(model).generate_speech(input_ids, embedding, { vocoder });
      };
    }
    case "chatterbox": {
      const model = await transformers.ChatterboxModel.from_pretrained(name, options);
      const recording = await readReference(await Deno.readFile(`${folder}/default_voice.wav`), {
        sampleRateHz: 24_000,
      });
      const speech = await writer(model).encode_speech(
        new Tensor("float32", recording, [1, recording.length]),
      );
      return async (text) => ({
        waveform: await writer(model).generate({
          ...tokenizer(text),
          ...speech,
          max_new_tokens: 1_000,
        }),
      });
    }
  }
}

/** What its models are not declared to have. */
function speaker(model: unknown): { generate_speech(...args: unknown[]): Promise<Spoken> } {
  return model as ReturnType<typeof speaker>;
}

/** As {@linkcode speaker}. */
function writer(model: unknown): {
  encode_speech(samples: unknown): Promise<Record<string, unknown>>;
  generate(options: Record<string, unknown>): Promise<Spoken["waveform"]>;
} {
  return model as ReturnType<typeof writer>;
}

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

async function benchFamily(
  family: TtsFamily,
  { backend, device, scale, rounds, sentences }: {
    readonly backend: Backend;
    readonly device: GPUDevice | undefined;
    readonly scale: number;
    readonly rounds: number;
    readonly sentences: number;
  },
): Promise<string[][]> {
  const folder = await Deno.makeTempDir({ prefix: `hearth-bench-${family}-` });
  await writeTinyTts(folder, ttsFiles(family, { scale }));
  const transformers = await loadTransformers({ device, modelsFolder: dirname(folder) });
  const speakTheirs = await makeTheirs(family, transformers, folder);
  const theirs = async (text: string) => {
    const { waveform } = await speakTheirs(text);
    return new transformers.RawAudio(waveform.data, RATE_HZ).toBlob();
  };
  const model = await loadTts(await openFolder(folder), { backend, onProgress: () => {} });
  await Deno.remove(folder, { recursive: true });
  const text = Array.from({ length: sentences }, () => `${SENTENCE}.`).join(" ");
  const measures: Readonly<Record<string, () => Promise<number>>> = {
    ours: async () => (await speakOurs(model, SENTENCE)).whole,
    theirs: () => time(() => theirs(SENTENCE)),
    first: async () => (await speakOurs(model, text)).first,
    theirText: () => time(() => theirs(text)),
  };
  const names = Object.keys(measures);
  const times = Object.fromEntries(names.map((name) => [name, [] as number[]]));
  for (let round = 0; round <= rounds; round++) {
    // Texts take long, and differ by more than rounds do.
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

async function benchDevice(name: string, families: readonly TtsFamily[]): Promise<void> {
  const gpu = name === "webgpu" ? await openDevice({ allowFallback: true }) : undefined;
  const backend = gpu ? await WebGpuBackend.create(gpu) : new CpuBackend();
  const form = gpu?.isFallbackAdapter === true ? SOFTWARE_FORM : FORM;
  const rows: string[][] = [];
  for (const family of families) {
    rows.push(...await benchFamily(family, { backend, device: gpu?.device, ...form }));
  }
  printTable([backend.adapter, "Hearth", "transformers.js", "ratio"], rows);
}

const wanted = Deno.args.filter((argument) => TTS_FAMILIES.some((family) => family === argument));
const families = TTS_FAMILIES.filter((family) => wanted.length === 0 || wanted.includes(family));
await benchEachDevice(import.meta.filename!, (device) => benchDevice(device, families));
