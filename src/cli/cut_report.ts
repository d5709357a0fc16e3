/**
 * A cut graph in words.
 *
 * @module
 */
import { stateSize } from "../device/sequence_states.ts";
import { findRefusal } from "../device/cpu/program.ts";
import { BLOCK_SIZE, bytesPerBlock, divideLayers, type HeadBytes } from "../decoder/cache_pools.ts";
import { MOST_FEW_ROWS_ON_CPU } from "../decoder/kernel_rule.ts";
import { stepLimits } from "../decoder/paged_limits.ts";
import { compileCut, type CompiledSegment, refuseSegments } from "../program/compile_cut.ts";
import { findWeights } from "../graph/experts/mixture.ts";
import type { EncoderCut, EncoderSite } from "../graph/cut/encoder_cut.ts";
import { storedBytes, type StoredTensor } from "../graph/file/stored_tensor.ts";
import { formatBytes } from "../base/format_bytes.ts";
import { cutForCpu } from "../program/cpu_cut.ts";
import { cutForGpu } from "../program/gpu_cut.ts";
import { unpacksWeights } from "../program/unpacked_weights.ts";
import { widenCut } from "../graph/rewrite/widen_cut.ts";
import type {
  AttentionSite,
  ExpertsSite,
  GraphCut,
  Segment,
  StateSite,
  TensorPort,
} from "../graph/graph_cut.ts";
import type { FeatureCut } from "../graph/cut/split_features.ts";
import { liftWeights } from "../graph/cut/weight_inputs.ts";

/** An attention of a decoder or of an encoder. */
type Site = EncoderSite & Partial<AttentionSite>;

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(bytes < 1e6 ? 3 : 1)} MB`;
}

function describePort({ name, dtype, shape }: TensorPort): string {
  return `${name} ${dtype} [${shape.join(", ")}]`;
}

/** How a device caches heads: the CPU keeps all of them in f32. */
const HEAD_BYTES: Readonly<Record<"gpu" | "cpu", HeadBytes>> = {
  gpu: (dtype, headSize) => (dtype === "float16" ? 2 : 4) * headSize,
  cpu: (_, headSize) => 4 * headSize,
};

/** Bytes of cache that one token takes over all layers on a GPU. */
function cacheBytesPerToken(sites: readonly AttentionSite[]): number {
  return sites.reduce((sum, site) => sum + bytesPerBlock(site, HEAD_BYTES.gpu), 0) / BLOCK_SIZE;
}

/** The cache in words. */
function describeCache(cut: GraphCut): string {
  const { attentions } = cut;
  const inWindows = cacheBytesPerToken(attentions.filter(({ localWindow }) => localWindow));
  return `cache      ${cacheDtypes(cut)}, ${
    cacheBytesPerToken(attentions).toLocaleString("en")
  } bytes per token` +
    (inWindows > 0 ? `, ${inWindows.toLocaleString("en")} of them in layers with a window` : "");
}

function stateBytes({ states }: GraphCut): number {
  return states.reduce((sum, site) => sum + 4 * stateSize(site), 0);
}

/** The types that a GPU caches keys and values in. */
function cacheDtypes({ attentions }: GraphCut): string {
  return [...new Set(attentions.map(({ dtype }) => dtype))].join(" and ");
}

/** Segments as kernels run them, by device. */
interface CompiledSegments {
  readonly gpu: readonly CompiledSegment[];
  readonly cpu: readonly CompiledSegment[];
}

function describeSegment(segment: Segment, compiled?: CompiledSegments): string[] {
  const { index, model, weightBytes, inputs, outputs } = segment;
  return [
    `segment ${index}: ${model.graph.nodes.length} nodes, ${megabytes(weightBytes)} of weights`,
    ...inputs.map((port) => `    in   ${describePort(port)}`),
    ...outputs.map((port) => `    out  ${describePort(port)}`),
    ...compiled
      ? [
        `    GPU  ${describeOnGpu(compiled.gpu[index]!)}`,
        `    CPU  ${describeOnCpu(compiled.cpu[index]!, segment)}`,
      ]
      : [],
  ];
}

function describeOnCpu(compiled: CompiledSegment, segment: Segment): string {
  if ("refused" in compiled) return `ONNX Runtime, always. ${compiled.refused}`;
  if (unpacksWeights(segment)) return "Hearth's kernels";
  return `Hearth's kernels for up to ${MOST_FEW_ROWS_ON_CPU} decoding sequences, ONNX Runtime for other steps`;
}

