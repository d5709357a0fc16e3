/**
 * Runs transformers.js on an unchanged ONNX Runtime for the speech benchmark. It has its own thread, since Hearth
 * replaces parts of ONNX Runtime for a whole thread. The first message is a {@linkcode TheirSpeech}. Each later message
 * is a text, and the answer is the time from the text to a WAV file in milliseconds.
 *
 * @module
 */
import { basename, dirname } from "node:path";
import { openDevice } from "../../src/gpu/device.ts";
import { readReference } from "../../src/models/tts/voices.ts";
import { toPhonemes } from "../../src/models/tts/non_autoregressive.ts";
import type { Transformers } from "../../src/device/ort/hook.ts";
import { loadWithModels } from "../fixtures/engine/transformers_sessions.ts";
import { peerSessions } from "./peer_sessions.ts";
import type { TtsFamily } from "../fixtures/models/tiny_tts.ts";
import { time } from "./report.ts";

/** The model to load. */
export interface TheirSpeech {
  readonly family: TtsFamily;
  readonly folder: string;
  readonly device: "cpu" | "webgpu";
}

/** Sample rate in the header, which does not affect the speed. */
const RATE_HZ = 24_000;

/** The result of transformers.js's models, which not all of its types declare. */
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
        // Only the type in this configuration is used.
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

/** Gives access to a method that transformers.js's types do not declare. */
function speaker(model: unknown): { generate_speech(...args: unknown[]): Promise<Spoken> } {
  return model as ReturnType<typeof speaker>;
}

/** Gives access to two methods that transformers.js's types do not declare. */
function writer(model: unknown): {
  encode_speech(samples: unknown): Promise<Record<string, unknown>>;
  generate(options: Record<string, unknown>): Promise<Spoken["waveform"]>;
} {
  return model as ReturnType<typeof writer>;
}

async function load({ family, folder, device }: TheirSpeech) {
  const gpu = device === "webgpu" ? await openDevice({ allowFallback: true }) : undefined;
  const modelsFolder = dirname(folder);
  const transformers = await loadWithModels({
    openModel: peerSessions(gpu?.device),
    modelsFolder,
  });
  const speak = await makeTheirs(family, transformers, folder);
  return async (text: string) => {
    const { waveform } = await speak(text);
    return new transformers.RawAudio(waveform.data, RATE_HZ).toBlob();
  };
}

const scope = globalThis as unknown as {
  onmessage: (event: MessageEvent) => Promise<void>;
  postMessage: (message: number | "ready") => void;
};
scope.onmessage = async ({ data }: MessageEvent<TheirSpeech>) => {
  const speak = await load(data);
  scope.onmessage = async ({ data: text }: MessageEvent<string>) =>
    scope.postMessage(await time(() => speak(text)));
  scope.postMessage("ready");
};
