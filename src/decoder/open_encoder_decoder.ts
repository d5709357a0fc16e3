/**
 * Opens the decoder of an encoder-decoder model.
 *
 * Optimum's merged graph is divided into two. One projects the encoder's output to keys and values, once per input. The
 * other one runs the tokens: it is cut at its attention nodes, or runs whole if it cannot be cut.
 *
 * @module
 */
import type { Backend } from "../device/backend.ts";
import { cutForGpu } from "../program/adapt_cut.ts";
import { lookUpInputs, takeEmbedding } from "../graph/cut/embedding_lookup.ts";
import type { FolderFiles } from "../graph/file/external_data.ts";
import type { AttentionNode, GraphCut } from "../graph/graph_cut.ts";
import {
  cutStep,
  type DecoderGraphs,
  isCrossCache,
  pickCache,
  requireMerged,
  toPresentName,
} from "../graph/cut/merged_decoder.ts";
import { disposeTensors, type GraphSession, Tensor, type Tensors } from "../device/ort/ort.ts";
import { CrossProjection, EncoderDecoderAttention } from "./encoder_decoder_attention.ts";
import { EncoderDecoder, type InputEncoder } from "./encoder_decoder.ts";
import type { KernelRule } from "./kernel_rule.ts";
import { openPagedDecoder } from "./open_paged_decoder.ts";
import type { LogitsProcessor, PagedDecoder } from "./paged_decoder.ts";
import type { ModelProto } from "../graph/file/proto.ts";
import { hoistTransposes } from "../graph/rewrite/token_rows.ts";
import { type EncodedInputs, WholeDecoder } from "./whole_decoder.ts";

/** The decoder to open, and options. */
export interface EncoderDecoderOptions<Input extends object> {
  readonly backend: Backend;
  readonly files: FolderFiles;
  readonly encoder: InputEncoder<Input>;
  /** Maximum number of tokens of a sequence. */
  readonly contextLength: number;
  /** Maximum number of positions in the encoder's output for one input. */
  readonly numPositions: number;
  /** Maximum number of sequences at a time; fewer if their keys and values would take more than a GiB. */
  readonly maxSequences: number;
  /** Opens the graph that turns token ids into embeddings, for a decoder that takes embeddings. */
  readonly openEmbedding?: (() => Promise<GraphSession>) | undefined;
  readonly processLogits?: LogitsProcessor | undefined;
  /** The rows that run in kernels; chosen for the device if absent. */
  readonly rule?: KernelRule | undefined;
}

/** Tokens per sequence in the largest step, which suffice for the short prompts of these decoders. */
const TOKENS_PER_SEQUENCE = 4;
/** Minimum number of tokens of the largest step. Long texts are aligned in several steps. */
const MIN_STEP_TOKENS = 16;
const BLOCK_SIZE = 16;
/** Memory for the keys and values of all sequences, unless a single one needs more. */
const CACHE_BYTES = 2 ** 30;
/**
 * Maximum number of bytes of f32 weights that are repacked for kernels on the CPU. For Whisper base, with 231 MB, the
 * start would take 1.5 s longer, more than the steps of many recordings save.
 */
const MAX_COMPILED_FLOAT_BYTES = 64 * 2 ** 20;
/**
 * Opens a decoder.
 *
 * @returns the decoder, or one sentence that says why the graph cannot be cut.
 * @throws {RangeError} when the kernels cannot run one of its attention nodes.
 */
export async function openEncoderDecoder<Input extends object>(
  graphs: DecoderGraphs,
  options: EncoderDecoderOptions<Input>,
): Promise<EncoderDecoder<Input> | { readonly refused: string }> {
  const { backend, files, encoder } = options;
  const result = cutStep(graphs.step, options);
  if ("refused" in result) return result;
  const { crossInputs } = result;
  const cut = backend.kind === "webgpu"
    ? cutForGpu(result.cut, backend.maxBufferBytes)
    : takeEmbedding(lookUpInputs(result.cut));
  const isCrossAttention = ({ name }: AttentionNode) => crossInputs.has(name);
  const fitting = countSequencesThatFit(cut, options, isCrossAttention);
  const maxSequences = Math.min(options.maxSequences, fitting);
  const { decoder, attention } = await openCut(cut, { ...options, maxSequences }, isCrossAttention);
  const { maxInputs } = encoder;
  const nodes = new Map(
    cut.attentions.filter(isCrossAttention).map((node) => [
      node,
      crossInputs.get(node.name)!,
    ]),
  );
  const projection = await CrossProjection.open(graphs.project, {
    ...{ backend, files, nodes, maxInputs },
    numPositions: options.numPositions,
  });
  return new EncoderDecoder({ backend, encoder, projection, decoder, attention });
}

