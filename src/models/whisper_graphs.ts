/**
 * Whisper's two graphs as Optimum exports them.
 *
 * @module
 */
import { join } from "node:path";
import type { Backend } from "../backend/backend.ts";
import type { Dtype } from "../config.ts";
import { StartupError } from "../errors.ts";
import { type Session, Tensor } from "../onnx/ort.ts";
import type { LoadProgress } from "./progress.ts";
import { chooseDtype, externalDataFiles, graphFile, type ModelFolder } from "./folder.ts";
import { type DecoderState, type DecoderStep, MergedDecoder } from "./merged_decoder.ts";

const ENCODER = "encoder_model";
const DECODER = "decoder_model_merged";

/** How to open the graphs. */
export interface WhisperGraphsOptions {
  readonly backend: Backend;
  readonly dtype?: Dtype | undefined;
  readonly onProgress: (progress: LoadProgress) => void;
}

/** The sessions. */
export class WhisperGraphs {
  /** Of the decoder. */
  readonly dtype: Dtype;
  readonly featuresDtype: "float32" | "float16";
  readonly #encoder: Session;
  readonly #decoder: MergedDecoder;

  private constructor(encoder: Session, decoder: MergedDecoder, dtype: Dtype) {
    this.#encoder = encoder;
    this.#decoder = decoder;
    this.dtype = dtype;
    this.featuresDtype = encoder.inputs.find(({ name }) => name === "input_features")!
      .type as "float32";
  }

  get logitsDtype(): "float32" | "float16" {
    return this.#decoder.logitsDtype;
  }

  /** @throws {StartupError} when the folder lacks a graph, or one is not as Optimum exports it. */
  static async load(folder: ModelFolder, options: WhisperGraphsOptions): Promise<WhisperGraphs> {
    const { backend } = options;
    const device = backend.kind === "cpu" ? "cpu" : backend.hasF16 ? "gpuWithF16" : "gpu";
    const choose = (graph: string) => {
      const dtype = chooseDtype(folder, { graph, device, dtype: options.dtype });
      const path = graphFile(graph, dtype);
      options.onProgress({ what: `loading ${path}` });
      return { dtype, path };
    };
    const encoder = await openWhole(folder, choose(ENCODER).path, backend);
    requireFeatures(encoder);
    const { dtype, path } = choose(DECODER);
    return new WhisperGraphs(encoder, await MergedDecoder.open(folder, { path, backend }), dtype);
  }

  /**
   * Encodes windows and runs the decoder's first token.
   *
   * @param features `[windows, mels, frames]`.
   */
  async begin(features: Tensor, startToken: number): Promise<DecoderStep> {
    const encoded = await this.#encoder.run({ input_features: features });
    const state = await this.#decoder.begin(encoded["last_hidden_state"]!);
    return await this.step(state, new Array(features.dims[0]!).fill(startToken));
  }

  /** Runs one more token of each window. The state given stands. */
  step(state: DecoderState, tokens: readonly number[]): Promise<DecoderStep> {
    const ids = new Tensor("int64", BigInt64Array.from(tokens, BigInt), [tokens.length, 1]);
    return this.#decoder.step(state, ids);
  }

  async dispose(): Promise<void> {
    await this.#encoder.release();
    await this.#decoder.release();
  }
}

async function openWhole(folder: ModelFolder, path: string, backend: Backend): Promise<Session> {
  const externalData = await Promise.all(
    externalDataFiles(folder, path).map(async (file) => ({
      path: file.slice(file.lastIndexOf("/") + 1),
      data: await Deno.readFile(join(folder.path, file)),
    })),
  );
  return await backend.openSession(await Deno.readFile(join(folder.path, path)), externalData);
}

function requireFeatures(encoder: Session): void {
  const unknown = encoder.inputs.map(({ name }) => name).filter((name) =>
    name !== "input_features"
  );
  if (unknown.length === 0) return;
  throw new StartupError(
    `onnx/${ENCODER} wants inputs that are not known: ${
      unknown.join(", ")
    }. Wanted is Optimum's export of Whisper.`,
  );
}
