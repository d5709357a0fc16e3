/**
 * Whisper's two graphs as Optimum exports them, with the decoder's keys and values on the device.
 *
 * Of the merged decoder two graphs are made: one projects the encoder's output to keys and values, once per window,
 * and the other runs one token with all keys and values so far. None holds weights of the other.
 *
 * @module
 */
import { join } from "node:path";
import type { Backend } from "../backend/backend.ts";
import type { Dtype } from "../config.ts";
import { StartupError } from "../errors.ts";
import { FolderFiles } from "../onnx/external_data.ts";
import { hoistTransposes } from "../onnx/hoist_transposes.ts";
import { keepOutputs, takeBranch } from "../onnx/if_branch.ts";
import { type Session, Tensor, type Tensors } from "../onnx/ort.ts";
import type { Model } from "../onnx/proto.ts";
import { readModel } from "../onnx/proto_read.ts";
import type { LoadProgress } from "./progress.ts";
import { openChangedGraph } from "./changed_graph.ts";
import { chooseDtype, externalDataFiles, graphFile, type ModelFolder } from "./folder.ts";

const ENCODER = "encoder_model";
const DECODER = "decoder_model_merged";

/** Keys and values of windows that are decoded together, by input name; the first axis of each tensor is the windows. */
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

/** The sessions. */
export class WhisperGraphs {
  /** Of the decoder. */
  readonly dtype: Dtype;
  readonly featuresDtype: "float32" | "float16";
  readonly logitsDtype: "float32" | "float16";
  readonly #encoder: Session;
  readonly #project: Session;
  readonly #step: Session;
  readonly #selfInputs: readonly string[];
  readonly #crossInputs: readonly string[];

  private constructor(sessions: { encoder: Session } & DecoderSessions, dtype: Dtype) {
    const floatOf = (values: Session["inputs"], name: string) =>
      values.find((value) => value.name === name)!.type as "float32" | "float16";
    const { encoder, project, step } = sessions;
    this.#encoder = encoder;
    this.#project = project;
    this.#step = step;
    this.dtype = dtype;
    this.featuresDtype = floatOf(encoder.inputs, "input_features");
    this.logitsDtype = floatOf(step.outputs, "logits");
    const names = step.inputs.map(({ name }) => name);
    this.#selfInputs = names.filter((name) => name.includes(".decoder."));
    this.#crossInputs = names.filter((name) => name.includes(".encoder."));
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
    requireInputs(encoder, ENCODER, /^input_features$/);
    const { dtype, path } = choose(DECODER);
    const decoder = await openDecoder(folder, path, backend);
    requireInputs(decoder.project, DECODER, /^encoder_hidden_states$/);
    requireInputs(decoder.step, DECODER, /^(input_ids|past_key_values\..*\.(key|value))$/);
    return new WhisperGraphs({ encoder, ...decoder }, dtype);
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
    const projected = await this.#project.run({ encoder_hidden_states: hidden });
    hidden.dispose();
    const cross = pick(projected, this.#crossInputs);
    const self = Object.fromEntries(
      this.#step.inputs.filter(({ name }) => this.#selfInputs.includes(name))
        .map((input) => [input.name, noTokens(input, numWindows)]),
    );
    return await this.step({ self, cross }, new Array(numWindows).fill(startToken));
  }

  /** Runs one more token of each window. The state given stands. */
  async step({ self, cross }: DecoderState, tokens: readonly number[]): Promise<DecoderStep> {
    const input_ids = new Tensor("int64", BigInt64Array.from(tokens, BigInt), [tokens.length, 1]);
    const outputs = await this.#step.run({ input_ids, ...self, ...cross });
    return {
      logits: outputs["logits"]!,
      state: { self: pick(outputs, this.#selfInputs), cross },
    };
  }

  async dispose(): Promise<void> {
    await this.#encoder.release();
    await this.#project.release();
    await this.#step.release();
  }
}

interface DecoderSessions {
  /** The encoder's output to keys and values. */
  readonly project: Session;
  /** One token. */
  readonly step: Session;
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

async function openDecoder(
  folder: ModelFolder,
  path: string,
  backend: Backend,
): Promise<DecoderSessions> {
  await using files = new FolderFiles(join(folder.path, "onnx"));
  const model = await readModel(files, path.slice(path.lastIndexOf("/") + 1));
  const isCross = (name: string) => name.includes(".encoder.");
  const take = (branch: "then_branch" | "else_branch", wanted: (name: string) => boolean) => {
    const taken = takeBranch(model, branch);
    if (taken !== undefined) return keepWanted(taken, wanted);
    throw new StartupError(`${path} is not merged of two decoders, as Optimum exports them.`);
  };
  // The encoder's keys are transposed once per window instead of once per token.
  const { maker, user } = hoistTransposes({
    maker: take("else_branch", isCross),
    user: take("then_branch", (name) => !isCross(name)),
  }, (input) => isCross(input) ? presentName(input) : undefined);
  return {
    project: await openChangedGraph(maker, { files, backend }),
    step: await openChangedGraph(user, { files, backend }),
  };
}

function keepWanted(model: Model, wanted: (name: string) => boolean): Model {
  return keepOutputs(model, model.graph.outputs.map(({ name }) => name).filter(wanted));
}

/** Frees tensors. */
export function disposeTensors(tensors: Tensors): void {
  for (const tensor of Object.values(tensors)) tensor.dispose();
}

function requireInputs(session: Session, graph: string, known: RegExp): void {
  const unknown = session.inputs.map(({ name }) => name).filter((name) => !known.test(name));
  if (unknown.length === 0) return;
  throw new StartupError(
    `onnx/${graph} wants inputs that are not known: ${
      unknown.join(", ")
    }. Wanted is Optimum's export of Whisper.`,
  );
}

/** Keys or values of no token yet. */
function noTokens({ type, shape }: Session["inputs"][number], numWindows: number): Tensor {
  const dims = shape.map((size, axis) =>
    axis === 0 ? numWindows : typeof size === "number" ? size : 0
  );
  return type === "float16"
    ? new Tensor("float16", new Uint16Array(0), dims)
    : new Tensor("float32", new Float32Array(0), dims);
}

function pick(outputs: Tensors, inputNames: readonly string[]): Tensors {
  return Object.fromEntries(inputNames.map((name) => [name, outputs[presentName(name)]!]));
}

/** The output that continues a cache input: `past_key_values.0.decoder.key` → `present.0.decoder.key`. */
function presentName(pastName: string): string {
  return pastName.replace(/^past_key_values/, "present");
}
