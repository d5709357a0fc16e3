/**
 * Opens the decoder of an encoder-decoder model.
 *
 * Of Optimum's merged graph two are made: one projects the encoder's output to keys and values, once per input, and the
 * other is cut.
 *
 * @module
 */
import type { Backend } from "../device/backend.ts";
import { cutForGpu } from "../program/gpu_cut.ts";
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

/** How to open it. */
export interface EncoderDecoderOptions<Input extends object> {
  readonly backend: Backend;
  readonly files: FolderFiles;
  readonly encoder: InputEncoder<Input>;
  /** Most tokens of a sequence. */
  readonly contextLength: number;
  /** Most positions of the encoder's output for one input. */
  readonly numPositions: number;
  /** Most sequences at a time; fewer where their keys and values take more than a GiB. */
  readonly maxSequences: number;
  /** Opens the graph that turns token ids into embeddings, for a decoder that takes those. */
  readonly openEmbedding?: (() => Promise<GraphSession>) | undefined;
  readonly processLogits?: LogitsProcessor | undefined;
  /** What kernels run; what suits the device if absent. */
  readonly rule?: KernelRule | undefined;
}

/** Tokens per sequence that a step has room for: a prompt. */
const TOKENS_PER_SEQUENCE = 4;
/** Least tokens that a step has room for: whole texts are aligned in one. */
const MIN_STEP_TOKENS = 16;
const BLOCK_SIZE = 16;
/** Memory for the keys and values of all sequences, unless one needs more. */
const CACHE_BYTES = 2 ** 30;
/**
 * Most weights in f32 that are laid out for kernels on the CPU: of Whisper's base size, 231 MB, the start takes 1.5 s
 * longer, more than the steps of many recordings save.
 */
const MAX_COMPILED_FLOAT_BYTES = 64 * 2 ** 20;
/**
 * Opens a decoder.
 *
 * @returns in one sentence why the graph is not cut, where it is not.
 * @throws {RangeError} when the kernels cannot run one of its attentions.
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

/** How many sequences' keys and values fit the memory, at least one. */
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
      // One more, for texts that are aligned.
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
