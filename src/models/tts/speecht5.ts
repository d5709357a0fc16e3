/**
 * SpeechT5: an encoder of characters, a decoder that adds a few frames to a mel spectrogram per step, and a vocoder.
 *
 * @module
 */
import { join } from "node:path";
import { StartupError } from "../../base/errors.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";
import { log } from "../../base/log.ts";
import { disposeTensors, type Tensors } from "../../device/ort/ort.ts";
import type { OpenContext } from "../model.ts";
import { openSpeakerEncoder, readVoices, type VectorVoice } from "./voices.ts";
import {
  type Feed,
  type Feeds,
  freeFeed,
  loadTtsTokenizer,
  makeTextFeeds,
  type Synthesizer,
  TtsGraph,
} from "./synthesizer.ts";
import { makeEmptyState } from "../../decoder/step_inputs.ts";
import { yieldToEvents } from "../../base/timing.ts";
import { isCrossCache, pickCache, requireMerged } from "../../graph/cut/merged_decoder.ts";
import { MERGED } from "../folder/graph_choice.ts";

const LANGUAGE = "en";
const DEFAULT_RATE_HZ = 16_000;
const DEFAULT_MAX_TOKENS = 600;
/** Width of a speaker embedding (x-vector). */
const DEFAULT_SPEAKER_WIDTH = 512;
/** A file with a single voice, for folders without `voices/`. */
const ROOT_VOICE = "speaker_embeddings.bin";
/** Maximum number of frames per token, in case the decoder does not stop. */
const MAX_FRAMES_PER_TOKEN = 20;

/** @throws {StartupError} when a file is missing from the folder, such as the vocoder. */
export async function loadSpeechT5(context: OpenContext): Promise<Synthesizer> {
  const { folder, speakerEncoderFolder } = context;
  const number = (name: string, fallback: number) => Number(folder.config[name] ?? fallback);
  const melBins = number("num_mel_bins", 80);
  const framesPerStep = number("reduction_factor", 2);
  const tokenizer = await loadTtsTokenizer(folder);
  const width = number("speaker_embedding_dim", DEFAULT_SPEAKER_WIDTH);
  const voices = await readSpeakers(folder, width);
  const vocoderName = findVocoder(context);
  // Loaded before the larger graphs, so that its errors appear without delay.
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
        "unlike Chatterbox, SpeechT5 needs a speaker encoder for that, which is an x-vector model in ONNX format",
      setting: "speakerEncoderFolder",
    },
    maxTokens: number("max_text_positions", DEFAULT_MAX_TOKENS),
    hasSpeed: false,
    tokenize: (text) => tokenizer.encode(text),
    synthesize: async (tokens, { voice, noiseOffset, signal }) => {
      const encoded = await encoder.run(makeTextFeeds(tokens));
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
    `${folder.path} has no vocoder. Wanted: onnx/decoder_postnet_and_vocoder.onnx as exported by Optimum, or a ` +
      "HiFi-GAN in onnx/vocoder.onnx.",
  );
}

/** Reads the folder's voices. A folder without voices gets a neutral one. */
async function readSpeakers(folder: ModelFolder, width: number): Promise<VectorVoice[]> {
  if ([...folder.files].some((file) => file.startsWith("voices/"))) {
    return await readVoices(folder, { width, getLanguage: () => LANGUAGE });
  }
  if (folder.files.has(ROOT_VOICE)) {
    const bytes = await Deno.readFile(join(folder.path, ROOT_VOICE));
    if (bytes.length === 4 * width) {
      return [{ id: "default", language: LANGUAGE, style: new Float32Array(bytes.buffer) }];
    }
    throw new StartupError(
      `${folder.path}/${ROOT_VOICE}: want ${width} numbers of 4 bytes, saw ${bytes.length} bytes.`,
    );
  }
  log.warn("the folder has no voices: using a neutral speaker", {
    wanted: `voices/<name>.bin with ${width} numbers of 4 bytes`,
  });
  return [{ id: "neutral", language: LANGUAGE, style: new Float32Array(width) }];
}