function describeOnGpu(compiled: CompiledSegment): string {
  if ("refused" in compiled) return `ONNX Runtime, always. ${compiled.refused}`;
  const [few, many] = [compiled.few, compiled.many].map(({ dispatches }) => dispatches.length);
  return `${few} ${few === 1 ? "dispatch" : "dispatches"} for decoding, ${many} for prompts`;
}

/** Names of the attentions of a cut that are to an encoder. */
export type CrossSites = ReadonlySet<string>;

const NO_SITES: CrossSites = new Set();

/** How a GPU runs a cut's segments. */
export function compileForGpu(cut: GraphCut, crossSites = NO_SITES): CompiledSegment[] {
  const onGpu = cutForGpu(cut, Infinity);
  return compileCut(onGpu, {
    takesForm: ({ name }) => !crossSites.has(name),
    contextLength: 1,
    writesSums: true,
  });
}

/** How kernels on the CPU run a cut's segments. */
export function compileForCpu(cut: GraphCut): CompiledSegment[] {
  const options = { takesForm: () => false, contextLength: 1, writesSums: false, rotates: true };
  return refuseSegments(compileCut(cutForCpu(widenCut(cut)), options), findRefusal);
}

/** Counts what a decoding step takes on a GPU. */
function summarizeSteps(
  { attentions }: GraphCut,
  compiled: readonly CompiledSegment[],
  { size: numCross }: CrossSites,
): string {
  const programs = compiled.flatMap((each) => "refused" in each ? [] : [each.few]);
  const ours = programs.reduce((sum, { dispatches }) => sum + dispatches.length, 0);
  const left = compiled.length - programs.length;
  return `decoding   ${ours} dispatches for ${programs.length} of ${compiled.length} segments, ` +
    // Keys and values of an encoder are kept before.
    `${2 * attentions.length - numCross} at least for the attentions, ` +
    (left === 0 ? "one submit" : `${left} runs of ONNX Runtime`);
}

function describeAttention(site: Site): string[] {
  const { layer, name, heads, kvHeads, headDim, vHeadDim, rotary } = site;
  const size = headDim === vHeadDim ? `${headDim}` : `${headDim} (values ${vHeadDim})`;
  const facts = [
    `${heads} heads over ${kvHeads}, size ${size}, ${site.dtype}`,
    `scale ${site.scale.toPrecision(6)}`,
    rotary &&
    `rotary over ${rotary.dim} (${
      rotary.interleaved ? "pairs" : "halves"
    }) from ${rotary.cos.name}`,
    site.localWindow && `window of ${site.localWindow}`,
    site.window && `window of ${site.window} on either side`,
    site.softcap && `softcap ${site.softcap}`,
    site.sinks && `sinks from ${site.sinks.name}`,
  ];
  const operands = [["q", site.q], ["k", site.k], ["v", site.v]] as const;
  return [
    `attention ${layer}: ${name}`,
    `    ${facts.filter((fact) => fact !== undefined).join(", ")}`,
    ...operands.map(([letter, { tensor, tokenStride, offset }]) =>
      `    ${letter}    ${tensor}, row of ${tokenStride} from ${offset}`
    ),
    `    out  ${describePort(site.output)}`,
  ];
}

