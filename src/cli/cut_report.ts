/**
 * Describes a cut decoder: its cache, its context, and what runs each segment.
 *
 * @module
 */
import { stateSize } from "../device/kernel_nodes.ts";
import { findRefusal } from "../device/cpu/kernels.ts";
import {
  BLOCK_SIZE,
  chooseStepLimits,
  countBlockBytes,
  divideLayers,
  type HeadBytes,
} from "../decoder/paged_limits.ts";
import { MOST_FEW_ROWS_ON_CPU, unpacksWeights } from "../decoder/kernel_rule.ts";
import { compileCut, type CompiledSegment } from "../program/compile_cut.ts";
import { formatBytes } from "../base/bytes.ts";
import { adaptForCpu, cutForCpu, cutForGpu } from "../program/adapt_cut.ts";
import {
  type AttentionNode,
  countWeightBytes,
  type EncoderCut,
  type GraphCut,
  type Segment,
} from "../graph/graph_cut.ts";
import type { FeatureCut } from "../graph/cut/cut_features.ts";

/** Names of the cross-attention nodes: those that attend to an encoder. */
export type CrossNodes = ReadonlySet<string>;

const NO_NODES: CrossNodes = new Set();

/**
 * Describes a decoder: its totals, one per line, then its segments.
 *
 * @param contextLength tokens that the model was trained for, if known.
 */
export function describeCut(
  cut: GraphCut,
  { crossNodes = NO_NODES, contextLength = Infinity }: {
    readonly crossNodes?: CrossNodes | undefined;
    readonly contextLength?: number | undefined;
  } = {},
): string[] {
  const { attentions, states, segments } = cut;
  const onGpu = compileForGpu(cut, crossNodes);
  const onCpu = compileForCpu(cut);
  const stateBytes = states.reduce((sum, state) => sum + 4 * stateSize(state), 0);
  const longest = Math.min(contextLength, cut.maxPositions ?? Infinity);
  return [
    ...stateBytes > 0
      ? [`states     ${stateBytes.toLocaleString("en")} bytes per sequence, besides its cache`]
      : [],
    ...attentions.length > 0 ? [describeCache(attentions)] : [],
    ...longest < Infinity ? [describeContext(attentions, longest)] : [],
    summarizeSteps(onGpu, 2 * attentions.length - crossNodes.size),
    ...crossNodes.size > 0
      ? [`encoder    ${crossNodes.size} of ${attentions.length} attention nodes attend to it`]
      : [],
    ...cut.notes.map((note) => `note       ${note}`),
    "",
    ...segments.flatMap((segment, index) => [
      describeSegment(segment),
      `    GPU  ${describeOnGpu(onGpu[index]!)}`,
      `    CPU  ${describeOnCpu(onCpu[index]!, segment)}`,
    ]),
  ];
}

/** Summarizes a graph in one line: numbers of segments and attention nodes, and the weights of the largest segment. */
export function summarizeCut(cut: GraphCut | EncoderCut | FeatureCut): string {
  const { segments, attentions } = cut;
  const largest = Math.max(...segments.map(countWeightBytes));
  const { states = [], experts = [] } = cut as Partial<GraphCut>;
  const others = [
    states.length > 0 ? ` and ${states.length} other states` : "",
    experts.length > 0 ? ` and ${experts.length} mixtures of experts` : "",
  ].join("");
  return `${segments.length} segments around ${attentions.length} attentions${others}, ` +
    `largest ${formatMegabytes(largest)}`;
}

/** Describes a segment in one line: its nodes and weights. */
export function describeSegment(segment: Segment): string {
  const { index, model: { graph } } = segment;
  const weights = formatMegabytes(countWeightBytes(segment));
  return `segment ${index}: ${graph.nodes.length} nodes, ${weights} of weights`;
}

/** Compiles the segments of a graph as a GPU would run them. */
export function compileForGpu(cut: GraphCut, crossNodes = NO_NODES): CompiledSegment[] {
  const onGpu = cutForGpu(cut, Infinity);
  return compileCut(onGpu, {
    takesLayout: ({ name }) => !crossNodes.has(name),
    contextLength: 1,
    writesSums: true,
  });
}