/** The number of sequences whose keys and values fit in the memory; at least one. */
function countSequencesThatFit<Input extends object>(
  cut: GraphCut,
  { backend, contextLength, numPositions }: EncoderDecoderOptions<Input>,
  isCross: (node: AttentionNode) => boolean,
): number {
  const perNode = cut.attentions.map((node) => {
    const elementBytes = node.dtype === "float16" && backend.kind === "webgpu" ? 2 : 4;
    const numKeys = isCross(node) ? numPositions : contextLength;
    return Math.ceil(numKeys / BLOCK_SIZE) * BLOCK_SIZE * node.kvHeads * node.headDim *
      elementBytes;
  });
  const perSequence = 2 * perNode.reduce((sum, bytes) => sum + bytes, 0);
  const fitting = Math.min(
    CACHE_BYTES / perSequence,
    backend.maxBufferBytes / Math.max(...perNode),
  );
  return Math.max(1, Math.floor(fitting));
}

async function openCut<Input extends object>(
  cut: GraphCut,
  options: EncoderDecoderOptions<Input>,
  isCross: (node: AttentionNode) => boolean,
): Promise<{ decoder: PagedDecoder; attention: EncoderDecoderAttention }> {
  const { backend, encoder, numPositions, maxSequences } = options;
  const contextLength = Math.min(options.contextLength, cut.maxPositions ?? Infinity);
  let attention: EncoderDecoderAttention;
  const decoder = await openPagedDecoder({
    ...options,
    keepsOneLayout: true,
    maxCompiledFloatBytes: backend.kind === "cpu" ? MAX_COMPILED_FLOAT_BYTES : undefined,
    openEmbedding: options.openEmbedding ??
      (() => Promise.reject(new Error("The graph takes embeddings."))),
    cut,
    limits: {
      contextLength,
      vocabSize: cut.output.width,
      maxSequences,
      maxBatchTokens: Math.max(maxSequences * TOKENS_PER_SEQUENCE, MIN_STEP_TOKENS),
      // One more sequence, for the text that is being aligned.
      numBlocks: (maxSequences + 1) * Math.ceil(contextLength / BLOCK_SIZE),
      blockSize: BLOCK_SIZE,
      sharesBlocks: true,
    },
    openAttention: (own) =>
      attention = new EncoderDecoderAttention({
        ...{ ...own, backend, isCross, numPositions },
        numSlots: maxSequences,
        maxInputs: encoder.maxInputs,
      }),
    onProgress: () => {},
  });
  return { decoder, attention: attention! };
}

/** The decoder to open, and options. */
interface WholeEncoderDecoderOptions<Input extends object> {
  /** Path of the graph, for messages. */
  readonly path: string;
  readonly files: FolderFiles;
  readonly backend: Backend;
  readonly encoder: InputEncoder<Input>;
  /** Maximum number of tokens of a sequence. */
  readonly contextLength: number;
  readonly vocabSize: number;
  /** Opens the graph that turns token ids into embeddings, for a decoder that takes embeddings. */
  readonly openEmbedding?: (() => Promise<GraphSession>) | undefined;
  readonly processLogits?: LogitsProcessor | undefined;
}

const HIDDEN = "encoder_hidden_states";
const ENCODER_MASK = "encoder_attention_mask";

/**
 * Opens the decoder without cutting its graph.
 *
 * @throws {StartupError} when the graph is not a merged decoder.
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
    (input) => isCrossCache(input) ? toPresentName(input) : undefined,
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
 * Caches what sequences read for the last encoder input, so that it is encoded once: its projected keys and values, or
 * the encoder's output if the graph takes that in every step.
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
    return this.#last.feeds;
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