function describeState({ index, name, recurrence, operands, output }: StateSite): string[] {
  const form = recurrence.kind === "convolution"
    ? `convolution of ${recurrence.taps} tokens, ${recurrence.channels} channels`
    : `linear attention of ${recurrence.heads} heads, ${recurrence.keyDim} × ${recurrence.valueDim}` +
      (recurrence.rates > 0 ? ", delta rule" : "");
  return [
    `state ${index}: ${name}`,
    `    ${form}`,
    ...operands.map(({ tensor, tokenStride }) => `    in   ${tensor}, row of ${tokenStride}`),
    `    out  ${describePort(output)}`,
  ];
}

function describeExperts({ index, name, mixture, operands, output }: ExpertsSite): string[] {
  const { experts, topK, hidden, inner, router, first: { matrix } } = mixture;
  const stored = matrix.kind === "rows"
    ? "numbers"
    : `${matrix.bits} bits in blocks of ${matrix.blockSize}`;
  return [
    `experts ${index}: ${name}`,
    `    ${topK} of ${experts} by ${router.scores}, ${hidden} × ${inner}, ${stored}, ${
      megabytes(sumBytes(findWeights(mixture)))
    }`,
    ...operands.map(({ tensor, tokenStride }) => `    in   ${tensor}, row of ${tokenStride}`),
    `    out  ${describePort(output)}`,
  ];
}

/** One line: numbers of segments and attentions, inputs and outputs. */
export function summarizeCut(cut: GraphCut | EncoderCut | FeatureCut): string {
  const { segments, attentions } = cut;
  const largest = Math.max(...segments.map(({ weightBytes }) => weightBytes));
  const { states = [], experts = [] } = cut as Partial<GraphCut>;
  const others = [
    states.length > 0 ? ` and ${states.length} other states` : "",
    experts.length > 0 ? ` and ${experts.length} mixtures of experts` : "",
  ].join("");
  return `${segments.length} segments around ${attentions.length} attentions${others}, ` +
    `largest ${megabytes(largest)}`;
}

/** All of a cut, in the order it runs. @param contextLength tokens that the model was made for, if known. */
export function describeCut(
  cut: GraphCut,
  { crossSites = NO_SITES, contextLength = Infinity }: {
    readonly crossSites?: CrossSites | undefined;
    readonly contextLength?: number | undefined;
  } = {},
): string[] {
  const lines = [
    `tokens     ${describePort(cut.tokens)}`,
    `positions  ${cut.positions ? describePort(cut.positions) : "used by the attentions alone"}`,
    `rows       ${describePort(cut.rows)}`,
    `output     ${describePort(cut.output)}`,
    ...cut.states.length > 0
      ? [`states     ${stateBytes(cut).toLocaleString("en")} bytes per sequence, beside its cache`]
      : [],
    describeCache(cut),
  ];
  const longest = Math.min(contextLength, cut.maxPositions ?? Infinity);
  if (longest < Infinity) lines.push(describeContext(cut, longest));
  for (const { name, bytes, segments } of cut.sharedWeights) {
    lines.push(`shared     ${name} (${megabytes(bytes)}) by segments ${segments.join(" and ")}`);
  }
  const compiled = compileForGpu(cut, crossSites);
  lines.push(...describeWeights(cut, compiled));
  lines.push(summarizeSteps(cut, compiled, crossSites));
  if (crossSites.size > 0) {
    lines.push(`encoder    ${crossSites.size} of ${cut.attentions.length} attentions are to it`);
  }
  for (const note of cut.notes) lines.push(`note       ${note}`);
  return [...lines, "", ...describeSteps(cut, { gpu: compiled, cpu: compileForCpu(cut) })];
}

