/**
 * Whisper's two graphs as Optimum exports them, with the decoder's keys and values on the device.
 *
 * The merged decoder gives the encoder's keys and values when it runs without a cache, once per window; afterwards
 * they are only read.
 *
 * @module
 */
import { join } from "node:path";
import type { Backend } from "../backend/backend.ts";
import type { Dtype } from "../config.ts";
import { StartupError } from "../errors.ts";
import { type Session, Tensor, type Tensors } from "../onnx/ort.ts";
import type { LoadProgress } from "../worker/protocol.ts";
import { chooseDtype, externalDataFiles, graphFile, type ModelFolder } from "./folder.ts";

const ENCODER = "encoder_model";
const DECODER = "decoder_model_merged";

/** Keys and values of windows that are decoded together, each tensor `[windows, heads, tokens, headDim]`, by input name. */
export interface DecoderState {
  /** Of the tokens so far. */
  readonly self: Tensors;
  /** Of the encoder's output. */
  readonly cross: Tensors;
}

/** What a decoder step gives. */
export interface DecoderStep {
  /** `[windows, 1, vocabSize]`. */
  readonly logits: Tensor;
  readonly state: DecoderState;
}

/** How to open the graphs. */
export interface WhisperGraphsOptions {
  readonly backend: Backend;
  readonly dtype?: Dtype | undefined;
  readonly onProgress: (progress: LoadProgress) => void;
}

/** The two sessions. */
export class WhisperGraphs {
  /** Of the decoder. */
  readonly dtype: Dtype;
  readonly featuresDtype: "float32" | "float16";
  readonly logitsDtype: "float32" | "float16";
  readonly #encoder: Session;
  readonly #decoder: Session;
  readonly #selfInputs: readonly string[];
  readonly #crossInputs: readonly string[];
  /** What a step with a cache gives: not the encoder's keys and values, which would be copied for nothing. */
  readonly #stepOutputs: Readonly<Record<string, null>>;

  private constructor(encoder: Session, decoder: Session, dtype: Dtype) {
    const floatOf = (values: Session["inputs"], name: string) =>
      values.find((value) => value.name === name)!.type as "float32" | "float16";
    this.#encoder = encoder;
    this.#decoder = decoder;
    this.dtype = dtype;
    this.featuresDtype = floatOf(encoder.inputs, "input_features");
    this.logitsDtype = floatOf(decoder.outputs, "logits");
    const caches = decoder.inputs.map(({ name }) => name).filter((name) => name.startsWith("past"));
    this.#selfInputs = caches.filter((name) => name.includes(".decoder."));
    this.#crossInputs = caches.filter((name) => name.includes(".encoder."));
    const names = ["logits", ...this.#selfInputs.map(presentName)];
    this.#stepOutputs = Object.fromEntries(names.map((name) => [name, null]));
  }

  /** @throws {StartupError} when the folder lacks a graph, or one has inputs that are not known. */
  static async load(folder: ModelFolder, options: WhisperGraphsOptions): Promise<WhisperGraphs> {
    const { backend } = options;
    const device = backend.kind === "cpu" ? "cpu" : backend.hasF16 ? "gpuWithF16" : "gpu";
    const open = async (graph: string) => {
      const dtype = chooseDtype(folder, { graph, device, dtype: options.dtype });
      const path = graphFile(graph, dtype);
      options.onProgress({ what: `loading ${path}` });
      const externalData = await Promise.all(
        externalDataFiles(folder, path).map(async (file) => ({
          path: file.slice(file.lastIndexOf("/") + 1),
          data: await Deno.readFile(join(folder.path, file)),
        })),
      );
      const model = await Deno.readFile(join(folder.path, path));
      return { dtype, session: await backend.openSession(model, externalData) };
    };
    const encoder = await open(ENCODER);
    const decoder = await open(DECODER);
    requireInputs(encoder.session, ENCODER, ["input_features"]);
    requireInputs(decoder.session, DECODER, [
      "input_ids",
      "encoder_hidden_states",
      "use_cache_branch",
    ]);
    return new WhisperGraphs(encoder.session, decoder.session, decoder.dtype);
  }

  /**
   * Encodes windows and runs the decoder's first token.
   *
   * @param features `[windows, mels, frames]`.
   */
  async begin(features: Tensor, startToken: number): Promise<DecoderStep> {
    const numWindows = features.dims[0]!;
    const encoded = await this.#encoder.run({ input_features: features });
    const hidden = encoded["last_hidden_state"]!;
    const feeds: Record<string, Tensor> = {
      input_ids: tokenColumn(new Array(numWindows).fill(startToken)),
      encoder_hidden_states: hidden,
      use_cache_branch: new Tensor("bool", [false], [1]),
    };
    for (const { name, type, shape } of this.#decoder.inputs) {
      if (!name.startsWith("past")) continue;
      const dims = shape.map((size, axis) =>
        axis === 0 ? numWindows : typeof size === "number" ? size : 0
      );
      feeds[name] = zeroTensor(type, dims);
    }
    const outputs = await this.#decoder.run(feeds);
    hidden.dispose();
    return {
      logits: outputs["logits"]!,
      state: {
        self: pick(outputs, this.#selfInputs),
        cross: pick(outputs, this.#crossInputs),
      },
    };
  }

  /** Runs one more token of each window. The state given stands. */
  async step(state: DecoderState, tokens: readonly number[]): Promise<DecoderStep> {
    const hidden = this.#decoder.inputs.find(({ name }) => name === "encoder_hidden_states")!;
    const outputs = await this.#decoder.run({
      input_ids: tokenColumn(tokens),
      // Not read with a cache: a single place keeps the copy to the device short.
      encoder_hidden_states: zeroTensor(hidden.type, [tokens.length, 1, Number(hidden.shape[2])]),
      use_cache_branch: new Tensor("bool", [true], [1]),
      ...state.self,
      ...state.cross,
    }, this.#stepOutputs);
    return {
      logits: outputs["logits"]!,
      state: { self: pick(outputs, this.#selfInputs), cross: state.cross },
    };
  }

  async dispose(): Promise<void> {
    await this.#encoder.release();
    await this.#decoder.release();
  }
}

/** Frees tensors. */
export function disposeTensors(tensors: Tensors): void {
  for (const tensor of Object.values(tensors)) tensor.dispose();
}

function requireInputs(session: Session, graph: string, known: readonly string[]): void {
  const unknown = session.inputs
    .map(({ name }) => name)
    .filter((name) => !known.includes(name) && !/^past_key_values\..*\.(key|value)$/.test(name));
  if (unknown.length === 0) return;
  throw new StartupError(
    `onnx/${graph} wants inputs that are not known: ${
      unknown.join(", ")
    }. Wanted is Optimum's export of Whisper.`,
  );
}

function tokenColumn(tokens: readonly number[]): Tensor {
  return new Tensor("int64", BigInt64Array.from(tokens, BigInt), [tokens.length, 1]);
}

function zeroTensor(type: Tensor["type"], dims: readonly number[]): Tensor {
  const size = dims.reduce((product, each) => product * each, 1);
  return type === "float16"
    ? new Tensor("float16", new Uint16Array(size), dims)
    : new Tensor("float32", new Float32Array(size), dims);
}

function pick(outputs: Tensors, inputNames: readonly string[]): Tensors {
  return Object.fromEntries(inputNames.map((name) => [name, outputs[presentName(name)]!]));
}

/** The output that continues a cache input: `past_key_values.0.decoder.key` → `present.0.decoder.key`. */
function presentName(pastName: string): string {
  return pastName.replace(/^past_key_values/, "present");
}
