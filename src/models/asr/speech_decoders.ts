/**
 * Decoders of speech, in two layouts: an encoder whose output the decoder attends to (Moonshine, Cohere's), or one whose
 * output stands in a language model's prompt in place of tokens (Granite's, Voxtral).
 *
 * @module
 */
import { StartupError } from "../../base/errors.ts";
import type { Decoder, EmbeddingSource } from "../../decoder/decoder.ts";
import type { GenerationRequest } from "../../engine/sequence.ts";
import { warmUp } from "../../engine/generate.ts";
import { openGraph } from "../folder/graph_file.ts";
import { loadDecoder, loadEncoderDecoder } from "../folder/decoder_load.ts";
import type { OpenContext } from "../model.ts";
import { findMediaToken, MediaEncoder } from "../media_encoder.ts";
import { type PlainTensors, toFeeds } from "../plain_tensor.ts";
import { findContextLength, readVocabSize } from "../folder/text_sizes.ts";
import type { RecogniserOptions } from "./recogniser.ts";
import { yieldToEvents } from "../../base/timing.ts";
import type { Tensor } from "../../device/ort/ort.ts";
import { openPart, openSpeechFeatures } from "./speech_features.ts";

/** What a decoder is asked about a chunk of sound. */
interface SpeechRequest extends Pick<GenerationRequest, "promptTokens" | "encoderInput" | "media"> {
  /** Frees what the request holds on the device. */
  release?(): Promise<void>;
}

/** A decoder of speech; it owns its encoder. */
export interface SpeechDecoder {
  readonly sampleRateHz: number;
  readonly decoder: Decoder;
  /** @param language the API's code; the model's own choice if absent. */
  makeRequest(samples: Float32Array, language: string | undefined): Promise<SpeechRequest>;
  /** Frees decoder and encoder. */
  dispose(): Promise<void>;
}

export interface SpeechDecoderOptions extends RecogniserOptions {
  /** Longest chunk heard at once. */
  readonly maxChunkSeconds: number;
}

/** A chunk of sound as the encoder's input. */
interface SoundInput {
  readonly tensors: PlainTensors;
}

const ENCODER = "encoder_model";
const HIDDEN = "last_hidden_state";

/**
 * Opens an encoder, and a decoder that attends to its output.
 *
 * @throws {StartupError} when a file is missing from the folder, or a graph does not fit.
 */
export async function openSeq2Seq(
  context: OpenContext,
  { positions, writePrompt, maxChunkSeconds, maxRecordings, metrics }: SpeechDecoderOptions & {
    /** The number of positions, if the decoder's position embeddings are learned. */
    readonly positions: number;
    /** Writes the tokens that the decoder begins with. */
    readonly writePrompt: (language: string | undefined) => readonly number[];
  },
): Promise<SpeechDecoder> {
  const { folder } = context;
  const features = await openSpeechFeatures(folder, { takesText: false });
  const { sampleRateHz } = features;
  const encoder = await openPart(folder, () => openGraph(ENCODER, context));
  const encode = ({ tensors }: SoundInput) =>
    metrics.encoding(async () => {
      const feeds = toFeeds(encoder, { getTensor: (input) => tensors[input], of: ENCODER });
      return (await encoder.run(feeds, { [HIDDEN]: null }))[HIDDEN]!;
    });
  const silence = async (seconds: number) => ({
    tensors: await features.prepare(new Float32Array(seconds * sampleRateHz)),
  });
  const encodePositions = async (seconds: number) => {
    const hidden = await encode(await silence(seconds));
    hidden.dispose();
    return hidden.dims[1]!;
  };
  const makeRequest = async (samples: Float32Array, language: string | undefined) => ({
    promptTokens: Int32Array.from(writePrompt(language)),
    encoderInput: { tensors: await features.prepare(samples) },
  });
  const [one, two] = [await encodePositions(1), await encodePositions(2)];
  const decoder = await loadEncoderDecoder<SoundInput>({
    ...context,
    vocabSize: readVocabSize(folder),
    contextLength: positions,
    // Rounding may give one second a position more than another.
    numPositions: one + Math.ceil(maxChunkSeconds) * (two - one + 1),
    maxSequences: maxRecordings,
    encoder: { maxInputs: 1, encode: ([input]) => encode(input!) },
  });
  context.onProgress({ what: "warming up" });
  await warmUp(decoder, await silence(1));
  return {
    sampleRateHz,
    decoder,
    makeRequest,
    dispose: async () => {
      await decoder.dispose();
      await encoder.release();
    },
  };
}

const AUDIO_ENCODER = "audio_encoder";
/** Most tokens of prompt, sound and transcript; language models have room for books. */
const PROMPTED_CONTEXT = 1024;

/**
 * Opens a language model, and an encoder whose output stands in its prompt.
 *
 * @throws {StartupError} when a file is missing from the folder, or a graph does not fit.
 */
export async function openPrompted(
  context: OpenContext,
  { writePrompt, metrics, maxRecordings }: SpeechDecoderOptions & {
    /** Writes a text with a placeholder for the sound. */
    readonly writePrompt: (language: string | undefined) => string;
  },
): Promise<SpeechDecoder> {
  const { backend, folder, engine } = context;
  const features = await openSpeechFeatures(folder, { takesText: true });
  const { config } = folder;
  const audioToken = findMediaToken(config, "audio");
  if (audioToken === undefined) {
    throw new StartupError(`${folder.path}/config.json gives no audio_token_index or _id.`);
  }
  const known = findContextLength(folder) ?? PROMPTED_CONTEXT;
  const { decoder, embeddings } = await loadDecoder({
    ...context,
    engine: { ...engine, maxSequences: maxRecordings },
    contextLength: Math.min(known, PROMPTED_CONTEXT),
  });
  const session = await openPart(folder, () => openGraph(AUDIO_ENCODER, context));
  const encoder = await MediaEncoder.open({ backend, session, embeddings, medium: "audio" });
  let numHeard = 0;
  const makeRequest = async (samples: Float32Array, language: string | undefined) => {
    const tensors = await features.prepare(samples, writePrompt(language));
    const ids = tensors["input_ids"]!.data as BigInt64Array<ArrayBuffer>;
    const promptTokens = Int32Array.from(ids, Number);
    const start = promptTokens.indexOf(audioToken);
    const end = promptTokens.lastIndexOf(audioToken) + 1;
    const sound = soundRows(() => metrics.encoding(() => encoder.encode(tensors, end - start)));
    return {
      promptTokens,
      media: [{ start, end, key: `${numHeard++}`, source: sound }],
      release: sound.release,
    };
  };
  context.onProgress({ what: "warming up" });
  await warmUp(decoder);
  return {
    sampleRateHz: features.sampleRateHz,
    decoder,
    makeRequest,
    dispose: async () => {
      await decoder.dispose();
      await encoder.dispose();
    },
  };
}

/**
 * The sound's rows in the prompt. They are encoded when a step first wants them, and kept until the request ends, as a
 * prompt may take several steps.
 */
function soundRows(encode: () => Promise<Tensor>): EmbeddingSource & { release(): Promise<void> } {
  let encoded: Promise<Tensor> | undefined;
  return {
    rows: () => encoded ??= encode(),
    release: async () => {
      const rows = await encoded?.catch(() => undefined);
      // A step that waited for the rows copies them before they are freed.
      await yieldToEvents();
      rows?.dispose();
    },
  };
}