/** Where a GPU has the weights. */
function describeWeights(cut: GraphCut, compiled: readonly CompiledSegment[]): string[] {
  const { embedding, segments } = cutForGpu(cut, Infinity);
  const { buffers, constants } = divideWeights(segments, compiled);
  const ofExperts = cut.experts.flatMap(({ mixture }) => findWeights(mixture));
  const table = embedding && sumBytes(embedding.graph.initializers);
  return [
    `on a GPU   ${megabytes(sumBytes([...buffers, ...ofExperts]))} of weights in buffers, ${
      megabytes(sumBytes(constants))
    } as ONNX Runtime's constants` +
    (table === undefined ? "" : `; embeddings' rows are read from ${megabytes(table)} of the file`),
  ];
}

/** What lies in buffers, for kernels and sessions alike, and the small constants that sessions of other segments keep. */
export function divideWeights(
  segments: readonly Segment[],
  compiled: readonly CompiledSegment[],
): { readonly buffers: readonly StoredTensor[]; readonly constants: readonly StoredTensor[] } {
  const read = compiled.flatMap((each) =>
    "refused" in each ? [] : [each.few, each.many].flatMap(({ weights }) => weights)
  );
  const lifted = segments.filter(({ index }) => "refused" in compiled[index]!)
    .map(({ model }) => liftWeights(model));
  return {
    buffers: [...read, ...lifted.flatMap(({ weights }) => weights)],
    constants: lifted.flatMap(({ model }) => model.graph.initializers),
  };
}

/** Bytes of tensors, each counted once. */
function sumBytes(tensors: readonly StoredTensor[]): number {
  const sizes = new Map(tensors.map((tensor) => [tensor.name, storedBytes(tensor)]));
  return sizes.values().reduce((sum, bytes) => sum + bytes, 0);
}

/** All of an encoder's cut, in the order it runs. */
export function describeEncoderCut(cut: EncoderCut): string[] {
  const { tokens, types, positions, output, maxPositions } = cut;
  return [
    `tokens     ${describePort(tokens)}`,
    ...types ? [`types      ${describePort(types)}`] : [],
    ...positions ? [`positions  ${describePort(positions)}`] : [],
    `output     ${describePort(output)}`,
    ...maxPositions === undefined ? [] : [describePositions(maxPositions)],
    "",
    ...describeSteps(cut),
  ];
}

/** All of the cut of an encoder of sound or of images, in the order it runs. */
export function describeFeatureCut(cut: FeatureCut): string[] {
  return [
    `tokens     ${cut.numTokens} of an input`,
    `output     ${describePort(cut.output)}`,
    "note       the CPU's native runtime runs the graph whole",
    "",
    ...describeSteps(cut),
  ];
}

function describePositions(maxPositions: number): string {
  return `context    up to ${maxPositions.toLocaleString("en")}, as its tables allow`;
}

/** The longest sequence, and what its keys and values take. */
function describeContext({ attentions }: GraphCut, tokens: number): string {
  const taken = (["gpu", "cpu"] as const).map((device) => {
    const pools = divideLayers(attentions, {
      contextLength: tokens,
      ...stepLimits({ prefixCache: true }),
      maxBufferBytes: Infinity,
      headBytes: HEAD_BYTES[device],
    });
    return formatBytes(pools.reduce((sum, pool) => sum + pool.mostHeld * pool.blockBytes, 0));
  });
  return `context    ${tokens.toLocaleString("en")} tokens, whose keys and values take ${
    taken[0]
  } on a GPU, ${taken[1]} on the CPU`;
}

function describeSteps(
  { segments, attentions, states = [], experts = [] }: {
    segments: readonly Segment[];
    attentions: readonly Site[];
    states?: readonly StateSite[];
    experts?: readonly ExpertsSite[];
  },
  compiled?: CompiledSegments,
): string[] {
  return segments.flatMap((segment) => [
    ...describeSegment(segment, compiled),
    ...attentions.filter(({ afterSegment }) => afterSegment === segment.index)
      .flatMap(describeAttention),
    ...states.filter(({ afterSegment }) => afterSegment === segment.index).flatMap(describeState),
    ...experts.filter(({ afterSegment }) => afterSegment === segment.index)
      .flatMap(describeExperts),
  ]);
}
