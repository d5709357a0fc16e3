/**
 * The decoder of an encoder-decoder model as Optimum exports it, merged of two, with its keys and values on the device.
 *
 * Of the merged graph two are made: one projects the encoder's output to keys and values, once per input, and the
 * other runs one token with all keys and values so far. None holds weights of the other.
 *
 * @module
 */
import type { Backend } from "../backend/backend.ts";
import { StartupError } from "../errors.ts";
import type { FolderFiles } from "../onnx/file/external_data.ts";
import { isCrossCache, presentName } from "../onnx/cut/cache_names.ts";
import { hoistTransposes } from "../onnx/rewrite/hoist_transposes.ts";
import { type DecoderGraphs, divideMerged } from "../onnx/cut/merged_decoder.ts";
import { type GraphSession, Tensor, type Tensors } from "../onnx/runtime/ort.ts";
import type { ModelProto } from "../onnx/file/proto.ts";

/** Keys and values of a batch, by input name; the first axis of each tensor is the batch. */
export interface DecoderState {
  /** Of the tokens so far. */
  readonly self: Tensors;
  /** Of the encoder's output, and the output itself where every step takes it. */
  readonly cross: Tensors;
  /** Positions of the encoder's output, the same for all rows. */
  readonly numEncoded: number;
}

/** What a decoder step gives. */
interface DecoderStep {
  /** `[rows, 1, vocabSize]`. */
  readonly logits: Tensor;
  readonly state: DecoderState;
}

const HIDDEN = "encoder_hidden_states";
const MASKS = ["attention_mask", "encoder_attention_mask"] as const;
const STEP_INPUT =
  /^(input_ids|inputs_embeds|encoder_hidden_states|(encoder_)?attention_mask|past_key_values\..*\.(key|value))$/;

/** How to open one. */
export interface MergedDecoderOptions {
  /** Of the graph, for messages. */
  readonly path: string;
  readonly files: FolderFiles;
  readonly backend: Backend;
}

export class MergedDecoder {
  readonly logitsDtype: "float32" | "float16";
  /** What a token is given as: its id, or its embedding. */
  readonly tokenInput: "input_ids" | "inputs_embeds";
  /** Absent where every step attends to the encoder's output itself. */
  readonly #project: GraphSession | undefined;
  readonly #step: GraphSession;
  readonly #selfInputs: GraphSession["inputs"];
  readonly #crossInputs: readonly string[];
  readonly #masks: readonly (typeof MASKS)[number][];
  readonly #wantsHidden: boolean;

  private constructor(project: GraphSession | undefined, step: GraphSession) {
    const names = step.inputs.map(({ name }) => name);
    this.#project = project;
    this.#step = step;
    this.#selfInputs = step.inputs.filter(({ name }) =>
      name.startsWith("past_key_values") && !isCrossCache(name)
    );
    this.#crossInputs = names.filter(isCrossCache);
    this.#masks = MASKS.filter((name) => names.includes(name));
    this.#wantsHidden = names.includes(HIDDEN);
    this.tokenInput = names.includes("inputs_embeds") ? "inputs_embeds" : "input_ids";
    this.logitsDtype = step.outputs.find(({ name }) => name === "logits")!.type as "float32";
  }

  /**
   * Opens a graph.
   *
   * @throws {StartupError} when it is not as Optimum exports it.
   */
  static async open(
    model: ModelProto,
    { path, files, backend }: MergedDecoderOptions,
  ): Promise<MergedDecoder> {
    const { project: whole, step: wholeStep } = requireMerged(model, path);
    // The encoder's keys are transposed once per input instead of once per token.
    const { maker, user } = hoistTransposes(
      { maker: whole, user: wholeStep },
      (input) => isCrossCache(input) ? presentName(input) : undefined,
    );
    const hasCross = maker.graph.outputs.length > 0;
    const project = hasCross ? await backend.openModel(maker, files) : undefined;
    if (project !== undefined) requireInputs(project, path, /^encoder_hidden_states$/);
    const step = await backend.openModel(user, files);
    requireInputs(step, path, STEP_INPUT);
    return new MergedDecoder(project, step);
  }

  /**
   * The state before the first token.
   *
   * @param hidden the encoder's output, `[rows, positions, width]`; it is taken over, or freed.
   */
  async begin(hidden: Tensor): Promise<DecoderState> {
    const [numRows = 1, numEncoded = 0] = hidden.dims;
    const projected = await this.#project?.run({ [HIDDEN]: hidden });
    const cross: Record<string, Tensor> = projected ? pickCache(projected, this.#crossInputs) : {};
    if (this.#wantsHidden) cross[HIDDEN] = hidden;
    else hidden.dispose();
    return { self: emptyCache(this.#selfInputs, numRows), cross, numEncoded };
  }

  /**
   * Runs one more token of each row. The given state is not changed.
   *
   * @param token its id or its embedding, as {@linkcode tokenInput} says: `[rows, 1]` or `[rows, 1, width]`.
   */
  async step(state: DecoderState, token: Tensor): Promise<DecoderStep> {
    const { self, cross, numEncoded } = state;
    const numRows = token.dims[0]!;
    const numTokens = Object.values(self)[0]!.dims[2]! + 1;
    const lengths = { attention_mask: numTokens, encoder_attention_mask: numEncoded };
    const masks = this.#masks.map((name) => [name, ones(numRows, lengths[name])] as const);
    const outputs = await this.#step.run({
      [this.tokenInput]: token,
      ...Object.fromEntries(masks),
      ...self,
      ...cross,
    });
    const names = this.#selfInputs.map(({ name }) => name);
    return { logits: outputs["logits"]!, state: { ...state, self: pickCache(outputs, names) } };
  }

  /** Frees the weights. */
  async release(): Promise<void> {
    await this.#project?.release();
    await this.#step.release();
  }
}

/** The two graphs of a merged decoder. @throws {StartupError} when it is not merged of two. */
export function requireMerged(model: ModelProto, path: string): DecoderGraphs {
  const graphs = divideMerged(model);
  if (graphs !== undefined) return graphs;
  throw new StartupError(`${path} is not merged of two decoders, as Optimum exports them.`);
}

function requireInputs(session: GraphSession, path: string, known: RegExp): void {
  const unknown = session.inputs.map(({ name }) => name).filter((name) => !known.test(name));
  if (unknown.length === 0) return;
  throw new StartupError(
    `${path} wants inputs that are not known: ${
      unknown.join(", ")
    }. Wanted is a merged decoder as Optimum exports it.`,
  );
}

/** Keys and values of no token yet, by the inputs that take them. */
export function emptyCache(inputs: GraphSession["inputs"], numRows: number): Tensors {
  return Object.fromEntries(inputs.map(({ name, type, shape }) => {
    const dims = shape.map((size, axis) =>
      axis === 0 ? numRows : typeof size === "number" ? size : 0
    );
    const nothing = type === "float16"
      ? new Tensor("float16", new Uint16Array(0), dims)
      : new Tensor("float32", new Float32Array(0), dims);
    return [name, nothing];
  }));
}

function ones(numRows: number, length: number): Tensor {
  return new Tensor("int64", new BigInt64Array(numRows * length).fill(1n), [numRows, length]);
}

/** The outputs that continue cache inputs, by the inputs' names. */
export function pickCache(
  outputs: Tensors,
  inputNames: readonly string[],
): Record<string, Tensor> {
  return Object.fromEntries(inputNames.map((name) => [name, outputs[presentName(name)]!]));
}
