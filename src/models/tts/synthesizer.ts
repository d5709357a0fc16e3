/**
 * Synthesizers, the models behind speech synthesis: their interface, and the access to graphs and tokenizers that all
 * families use.
 *
 * @module
 */
import type { Refusal } from "../../base/errors.ts";
import type { OpenContext } from "../model.ts";
import type { Voice } from "../task.ts";
import type { Backend } from "../../device/backend.ts";
import type { GraphSession, Tensor, Tensors } from "../../device/ort/ort.ts";
import type { ModelProto } from "../../graph/file/proto.ts";
import { isNoiseInput, readNoiseInput, seedNoise } from "../../graph/rewrite/seeded_noise.ts";
import {
  type GraphContext,
  makeInputTensor,
  readGraph,
  requireKnownInputs,
} from "../folder/graph_file.ts";
import type { Json, ModelFolder } from "../../hub/model_folder.ts";
import { readTokenizer } from "../text/tokenizer_files.ts";

/** Voice, speed and noise for speaking a text. */
interface Utterance {
  /** One of the synthesizer's voices, or a cloned voice. */
  readonly voice: Voice;
  /** Factor on the model's own pace. */
  readonly speed: number;
  /** Offset of the noise that the model takes. With equal offsets, equal texts sound the same. */
  readonly noiseOffset: number;
  readonly signal: AbortSignal;
}

export interface ClonedVoice {
  readonly voice: Voice;
  /** Memory that the voice takes. */
  readonly numBytes: number;
}

export interface VoiceCloner {
  /** Sample rate of the recordings that it takes. */
  readonly sampleRateHz: number;
  /**
   * Clones the voice in a recording.
   *
   * @param samples f32 of one channel, a few seconds of speech.
   * @throws {HearthError} `invalid_media` when no voice can be cloned from them.
   */
  clone(samples: Float32Array<ArrayBuffer>): Promise<ClonedVoice>;
}

export interface Synthesizer {
  readonly sampleRateHz: number;
  /** The voices, the default first. Empty if the model only clones voices. */
  readonly voices: readonly Voice[];
  /** Absent if the model cannot clone voices. */
  readonly cloner?: VoiceCloner | undefined;
  /** Refusal that names what the model needs for cloning voices; absent if the model can never clone voices. */
  readonly clonerWanted?: Refusal | undefined;
  /** Maximum number of tokens of one utterance. */
  readonly maxTokens: number;
  /** Whether the model takes a speed; otherwise its sound is time-stretched. */
  readonly hasSpeed: boolean;
  /**
   * Tokenizes a normalized text, in which numbers and abbreviations are spelled out.
   *
   * @returns no tokens if the model cannot speak any of the text.
   */
  tokenize(text: string, voice: Voice): readonly number[] | Promise<readonly number[]>;
  /**
   * Speaks 1 to `maxTokens` tokens.
   *
   * @returns f32 of one channel, owned by the caller.
   * @throws the signal's reason when it is aborted.
   */
  synthesize(tokens: readonly number[], utterance: Utterance): Promise<Float32Array<ArrayBuffer>>;
  dispose(): Promise<void>;
}

/**
 * Opens the graphs of one family.
 *
 * @throws {StartupError} when a file is missing from the folder.
 */
export type LoadSynthesizer = (context: OpenContext) => Promise<Synthesizer>;

/** The value of an input: a tensor, or numbers to convert to the type that the graph declares. */
export type Feed = Tensor | {
  readonly values: ArrayLike<number>;
  readonly dims: readonly number[];
};

/** Values by input name. */
export type Feeds = Readonly<Record<string, Feed>>;

/** A graph of a synthesizer. Inputs for noise, which replace the graph's random operators, are filled in here. */
export class TtsGraph {
  readonly #session: GraphSession;
  readonly #backend: Backend;

  private constructor(session: GraphSession, backend: Backend) {
    this.#session = session;
    this.#backend = backend;
  }

