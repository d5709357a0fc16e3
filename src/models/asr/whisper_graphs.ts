/**
 * Whisper's two graphs as Optimum exports them.
 *
 * @module
 */
import { join } from "node:path";
import type { Dtype } from "../../config.ts";
import { StartupError } from "../../errors.ts";
import { log } from "../../log.ts";
import { FolderFiles } from "../../onnx/external_data.ts";
import type { Tensor } from "../../onnx/ort.ts";
import { readModel } from "../../onnx/proto_read.ts";
import { CutDecoder } from "../encoder_decoder/cut_decoder.ts";
import { openCutDecoder } from "../encoder_decoder/cut_decoder_load.ts";
import type { CompanionContext } from "../companion_graph.ts";
import { type FeatureEncoder, openFeatureEncoder } from "./feature_encoder.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";
import { MergedDecoder } from "../encoder_decoder/merged_decoder.ts";

const ENCODER = "encoder_model";

/** How to open the graphs. */
export interface WhisperGraphsOptions extends CompanionContext {
  /** Most windows at a time. */
  readonly maxRows: number;
  /** Most windows that the encoder takes in one piece where its graph is not cut. */
  readonly maxWholeInputs: number;
}

/** The encoder and the decoder, which is cut where its graph allows it. */
export class WhisperGraphs {
  /** Of the decoder. */
  readonly dtype: Dtype;
  readonly featuresDtype: "float32" | "float16";
  readonly #encoder: FeatureEncoder;
  readonly #decoder: CutDecoder | MergedDecoder;

  private constructor(encoder: FeatureEncoder, decoder: CutDecoder | MergedDecoder, dtype: Dtype) {
    this.#encoder = encoder;
    this.#decoder = decoder;
    this.dtype = dtype;
    this.featuresDtype = encoder.inputs.find(({ name }) => name === "input_features")!
      .type as "float32";
  }

  /** Most windows in one call of {@linkcode encode}. */
  get maxInputs(): number {
    return this.#encoder.maxInputs;
  }

  get logitsDtype(): "float32" | "float16" {
    return this.#decoder.logitsDtype;
  }

  /** Whose rows need not have begun together, if it is cut. */
  get cutDecoder(): CutDecoder | undefined {
    return this.#decoder instanceof CutDecoder ? this.#decoder : undefined;
  }

  /** Whose rows have to begin together, if it is whole. */
  get wholeDecoder(): MergedDecoder | undefined {
    return this.#decoder instanceof MergedDecoder ? this.#decoder : undefined;
  }

  /** @throws {StartupError} when the folder lacks a graph, or one is not as Optimum exports it. */
  static async load(options: WhisperGraphsOptions): Promise<WhisperGraphs> {
    const { folder, graphs, onProgress } = options;
    const { path: encoderPath } = graphs.of(ENCODER);
    onProgress({ what: `loading ${encoderPath}` });
    const encoder = await openEncoder(folder, encoderPath, options);
    requireFeatures(encoder);
    const { dtype, path } = graphs.main;
    onProgress({ what: `loading ${path}` });
    const { maxInputs } = encoder;
    const decoder = await openDecoder(folder, path, { ...options, maxInputs });
    return new WhisperGraphs(encoder, decoder, dtype);
  }

  /**
   * Encodes windows.
   *
   * @param features `[windows, mels, frames]`.
   * @returns `[windows, places, width]`, the caller's.
   */
  encode(features: Tensor): Promise<Tensor> {
    return this.#encoder.encode(features);
  }

  async dispose(): Promise<void> {
    await this.#encoder.release();
    await this.#decoder.release();
  }
}

/** Opens the decoder cut, and whole where the graph or the device does not allow that. */
async function openDecoder(
  folder: ModelFolder,
  path: string,
  { backend, maxRows, maxInputs }: WhisperGraphsOptions & { readonly maxInputs: number },
): Promise<CutDecoder | MergedDecoder> {
  const size = (name: string, otherwise: number) => {
    const value = folder.config[name];
    return typeof value === "number" ? value : otherwise;
  };
  const opened = await openCutDecoder(folder, path, {
    backend,
    maxRows,
    maxInputs,
    contextLength: size("max_target_positions", 448),
    numPlaces: size("max_source_positions", 1500),
  });
  if (opened instanceof CutDecoder) return opened;
  log.warn("the graph is not cut: windows that begin at different times take turns", {
    graph: path,
    reason: opened.refused,
  });
  return await MergedDecoder.open(folder, { path, backend });
}

async function openEncoder(
  folder: ModelFolder,
  path: string,
  { backend, maxRows, maxWholeInputs }: WhisperGraphsOptions,
): Promise<FeatureEncoder> {
  await using files = new FolderFiles(join(folder.path, "onnx"));
  const model = await readModel(files, path.slice(path.lastIndexOf("/") + 1));
  return await openFeatureEncoder(model, {
    backend,
    files,
    input: "input_features",
    output: "last_hidden_state",
    maxInputs: maxRows,
    maxWholeInputs,
  });
}

function requireFeatures(encoder: FeatureEncoder): void {
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
