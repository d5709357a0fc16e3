/**
 * Speech models through transformers.js: its feature extractors, model classes and generation on our runtime.
 *
 * @module
 */
import { basename, dirname } from "node:path";
import type { Backend } from "../backend/backend.ts";
import type { Dtype } from "../config.ts";
import { StartupError } from "../errors.ts";
import type { Transformers } from "../onnx/hook.ts";
import { chooseDtype, graphFile, type ModelFolder } from "./folder.ts";
import type { HeardPiece, HearOptions } from "./generating_recogniser.ts";
import type { LoadProgress } from "./progress.ts";

/** A tensor of transformers.js. */
export interface LibraryTensor {
  readonly dims: readonly number[];
  readonly data: ArrayLike<number | bigint>;
  to(type: "float32"): LibraryTensor & { readonly data: Float32Array };
  tolist(): bigint[][];
}

/** What a feature extractor makes of sound: the model's inputs by name. */
export type LibraryInputs = Readonly<Record<string, unknown>>;

/** As much of transformers.js's classes as is used; their declarations want more than they need. */
interface LibraryModel {
  (inputs: LibraryInputs): Promise<Readonly<Record<string, LibraryTensor>>>;
  generate(options: Readonly<Record<string, unknown>>): Promise<LibraryTensor>;
  dispose(): Promise<unknown>;
}

interface LibraryTokenizer {
  decode(tokens: readonly number[], options: { skip_special_tokens: boolean }): string;
}

/** How to open a model. */
export interface TransformersSpeechOptions {
  readonly backend: Backend;
  /** The model's class. */
  readonly modelClass: "AutoModelForCTC" | "AutoModelForSpeechSeq2Seq";
  /** Names of its graphs, the one whose dtype counts as the model's first. */
  readonly graphs: readonly string[];
  readonly dtype?: Dtype | undefined;
  readonly onProgress: (progress: LoadProgress) => void;
}

/** How a text is to be generated. */
export interface GenerateOptions extends HearOptions {
  readonly maxTokens: number;
  /** What the decoder begins with; its start token if absent. */
  readonly prompt?: readonly number[] | undefined;
  readonly endTokens: readonly number[];
}

/** A loaded model. */
export class TransformersSpeech {
  readonly dtype: Dtype;
  readonly sampleRateHz: number;
  readonly #library: Transformers;
  readonly #extract: (samples: Float32Array) => Promise<LibraryInputs>;
  readonly #model: LibraryModel;
  readonly #tokenizer: LibraryTokenizer;

  private constructor(parts: {
    library: Transformers;
    extract: (samples: Float32Array) => Promise<LibraryInputs>;
    model: LibraryModel;
    tokenizer: LibraryTokenizer;
    dtype: Dtype;
    sampleRateHz: number;
  }) {
    this.#library = parts.library;
    this.#extract = parts.extract;
    this.#model = parts.model;
    this.#tokenizer = parts.tokenizer;
    this.dtype = parts.dtype;
    this.sampleRateHz = parts.sampleRateHz;
  }

  /** @throws {StartupError} when the folder lacks a graph or a file, or one is not what the model's class takes. */
  static async open(
    folder: ModelFolder,
    options: TransformersSpeechOptions,
  ): Promise<TransformersSpeech> {
    const { backend, graphs, modelClass, onProgress } = options;
    requireFiles(folder, ["preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"]);
    const device = backend.kind === "cpu" ? "cpu" : backend.hasF16 ? "gpuWithF16" : "gpu";
    const dtypes = graphs.map((graph) =>
      [graph, chooseDtype(folder, { graph, device, dtype: options.dtype })] as const
    );
    const library = await backend.loadTransformers(dirname(folder.path));
    const name = basename(folder.path);
    onProgress({ what: "reading the tokenizer" });
    const files = dtypes.map(([graph, dtype]) => graphFile(graph, dtype));
    try {
      const extract = await library.AutoFeatureExtractor.from_pretrained(name);
      const tokenizer = await library.AutoTokenizer.from_pretrained(name);
      onProgress({ what: `loading ${files.join(" and ")}` });
      const model = await library[modelClass].from_pretrained(name, {
        dtype: Object.fromEntries(dtypes),
        device: "auto",
      });
      return new TransformersSpeech({
        library,
        extract: extract as unknown as (samples: Float32Array) => Promise<LibraryInputs>,
        model: model as unknown as LibraryModel,
        tokenizer: tokenizer as unknown as LibraryTokenizer,
        dtype: dtypes[0]![1],
        sampleRateHz: Number(extract.config.sampling_rate ?? 16_000),
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
    const { logits } = await this.#model(await this.#extract(samples));
    return { logits: logits!.to("float32").data, dims: logits!.dims };
  }

  /** Sound to the text that the model writes. @throws the signal's reason. */
  async generate(samples: Float32Array, options: GenerateOptions): Promise<HeardPiece> {
    const { temperature, signal, prompt } = options;
    const stop = new this.#library.InterruptableStoppingCriteria();
    const interrupt = () => stop.interrupt();
    signal.addEventListener("abort", interrupt, { once: true });
    const listener = new TokenListener(this.#library, options);
    try {
      await this.#model.generate({
        ...await this.#extract(samples),
        ...(prompt && { decoder_input_ids: prompt }),
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

/** Hears each token from the generation, and how likely it was. */
class TokenListener {
  readonly tokens: number[] = [];
  numPromptTokens = 0;
  /** Looks at the logits before a token is chosen from them. */
  readonly logits: unknown;
  readonly #options: GenerateOptions;
  #sumLogprobs = 0;
  /** The end included. */
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