  /** @throws {StartupError} when the folder lacks the graph, or the graph has unknown inputs. */
  static async open(
    context: GraphContext,
    { name, known, change = (model) => model }: {
      /** The graph's name, without the suffix of its dtype. */
      readonly name: string;
      /** Matches the names of the inputs that the caller supplies. */
      readonly known: RegExp;
      /**
       * Changes the graph before it is opened.
       *
       * @throws {StartupError} when the graph is not as expected.
       */
      readonly change?: (model: ModelProto) => ModelProto;
    },
  ): Promise<TtsGraph> {
    const { backend } = context;
    await using file = await readGraph(context, name);
    const model = seedNoise(change(file.model));
    const session = await backend.openModel(model, file.files);
    const isKnown = (input: string) => isNoiseInput(input) || known.test(input);
    requireKnownInputs(session, { isKnown, of: file.path });
    return new TtsGraph(session, backend);
  }

  get inputs(): GraphSession["inputs"] {
    return this.#session.inputs;
  }

  get outputs(): GraphSession["outputs"] {
    return this.#session.outputs;
  }

  /**
   * Runs the graph. The caller disposes of the outputs.
   *
   * @param feeds the inputs; those that the graph does not have are ignored.
   * @param options.offset offset of the noise, for graphs that take noise.
   * @param options.only name of the only output to compute; all if absent.
   */
  run(
    feeds: Feeds,
    { offset = 0, only }: {
      readonly offset?: number | undefined;
      readonly only?: string | undefined;
    } = {},
  ): Promise<Tensors> {
    const tensors = this.#session.inputs.map((input) => {
      const feed: Feed | undefined = feeds[input.name] ?? readNoiseInput(input.name, offset);
      if (feed === undefined) throw new Error(`The input "${input.name}" was not given.`);
      return [input.name, "values" in feed ? makeInputTensor(input, feed.values, feed.dims) : feed];
    });
    const fetches = only === undefined ? undefined : { [only]: null };
    return this.#session.run(Object.fromEntries(tensors), fetches);
  }

  /**
   * Runs the graph and reads one output.
   *
   * @returns its elements as f32, owned by the caller.
   */
  async read(
    feeds: Feeds,
    { output, offset }: { readonly output: string; readonly offset?: number },
  ): Promise<Float32Array<ArrayBuffer>> {
    return await this.take(await this.run(feeds, { only: output, offset }), output);
  }

  /**
   * Reads an output's elements as f32, owned by the caller, and frees the output.
   *
   * @throws {Error} when the graph has no such output.
   */
  async take(outputs: Tensors, name: string): Promise<Float32Array<ArrayBuffer>> {
    const tensor = outputs[name];
    if (tensor === undefined) throw new Error(`The graph has no output "${name}".`);
    try {
      if (tensor.type.startsWith("float")) {
        return await this.#backend.read(tensor) as Float32Array<ArrayBuffer>;
      }
      return Float32Array.from(await tensor.getData() as ArrayLike<number>, Number);
    } finally {
      tensor.dispose();
    }
  }

  release(): Promise<void> {
    return this.#session.release();
  }
}

/** Makes the usual inputs for the tokens of one text. */
export function makeTextFeeds(
  tokens: readonly number[],
): Record<"input_ids" | "attention_mask", Feed> {
  const dims = [1, tokens.length];
  return {
    input_ids: { values: tokens, dims },
    attention_mask: { values: tokens.map(() => 1), dims },
  };
}

/** Frees a feed if it is on the device. */
export function freeFeed(feed: Feed): void {
  if (!("values" in feed)) feed.dispose();
}

interface TtsTokenizer {
  /** Tokenizes a text. @returns no tokens if the text has no letter or digit that the tokenizer knows. */
  encode(text: string): readonly number[];
  /** Content of `tokenizer_config.json`. */
  readonly config: Json;
}

/** @throws {StartupError} when the folder has no tokenizer. */
export async function loadTtsTokenizer(folder: ModelFolder): Promise<TtsTokenizer> {
  const { tokenizer, config } = await readTokenizer(folder);
  const silent = ["pad_token", "unk_token"].map((name) => config[name]);
  const spoken = new Set<number>();
  for (const [token, id] of tokenizer.entries()) {
    if (tokenizer.addedTokens.has(id) || silent.includes(token)) continue;
    if (/[\p{L}\p{N}]/u.test(token)) spoken.add(id);
  }
  return {
    config,
    encode: (text) => {
      const ids = tokenizer.encodeWhole(text);
      return ids.some((id) => spoken.has(id)) ? ids : [];
    },
  };
}
