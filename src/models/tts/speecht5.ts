/**
 * SpeechT5: an encoder of characters, a decoder that adds a few frames of a spectrogram at a time, and a vocoder.
 *
 * @module
 */
import { join } from "node:path";
import { StartupError } from "../../base/errors.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";
import { log } from "../../base/log.ts";
import { disposeTensors } from "../../device/ort/ort.ts";
import type { OpenContext } from "../folder/open_context.ts";
import { openSpeakerEncoder } from "./speaker_encoder.ts";
import type { Synthesizer } from "./synthesizer.ts";
import { textFeeds, TtsGraph } from "./tts_graph.ts";
import { MelDecoder } from "./mel_decoder.ts";
import { loadTtsTokenizer } from "./tts_tokenizer.ts";
import { readVoices, type VectorVoice } from "./voices.ts";

const LANGUAGE = "en";
const DEFAULT_RATE_HZ = 16_000;
const DEFAULT_MAX_TOKENS = 600;
/** Width of a speaker embedding (x-vector). */
const DEFAULT_SPEAKER_WIDTH = 512;
/** The voice at the root of a folder without other voices. */
const ROOT_VOICE = "speaker_embeddings.bin";
/** Most frames per token, for a decoder that does not stop. */
const MAX_FRAMES_PER_TOKEN = 20;

/** @throws {StartupError} when the folder lacks a part, such as the vocoder. */
export async function loadSpeechT5(context: OpenContext): Promise<Synthesizer> {
  const { folder, speakerEncoderFolder } = context;
  const number = (name: string, fallback: number) => Number(folder.config[name] ?? fallback);
  const melBins = number("num_mel_bins", 80);
  const framesPerStep = number("reduction_factor", 2);
  const tokenizer = await loadTtsTokenizer(folder);
  const width = number("speaker_embedding_dim", DEFAULT_SPEAKER_WIDTH);
  const voices = await readSpeakers(folder, width);
  const vocoderName = findVocoder(context);
  // Before the larger graphs, so that its errors appear at once.
  const cloner = speakerEncoderFolder === undefined
    ? undefined
    : await openSpeakerEncoder(speakerEncoderFolder, { ...context, width, language: LANGUAGE });
  const encoder = await TtsGraph.open(context, {
    name: "encoder_model",
    known: /^(input_ids|attention_mask)$/,
  });
  const decoder = await MelDecoder.open(context, melBins);
  const vocoder = await TtsGraph.open(context, { name: vocoderName, known: /^spectrogram$/ });
  return {
    sampleRateHz: number("sampling_rate", DEFAULT_RATE_HZ),
    voices,
    cloner,
    clonerWanted: {
      message:
        "SpeechT5 needs a speaker encoder for that, an x-vector model in ONNX, unlike Chatterbox",
      setting: "speakerEncoderFolder",
    },
    maxTokens: number("max_text_positions", DEFAULT_MAX_TOKENS),
    hasSpeed: false,
    tokenize: (text) => tokenizer.encode(text),
    synthesize: async (tokens, { voice, noiseOffset, signal }) => {
      const encoded = await encoder.run(textFeeds(tokens));
      try {
        const mel = await decoder.decode(encoded, {
          speaker: (voice as VectorVoice).style,
          maxSteps: Math.floor(tokens.length / framesPerStep * MAX_FRAMES_PER_TOKEN),
          noiseOffset,
          signal,
        });
        const spectrogram = { values: mel, dims: [mel.length / melBins, melBins] };
        return await vocoder.read({ spectrogram }, { output: "waveform" });
      } finally {
        disposeTensors(encoded);
      }
    },
    dispose: async () => {
      await cloner?.dispose();
      for (const graph of [encoder, decoder, vocoder]) await graph.release();
    },
  };
}

function findVocoder({ folder, graphs }: OpenContext): string {
  const name = ["decoder_postnet_and_vocoder", "vocoder"].find((each) => graphs.has(each));
  if (name !== undefined) return name;
  throw new StartupError(
    `${folder.path} has no vocoder: wanted is onnx/decoder_postnet_and_vocoder.onnx as Optimum exports it, or a ` +
      "HiFi-GAN as onnx/vocoder.onnx.",
  );
}

/** The folder's voices; a neutral one if it has none. */
async function readSpeakers(folder: ModelFolder, width: number): Promise<VectorVoice[]> {
  if ([...folder.files].some((file) => file.startsWith("voices/"))) {
    return await readVoices(folder, { width, languageByPrefix: () => LANGUAGE });
  }
  if (folder.files.has(ROOT_VOICE)) {
    const bytes = await Deno.readFile(join(folder.path, ROOT_VOICE));
    if (bytes.length === 4 * width) {
      return [{ id: "default", language: LANGUAGE, style: new Float32Array(bytes.buffer) }];
    }
    throw new StartupError(
      `${folder.path}/${ROOT_VOICE} has ${bytes.length} bytes; wanted are ${width} numbers of 4 bytes.`,
    );
  }
  log.warn("the folder has no voices: using a neutral speaker", {
    wanted: `voices/<name>.bin with ${width} numbers of 4 bytes`,
  });
  return [{ id: "neutral", language: LANGUAGE, style: new Float32Array(width) }];
}
