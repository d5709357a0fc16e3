/**
 * Speech models through transformers.js: its feature extractors, model classes and generation on our runtime.
 *
 * @module
 */
import { basename, dirname } from "node:path";
import type { Dtype } from "../../config.ts";
import { StartupError } from "../../errors.ts";
import type { Transformers } from "../../onnx/runtime/hook.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";
import type { HearOptions, TranscribedPiece } from "./generating_recogniser.ts";
import type { OpenContext } from "../family.ts";

/** A tensor of transformers.js. */
export interface LibraryTensor {
  readonly dims: readonly number[];
  readonly data: ArrayLike<number | bigint>;
  to(type: "float32"): LibraryTensor & { readonly data: Float32Array };
  tolist(): bigint[][];
}

/** A feature extractor's output: the model's inputs by name. */
export type LibraryInputs = Readonly<Record<string, unknown>>;

/** Computes the inputs from sound, and from text if the model takes it. */
type Prepare = (samples: Float32Array, textPrompt?: string) => Promise<LibraryInputs>;

/** The used part of transformers.js's classes; their declarations require more. */
interface LibraryModel {
  (inputs: LibraryInputs): Promise<Readonly<Record<string, LibraryTensor>>>;
  generate(options: Readonly<Record<string, unknown>>): Promise<LibraryTensor>;
  dispose(): Promise<unknown>;
}

interface LibraryTokenizer {
  decode(tokens: readonly number[], options: { skip_special_tokens: boolean }): string;
}

const DEFAULT_RATE_HZ = 16_000;

/** A model's class. Audio-text models take a prompt with the audio. */
export type SpeechModelClass =
  | "AutoModelForCTC"
  | "AutoModelForSpeechSeq2Seq"
  | "AutoModelForAudioTextToText";

/** Generation options. */
export interface GenerateOptions extends HearOptions {
  readonly maxTokens: number;
  /** Decoder prompt of a sequence-to-sequence model; its start token if absent. */
  readonly decoderPrompt?: readonly number[] | undefined;
  /** Prompt of an audio-text model, with a placeholder for the audio. */
  readonly textPrompt?: string | undefined;
  readonly endTokens: readonly number[];
}

/** A loaded model. */
export class TransformersSpeech {
  readonly dtype: Dtype;
  readonly sampleRateHz: number;
  readonly #library: Transformers;
  readonly #prepare: Prepare;
  readonly #model: LibraryModel;
  readonly #tokenizer: LibraryTokenizer;

  private constructor(parts: {
    library: Transformers;
    prepare: Prepare;
    model: LibraryModel;
    tokenizer: LibraryTokenizer;
    dtype: Dtype;
    sampleRateHz: number;
  }) {
    this.#library = parts.library;
    this.#prepare = parts.prepare;
    this.#model = parts.model;
    this.#tokenizer = parts.tokenizer;
    this.dtype = parts.dtype;
    this.sampleRateHz = parts.sampleRateHz;
  }

  /** @throws {StartupError} when the folder lacks a graph or a file, or one does not fit the model's class. */
  static async open(
    { folder, graphs, backend, onProgress }: OpenContext,
    modelClass: SpeechModelClass,
  ): Promise<TransformersSpeech> {
    requireFiles(folder, ["preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"]);
    const library = await backend.loadTransformers(dirname(folder.path));
    const name = basename(folder.path);
    onProgress({ what: "reading the tokenizer" });
    const files = graphs.all.map(({ path }) => path);
    try {
      const extractor = await library.AutoFeatureExtractor.from_pretrained(name);
      const tokenizer = await library.AutoTokenizer.from_pretrained(name);
      const prepare = modelClass === "AutoModelForAudioTextToText"
        ? await openProcessor(library, name)
        : extractor as unknown as Prepare;
      onProgress({ what: `loading ${files.join(" and ")}` });
      const model = await library[modelClass].from_pretrained(name, {
        dtype: Object.fromEntries(graphs.all.map(({ name, dtype }) => [name, dtype])),
        device: "auto",
      });
      return new TransformersSpeech({
        library,
        prepare,
        model: model as unknown as LibraryModel,
        tokenizer: tokenizer as unknown as LibraryTokenizer,
        dtype: graphs.main.dtype,
        sampleRateHz: Number(extractor.config.sampling_rate ?? DEFAULT_RATE_HZ),
      });
    } catch (error) {
      throw new StartupError(
        `${folder.path} cannot be loaded as a model of type ${folder.config["model_type"]}: ${
          (error as Error).message
        }`,
        { cause: error },
      );
    }
  }