/** Names of the decoder's inputs. */
const KNOWN =
  /^(output_sequence|encoder_hidden_states|encoder_attention_mask|speaker_embeddings|past_key_values\..*)$/;
/** Stop probability at which the sound ends. */
const STOP_PROBABILITY = 0.5;

/**
 * SpeechT5's decoder, whose keys and values stay on the device. Optimum exports it as one graph merged from two, which
 * is split again: one part projects the encoder's output to keys and values, once per text, and the other adds frames.
 */
class MelDecoder {
  readonly #project: TtsGraph;
  readonly #step: TtsGraph;
  readonly #melBins: number;
  readonly #selfInputs: TtsGraph["inputs"];
  readonly #crossInputs: readonly string[];

  private constructor(graphs: { project: TtsGraph; step: TtsGraph }, melBins: number) {
    this.#project = graphs.project;
    this.#step = graphs.step;
    this.#melBins = melBins;
    const cached = graphs.step.inputs.filter(({ name }) => name.startsWith("past_key_values."));
    this.#selfInputs = cached.filter(({ name }) => !isCrossCache(name));
    this.#crossInputs = cached.map(({ name }) => name).filter(isCrossCache);
  }

  /** @throws {StartupError} when the graph does not have the layout of Optimum's exports. */
  static async open(context: OpenContext, melBins: number): Promise<MelDecoder> {
    const { path } = context.graphs.get(MERGED);
    const open = (graph: "project" | "step") =>
      TtsGraph.open(context, {
        name: MERGED,
        known: KNOWN,
        change: (model) => requireMerged(model, path)[graph],
      });
    const [project, step] = [await open("project"), await open("step")];
    return new MelDecoder({ project, step }, melBins);
  }

  /**
   * Decodes a text, a few frames per step.
   *
   * @param encoded the encoder's output, owned by the caller.
   * @returns f32 `[frames, melBins]`.
   * @throws the signal's reason.
   */
  async decode(
    encoded: Tensors,
    { speaker, maxSteps, noiseOffset, signal }: {
      /** The speaker embedding, f32 `[width]`. */
      readonly speaker: Float32Array;
      /** Maximum number of steps, in case the decoder does not stop; at least one is taken. */
      readonly maxSteps: number;
      /** Offset of the noise in the decoder's first layers, to which the index of the step is added. */
      readonly noiseOffset: number;
      readonly signal: AbortSignal;
    },
  ): Promise<Float32Array> {
    const given: Feeds = {
      encoder_hidden_states: encoded["encoder_outputs"]!,
      encoder_attention_mask: encoded["encoder_attention_mask"]!,
      speaker_embeddings: { values: speaker, dims: [1, speaker.length] },
    };
    const cross = pickCache(await this.#project.run(given), this.#crossInputs);
    const selfNames = this.#selfInputs.map(({ name }) => name);
    let self: Tensors = Object.fromEntries(
      this.#selfInputs.map((input) => [input.name, makeEmptyState(input)]),
    );
    let sequence: Feed = { values: new Float32Array(this.#melBins), dims: [1, 1, this.#melBins] };
    const mel: Float32Array[] = [];
    try {
      for (let step = 0, hasStopped = false; !hasStopped && step < Math.max(1, maxSteps); step++) {
        await yieldToEvents();
        signal.throwIfAborted();
        const feeds = { ...given, ...cross, ...self, output_sequence: sequence };
        const outputs = await this.#step.run(feeds, { offset: noiseOffset + step });
        disposeTensors(self);
        freeFeed(sequence);
        self = pickCache(outputs, selfNames);
        sequence = outputs["output_sequence_out"]!;
        const stops = await this.#step.take(outputs, "prob");
        hasStopped = stops.some((probability) => probability >= STOP_PROBABILITY);
        mel.push(await this.#step.take(outputs, "spectrum"));
      }
    } finally {
      disposeTensors(self);
      disposeTensors(cross);
      freeFeed(sequence);
    }
    return Float32Array.from(mel.flatMap((frames) => [...frames]));
  }

  /** Frees the weights. */
  async release(): Promise<void> {
    await this.#project.release();
    await this.#step.release();
  }
}