/** Compiles the segments of a graph as the CPU kernels would run them. */
export function compileForCpu(cut: GraphCut): CompiledSegment[] {
  return compileCut(cutForCpu(adaptForCpu(cut)), {
    ...{ takesLayout: () => false, contextLength: 1, writesSums: false, rotates: true },
    findRefusal,
  });
}

function describeOnGpu(compiled: CompiledSegment): string {
  if ("refused" in compiled) return `ONNX Runtime, always. ${compiled.refused}`;
  const [few, many] = [compiled.few, compiled.many].map(({ dispatches }) => dispatches.length);
  return `${few} ${few === 1 ? "dispatch" : "dispatches"} for decoding, ${many} for prompts`;
}

function describeOnCpu(compiled: CompiledSegment, segment: Segment): string {
  if ("refused" in compiled) return `ONNX Runtime, always. ${compiled.refused}`;
  if (unpacksWeights(segment)) return "Hearth's kernels";
  return `Hearth's kernels for up to ${MOST_FEW_ROWS_ON_CPU} decoding sequences, ONNX Runtime for other steps`;
}

/**
 * Describes the dispatches of a decoding step on a GPU.
 *
 * @param numAttention dispatches of attention nodes. A node that attends to an encoder has one less, because its keys
 * and values are already cached.
 */
function summarizeSteps(compiled: readonly CompiledSegment[], numAttention: number): string {
  const programs = compiled.flatMap((each) => "refused" in each ? [] : [each.few]);
  const ours = programs.reduce((sum, { dispatches }) => sum + dispatches.length, 0);
  const left = compiled.length - programs.length;
  return `decoding   ${ours} dispatches for ${programs.length} of ${compiled.length} segments, ` +
    `${numAttention} or more for attention, ` +
    (left === 0 ? "one submit" : `${left} ${left === 1 ? "run" : "runs"} of ONNX Runtime`);
}

/** Bytes of one head's keys for one token; its values take as many. The CPU keeps both in f32. */
const HEAD_BYTES: Readonly<Record<"gpu" | "cpu", HeadBytes>> = {
  gpu: (dtype, headSize) => (dtype === "float16" ? 2 : 4) * headSize,
  cpu: (_, headSize) => 4 * headSize,
};

/** Describes how much memory a token takes in the cache of a GPU. */
function describeCache(attentions: readonly AttentionNode[]): string {
  const dtypes = [...new Set(attentions.map(({ dtype }) => dtype))].join(" and ");
  const inWindows = countBytesPerToken(attentions.filter(({ localWindow }) => localWindow));
  return `cache      ${dtypes}, ${
    countBytesPerToken(attentions).toLocaleString("en")
  } bytes per token` +
    (inWindows > 0 ? `, ${inWindows.toLocaleString("en")} of them in layers with a window` : "");
}

function countBytesPerToken(attentions: readonly AttentionNode[]): number {
  return attentions.reduce((sum, each) => sum + countBlockBytes(each, HEAD_BYTES.gpu), 0) /
    BLOCK_SIZE;
}

/** Describes the longest sequence, and the memory of its keys and values. */
function describeContext(attentions: readonly AttentionNode[], tokens: number): string {
  const [onGpu, onCpu] = (["gpu", "cpu"] as const).map((device) => {
    const pools = divideLayers(attentions, {
      contextLength: tokens,
      ...chooseStepLimits({ prefixCache: true }),
      maxBufferBytes: Infinity,
      headBytes: HEAD_BYTES[device],
    });
    return formatBytes(pools.reduce((sum, pool) => sum + pool.mostHeld * pool.blockBytes, 0));
  });
  return `context    ${tokens.toLocaleString("en")} tokens, whose keys and values take ` +
    `${onGpu} on a GPU, ${onCpu} on the CPU`;
}

function formatMegabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(bytes < 1e6 ? 3 : 1)} MB`;
}
