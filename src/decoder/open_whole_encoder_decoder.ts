/**
 * Opens the decoder of an encoder-decoder model without splitting it. A {@linkcode WholeDecoder} runs the tokens, and a
 * second graph projects the encoder's output to the keys and values that they attend to.
 *
 * @module
 */
import type { Backend } from "../device/backend.ts";
import {
  isCrossCache,
  pickCache,
  presentName,
  requireMerged,
} from "../graph/cut/merged_decoder.ts";
import type { FolderFiles } from "../graph/file/external_data.ts";
import type { ModelProto } from "../graph/file/proto.ts";
import { hoistTransposes } from "../graph/rewrite/output_transposes.ts";
import { disposeTensors, type GraphSession, Tensor, type Tensors } from "../device/ort/ort.ts";
import type { InputEncoder } from "./encoder_decoder.ts";
import type { LogitsProcessor } from "./paged_decoder.ts";
import { type EncodedInputs, WholeDecoder } from "./whole_decoder.ts";

/** What to open, and how. */
interface WholeEncoderDecoderOptions<Input extends object> {
  /** Path of the graph, for messages. */
  readonly path: string;
  readonly files: FolderFiles;
  readonly backend: Backend;
  readonly encoder: InputEncoder<Input>;
  /** Most tokens of a sequence. */
  readonly contextLength: number;
  readonly vocabSize: number;
  /** Opens the graph that turns token ids into embeddings, for a decoder that takes embeddings. */
  readonly openEmbedding?: (() => Promise<GraphSession>) | undefined;
  readonly processLogits?: LogitsProcessor | undefined;
}

const HIDDEN = "encoder_hidden_states";
const ENCODER_MASK = "encoder_attention_mask";

/**
 * Opens the graphs.
 *
 * @throws {StartupError} when the graph is not merged of two.
 * @throws {UnsupportedGraphError} when it has unknown inputs.
 */
export async function openWholeEncoderDecoder<Input extends object>(
  model: ModelProto,
  options: WholeEncoderDecoderOptions<Input>,
): Promise<WholeDecoder> {
  const { path, files, backend, encoder } = options;
  const { project, step } = requireMerged(model, path);
  // Transposes the encoder's keys once per input instead of once per token.
  const { maker, user } = hoistTransposes(
    { maker: project, user: step },
    (input) => isCrossCache(input) ? presentName(input) : undefined,
  );
  const hasCross = maker.graph.outputs.length > 0;
  const session = hasCross ? await backend.openModel(maker, files) : undefined;
  const names = user.graph.inputs.map(({ name }) => name);
  const encoded = new ProjectedInputs({ encoder, project: session, names });
  try {
    return await WholeDecoder.load({ ...options, model: user, encoded });
  } catch (error) {
    await encoded.dispose();
    throw error;
  }
}

/** Options of {@linkcode ProjectedInputs}. */
interface ProjectedInputsOptions<Input extends object> {
  readonly encoder: InputEncoder<Input>;
  /** Projects the encoder's output to keys and values; absent if every step attends to the output itself. */
  readonly project: GraphSession | undefined;
  /** The inputs of the graph that runs tokens. */
  readonly names: readonly string[];
}

/**
 * Caches the keys and values of the last input, or the encoder's output if every step takes that, so that an input is
 * encoded once.
 */
class ProjectedInputs<Input extends object> implements EncodedInputs {
  readonly names: readonly string[];
  readonly #options: ProjectedInputsOptions<Input>;
  #last: { readonly input: object; readonly feeds: Tensors } | undefined;

  constructor(options: ProjectedInputsOptions<Input>) {
    this.#options = options;
    this.names = options.names.filter((name) =>
      isCrossCache(name) || name === HIDDEN || name === ENCODER_MASK
    );
  }

  async feeds(input: object): Promise<Tensors> {
    if (this.#last?.input !== input) {
      this.#free();
      this.#last = { input, feeds: await this.#encode(input as Input) };
    }
    return this.#last!.feeds;
  }

  async dispose(): Promise<void> {
    this.#free();
    await this.#options.project?.release();
  }

  async #encode(input: Input): Promise<Tensors> {
    const { encoder, project } = this.#options;
    const hidden = await encoder.encode([input]);
    const [, numPositions = 0] = hidden.dims;
    const projected = await project?.run({ [HIDDEN]: hidden });
    const feeds = projected ? pickCache(projected, this.names.filter(isCrossCache)) : {};
    if (this.names.includes(ENCODER_MASK)) {
      const mask = new BigInt64Array(numPositions).fill(1n);
      feeds[ENCODER_MASK] = new Tensor("int64", mask, [1, numPositions]);
    }
    if (this.names.includes(HIDDEN)) feeds[HIDDEN] = hidden;
    else hidden.dispose();
    return feeds;
  }

  #free(): void {
    if (this.#last !== undefined) disposeTensors(this.#last.feeds);
    this.#last = undefined;
  }
}