  /** Sound to the `logits` of a CTC model. @returns f32, and its sizes `[1, frames, classes]`. */
  async logits(samples: Float32Array): Promise<{ logits: Float32Array; dims: readonly number[] }> {
    const { logits } = await this.#model(await this.#prepare(samples));
    return { logits: logits!.to("float32").data, dims: logits!.dims };
  }

  /** Sound to the generated text. @throws the signal's reason. */
  async generate(samples: Float32Array, options: GenerateOptions): Promise<TranscribedPiece> {
    const { temperature, signal, decoderPrompt, textPrompt } = options;
    const stop = new this.#library.InterruptableStoppingCriteria();
    const interrupt = () => stop.interrupt();
    signal.addEventListener("abort", interrupt, { once: true });
    const listener = new TokenListener(this.#library, options);
    try {
      await this.#model.generate({
        ...await this.#prepare(samples, textPrompt),
        ...(decoderPrompt && { decoder_input_ids: decoderPrompt }),
        max_new_tokens: options.maxTokens,
        do_sample: temperature > 0,
        ...(temperature > 0 && { temperature, top_k: 0 }),
        logits_processor: [listener.logits],
        stopping_criteria: stop,
        streamer: listener,
      });
    } finally {
      signal.removeEventListener("abort", interrupt);
    }
    signal.throwIfAborted();
    const { tokens, numPromptTokens, meanLogprob } = listener;
    const text = this.#tokenizer.decode(tokens, { skip_special_tokens: true });
    return { text, tokens, numPromptTokens, meanLogprob };
  }

  async dispose(): Promise<void> {
    await this.#model.dispose();
  }
}

async function openProcessor(library: Transformers, name: string): Promise<Prepare> {
  const processor = await library.AutoProcessor.from_pretrained(name) as unknown as (
    text: string,
    samples: Float32Array,
  ) => Promise<LibraryInputs>;
  return (samples, textPrompt = "") => processor(textPrompt, samples);
}

/** Receives each generated token with its log-probability. */
class TokenListener {
  readonly tokens: number[] = [];
  numPromptTokens = 0;
  /** Reads the logits before a token is sampled. */
  readonly logits: unknown;
  readonly #options: GenerateOptions;
  #sumLogprobs = 0;
  /** Including the end token. */
  #numChosen = 0;
  #row: Float32Array | undefined;
  #sinceMs = performance.now();

  constructor(library: Transformers, options: GenerateOptions) {
    this.#options = options;
    const look = (row: Float32Array) => this.#row = row;
    this.logits = new class extends library.LogitsProcessor {
      override _call(_tokens: bigint[][], logits: InstanceType<Transformers["Tensor"]>) {
        look(logits.data as Float32Array);
        return logits;
      }
    }();
  }

  get meanLogprob(): number {
    return this.#sumLogprobs / Math.max(1, this.#numChosen);
  }

  /** The generation's own call: first with the prompt, then with one token at a time. */
  put(rows: readonly (readonly bigint[])[]): void {
    const { metrics, endTokens } = this.#options;
    const nowMs = performance.now();
    const [token, ...more] = rows[0]!.map(Number) as [number, ...number[]];
    if (this.numPromptTokens === 0) {
      this.numPromptTokens = 1 + more.length;
      metrics.observeEncoding(1, nowMs - this.#sinceMs);
    } else {
      this.#numChosen++;
      this.#sumLogprobs += logprobOf(this.#row!, token);
      if (!endTokens.includes(token)) this.tokens.push(token);
      metrics.observeStep(1, nowMs - this.#sinceMs);
    }
    this.#sinceMs = nowMs;
  }

  end(): void {}
}

function logprobOf(logits: Float32Array, token: number): number {
  let most = -Infinity;
  for (const logit of logits) most = Math.max(most, logit);
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - most);
  return logits[token]! - most - Math.log(sum);
}

function requireFiles(folder: ModelFolder, names: readonly string[]): void {
  const missing = names.filter((name) => !folder.files.has(name));
  if (missing.length === 0) return;
  throw new StartupError(
    `${folder.path} has no ${missing.join(" and no ")}, which a speech model needs.`,
  );
}
