/**
 * SpeechT5's decoder as Optimum exports it, merged of two, with its keys and values on the device.
 *
 * Of the merged graph two are made: one projects the encoder's output to keys and values, once per text, and the
 * other adds frames with all keys and values so far.
 *
 * @module
 */
import { StartupError } from "../../errors.ts";
import { isCrossCache, presentName } from "../../onnx/cut/cache_names.ts";
import { keepOutputs, takeBranch } from "../../onnx/rewrite/if_branch.ts";
import { disposeTensors, Tensor, type Tensors } from "../../onnx/runtime/ort.ts";
import type { ModelProto } from "../../onnx/file/proto.ts";
import type { OpenContext } from "../family.ts";
import { type Feed, freeFeed, TtsGraph } from "./tts_graph.ts";

const DECODER = "decoder_model_merged";
const KNOWN =
  /^(output_sequence|encoder_hidden_states|encoder_attention_mask|speaker_embeddings|past_key_values\..*)$/;

/** The decoding state; it owns its tensors. */
export interface MelState {
  /** Constant inputs of all frames. */
  readonly fixed: Readonly<Record<string, Feed>>;
  /** Keys and values of frames so far, by input name. */
  self: Tensors;
  /** All frames so far, in the decoder's input form. */
  sequence: Feed;
  dispose(): void;
}

/** The result of a step. */
export interface MelFrames {
  /** f32 `[frames, melBins]`. */
  readonly frames: Float32Array;
  /** Highest stop probability of these frames. */
  readonly stopProbability: number;
}

export class MelDecoder {
  readonly #project: TtsGraph;
  readonly #step: TtsGraph;
  readonly #selfInputs: TtsGraph["inputs"];
  readonly #crossInputs: readonly string[];

  private constructor(project: TtsGraph, step: TtsGraph) {
    this.#project = project;
    this.#step = step;
    const cached = step.inputs.filter(({ name }) => name.startsWith("past_key_values."));
    this.#selfInputs = cached.filter(({ name }) => !isCrossCache(name));
    this.#crossInputs = cached.map(({ name }) => name).filter(isCrossCache);
  }

  /** @throws {StartupError} when the graph is not as Optimum exports it. */
  static async open(context: OpenContext): Promise<MelDecoder> {
    const { path } = context.graphs.of(DECODER);
    const open = (branch: "then_branch" | "else_branch", wanted: (name: string) => boolean) =>
      TtsGraph.open(context, {
        name: DECODER,
        known: KNOWN,
        change: (model) => takeHalf(model, { branch, wanted, path }),
      });
    const project = await open("else_branch", isCrossCache);
    return new MelDecoder(project, await open("then_branch", (name) => !isCrossCache(name)));
  }

  /**
   * The state before the first frame.
   *
   * @param encoded the encoder's output for a text; the caller owns it and keeps it until the state is disposed.
   * @param options.speaker f32 `[width]`.
   */
  async begin(
    encoded: Tensors,
    { speaker, melBins }: { readonly speaker: Float32Array; readonly melBins: number },
  ): Promise<MelState> {
    const given: Readonly<Record<string, Feed>> = {
      encoder_hidden_states: encoded["encoder_outputs"]!,
      encoder_attention_mask: encoded["encoder_attention_mask"]!,
      speaker_embeddings: { values: speaker, dims: [1, speaker.length] },
    };
    const projected = await this.#project.run(given);
    const cross = pickCache(projected, this.#crossInputs);
    const state: MelState = {
      fixed: { ...given, ...cross },
      self: emptyCache(this.#selfInputs),
      sequence: { values: new Float32Array(melBins), dims: [1, 1, melBins] },
      dispose: () => {
        disposeTensors(state.self);
        disposeTensors(cross);
        freeFeed(state.sequence);
      },
    };
    return state;
  }

  /** Adds frames to the state. @param noiseOffset offset of the noise in its first layers. */
  async step(state: MelState, noiseOffset: number): Promise<MelFrames> {
    const { fixed, self, sequence } = state;
    const feeds = { ...fixed, ...self, output_sequence: sequence };
    const outputs = await this.#step.run(feeds, { offset: noiseOffset });
    state.self = pickCache(outputs, this.#selfInputs.map(({ name }) => name));
    state.sequence = outputs["output_sequence_out"]!;
    disposeTensors(self);
    freeFeed(sequence);
    const stops = await this.#step.take(outputs, "prob");
    return {
      frames: await this.#step.take(outputs, "spectrum"),
      stopProbability: stops.reduce((highest, stop) => Math.max(highest, stop), 0),
    };
  }

  /** Frees the weights. */
  async release(): Promise<void> {
    await this.#project.release();
    await this.#step.release();
  }
}

function takeHalf(
  model: ModelProto,
  { branch, wanted, path }: {
    readonly branch: "then_branch" | "else_branch";
    readonly wanted: (name: string) => boolean;
    readonly path: string;
  },
): ModelProto {
  const taken = takeBranch(model, branch);
  if (taken !== undefined) {
    return keepOutputs(taken, taken.graph.outputs.map(({ name }) => name).filter(wanted));
  }
  throw new StartupError(`${path} is not merged of two decoders, as Optimum exports them.`);
}

/** The empty cache: tensors by input name. */
function emptyCache(inputs: TtsGraph["inputs"]): Tensors {
  return Object.fromEntries(inputs.map((input) => [input.name, nothingYet(input)]));
}

/** The outputs that continue cache inputs, by the inputs' names. */
function pickCache(
  outputs: Tensors,
  inputNames: readonly string[],
): Record<string, Tensor> {
  return Object.fromEntries(
    inputNames.map((name) => [name, outputs[presentName(name)]!]),
  );
}

function nothingYet({ type, shape }: TtsGraph["inputs"][number]): Tensor {
  const dims = shape.map((size, axis) => axis === 0 ? 1 : typeof size === "number" ? size : 0);
  return type === "float16"
    ? new Tensor("float16", new Uint16Array(0), dims)
    : new Tensor("float32", new Float32Array(0), dims);
}
