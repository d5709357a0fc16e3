/**
 * Opens the decoder of an encoder-decoder model.
 *
 * Optimum's merged graph is divided into two: one projects the encoder's output to keys and values, once per input; the
 * other is split at its attention nodes.
 *
 * @module
 */
import type { Backend } from "../device/backend.ts";
import { cutForGpu } from "../program/adapt_cut.ts";
import { takeEmbedding } from "../graph/cut/embedding_lookup.ts";
import type { FolderFiles } from "../graph/file/external_data.ts";
import type { AttentionNode, GraphCut } from "../graph/graph_cut.ts";
import { cutStep, type DecoderGraphs } from "../graph/cut/merged_decoder.ts";
import { lookUpInputs } from "../graph/rewrite/input_lookups.ts";
import type { GraphSession } from "../device/ort/ort.ts";
import { CrossProjection } from "./cross_projection.ts";
import { EncoderDecoder, type InputEncoder } from "./encoder_decoder.ts";
import { EncoderDecoderAttention } from "./encoder_decoder_attention.ts";
import type { KernelRule } from "./kernel_rule.ts";
import { openPagedDecoder } from "./open_paged_decoder.ts";
import type { LogitsProcessor, PagedDecoder } from "./paged_decoder.ts";

/** What to open, and how. */
export interface EncoderDecoderOptions<Input extends object> {
  readonly backend: Backend;
  readonly files: FolderFiles;
  readonly encoder: InputEncoder<Input>;
  /** Most tokens of a sequence. */
  readonly contextLength: number;
  /** Most positions in the encoder's output for one input. */
  readonly numPositions: number;
  /** Most sequences at a time; fewer if their keys and values would take more than a GiB. */
  readonly maxSequences: number;
  /** Opens the graph that turns token ids into embeddings, for a decoder that takes embeddings. */
  readonly openEmbedding?: (() => Promise<GraphSession>) | undefined;
  readonly processLogits?: LogitsProcessor | undefined;
  /** What runs in kernels; if absent, what suits the device. */
  readonly rule?: KernelRule | undefined;
}

/** Tokens per sequence that a step has room for, for its prompt. */
const TOKENS_PER_SEQUENCE = 4;
/** Least tokens that a step has room for, since a whole text is aligned in one step. */
const MIN_STEP_TOKENS = 16;
const BLOCK_SIZE = 16;
/** Memory for the keys and values of all sequences, unless a single one needs more. */
const CACHE_BYTES = 2 ** 30;
/**
 * Most bytes of f32 weights that are repacked for kernels on the CPU. For Whisper base, with 231 MB, the start would
 * take 1.5 s longer, more than the steps of many recordings save.
 */
const MAX_COMPILED_FLOAT_BYTES = 64 * 2 ** 20;
/**
 * Opens a decoder.
 *
 * @returns the decoder, or one sentence that says why the graph cannot be split.
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
  const fitting = sequencesThatFit(cut, options, isCrossAttention);
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

/** How many sequences' keys and values fit the memory; at least one. */
function sequencesThatFit<Input extends object>(
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
      // One sequence more, for texts that are aligned.
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
