/**
 * Opens a cut graph on a backend, segment by segment, so that only one segment's weights are held at a time.
 *
 * @module
 */
import type { Backend, Storage } from "../device/backend.ts";
import type { AttentionOptions, PagedAttention } from "../device/attention.ts";
import type { KernelExecutor, KernelsOptions } from "../device/kernel_executor.ts";
import { stateConstants } from "../device/sequence_states.ts";
import { StartupError } from "../base/errors.ts";
import { log } from "../base/log.ts";
import {
  compileCut,
  type CompiledSegment,
  listOrtSegments,
  listPrograms,
  lowerCut,
  refuseSegments,
} from "../program/compile_cut.ts";
import { cutForCpu } from "../program/adapt_cut.ts";
import type { Program, StepPrograms } from "../program/program.ts";
import { chooseKernels, type KernelRule, sharesScales, unpacksWeights } from "./kernel_rule.ts";
import { findWeights } from "../graph/experts/mixture.ts";
import type { ModelFiles } from "../graph/file/external_data.ts";
import { readFloats } from "../graph/file/stored_range.ts";
import { storedBytes, type StoredTensor } from "../graph/file/stored_tensor.ts";
import type { AttentionNode, GraphCut } from "../graph/graph_cut.ts";
import type { GraphSession } from "../device/ort/ort.ts";
import { type AxisSizes, computeBytes } from "./activations.ts";
import type { DecoderLimits } from "./decoder.ts";
import { openSegments, releaseSessions } from "./open_segments.ts";
import {
  countMost,
  decodingLimits,
  embeddedPorts,
  type LogitsProcessor,
  PagedDecoder,
} from "./paged_decoder.ts";
import { type ExecutorParts, StepExecutor } from "./step_executor.ts";
import { TokenEmbeddings } from "./token_embeddings.ts";

/** What to open, and on which backend. */
interface PagedOpenOptions {
  readonly backend: Backend;
  readonly cut: GraphCut;
  readonly files: ModelFiles;
  readonly limits: DecoderLimits;
  /**
   * Opens the graph that turns token ids into embeddings, for a cut that takes embeddings and has no such graph itself.
   */
  readonly openEmbedding: () => Promise<GraphSession>;
  /** Opens the attention; if absent, the backend's own. */
  readonly openAttention?: (options: AttentionOptions) => PagedAttention;
  readonly processLogits?: LogitsProcessor | undefined;
  /** Whether keys and values are cached in 8 bits. */
  readonly isQuantized?: boolean | undefined;
  /** Whether the machine has memory for this many more blocks of a pool. */
  readonly hasRoom?: ((numBlocks: number, pool: number) => Promise<boolean>) | undefined;
  /** Memory that a second copy of the weights may take; unlimited if absent. */
  readonly spareBytes?: number;
  /** Whether weights are stored in one layout only, if the device has several: see `kernel_rule.ts`. */
  readonly keepsOneLayout?: boolean | undefined;
  /** Whether rows must be bit-identical whatever other rows share the step, even if that takes longer. */
  readonly isInvariant?: boolean | undefined;
  /** What runs in kernels; if absent, what suits the device. */
  readonly rule?: KernelRule | undefined;
  /** Decoders with more bytes of f32 weights are not compiled; unlimited if absent. */
  readonly maxCompiledFloatBytes?: number | undefined;
  /** Called with the fraction that is loaded, 0 to 1. */
  readonly onProgress: (fraction: number) => void;
}

/**
 * Opens the cache, tables and sessions. If it throws, everything that was opened is freed.
 *
 * @throws {RangeError} when the kernels cannot run one of the attention nodes.
 * @throws {StartupError} when the embeddings' graph does not fit the decoder.
 * @throws {Error} with ONNX Runtime's message when it refuses a segment.
 */
export async function openPagedDecoder(options: PagedOpenOptions): Promise<PagedDecoder> {
  const { backend, cut, files, limits } = options;
  const openAttention = options.openAttention ?? backend.openAttention.bind(backend);
  // Frees what is open if something after it cannot be opened.
  await using opened = new AsyncDisposableStack();
  const attention = openAttention({
    nodes: cut.attentions,
    numBlocks: limits.numBlocks,
    maxBlocks: limits.maxBlocks,
    windows: limits.windows,
    ...{ isQuantized: options.isQuantized, isInvariant: options.isInvariant },
    blockSize: limits.blockSize,
    maxTokens: limits.maxBatchTokens,
    maxSequences: limits.maxSequences,
    maxBlocksPerSequence: Math.ceil(limits.contextLength / limits.blockSize),
    constants: await readConstants(
      cut.attentions.flatMap(({ rotary, sinks }) => [rotary?.cos, rotary?.sin, sinks]),
      files,
    ),
  });
  opened.defer(() => attention.dispose());
  const states = cut.states.length === 0 ? undefined : backend.openStates({
    nodes: cut.states,
    numSlots: limits.numStateSlots!,
    maxSequences: limits.maxSequences,
    constants: await readConstants(stateConstants(cut.states), files),
  });
  opened.defer(() => states?.dispose());
  const weights = openWeights(options);
  opened.defer(() => weights?.dispose());
  const experts = cut.experts.length === 0 ? undefined : await backend.openExperts({
    ...{ nodes: cut.experts, maxTokens: limits.maxBatchTokens, files, weights },
  });
  opened.defer(() => experts?.dispose());
  const executor = new StepExecutor({
    backend,
    cut,
    most: countMost(limits),
    mostDecoding: countMost(decodingLimits(limits)),
    attend: ({ layer }, { tensors, output, slices }) =>
      attention.run(layer, tensors, output, slices),
    states,
    experts,
  });
  opened.defer(() => executor.dispose());
  const {
    isInvariant = false,
    keepsOneLayout = isInvariant,
    rule = chooseKernels({ backend, keepsOneLayout }),
  } = options;
  const buffers = backend.kind === "webgpu" ? executor.buffers : undefined;
  const parts = await openParts({ ...options, attention, weights, buffers, rule });
  executor.use(parts);
  const runsAll = parts.sessions.every((session) => session === undefined);
  const embeddings = cut.tokens.kind === "embeddings" ? await openEmbeddings(options) : undefined;
  opened.defer(() => embeddings?.dispose());
  const decoder = new PagedDecoder({
    ...{ backend, cut, embeddings, executor, weights, attention, states, experts, limits },
    maxFewRows: rule.maxFewRows,
    isApart: cut.segments.some(sharesScales),
    runsAll,
    isExact: runsAll && parts.kernels?.isExact && experts?.isExact !== false,
    sampler: backend.openSampler({
      vocabSize: limits.vocabSize,
      dtype: cut.output.dtype as "float32" | "float16",
      maxRows: limits.maxSequences,
    }),
    processLogits: options.processLogits,
    hasRoom: options.hasRoom,
  });
  await files.requireUnchanged?.();
  options.onProgress(1);
  opened.move();
  return decoder;
}

type PartsOptions =
  & PagedOpenOptions
  & Pick<KernelsOptions, "attention" | "weights">
  & {
    readonly rule: KernelRule;
    /** Memory of tensors that pass between segments, on a GPU. */
    readonly buffers: StepExecutor<GraphCut>["buffers"] | undefined;
  };

/** Opens kernels for segments that compile and that the rule assigns to kernels, and sessions for the rest. */
async function openParts(options: PartsOptions): Promise<ExecutorParts> {
  const { backend, cut, files, weights, rule: { kernels: lowerings } } = options;
  const segments = compile(options);
  const always = listUnpacked(options);
  const programs = lowerCut(cut, { segments, kernels: lowerings, always });
  const opening = openKernels(programs, options);
  // It is awaited below, or when a session cannot be opened.
  opening.catch(() => {});
  await using opened = new AsyncDisposableStack();
  opened.defer(async () => (await opening.catch(() => undefined))?.dispose());
  // If ONNX Runtime runs all prompts, weights are packed while its sessions open.
  const areNeeded = listOrtSegments(programs).size < cut.segments.length;
  const used = areNeeded && await opening === undefined ? lowerCut(cut) : programs;
  const ofOrt = listOrtSegments(used);
  const sessions = await openSegments(cut, {
    ...{ backend, files, weights },
    isWanted: ({ index }) => ofOrt.has(index),
    onProgress: weights ? undefined : options.onProgress,
  });
  opened.defer(() => releaseSessions(sessions));
  const kernels = await opening;
  logSegments(kernels === undefined ? [] : segments, options);
  opened.move();
  return { programs: kernels === undefined ? lowerCut(cut) : programs, sessions, kernels };
}

/** Indices of the segments that are slow in ONNX Runtime on the CPU for any number of rows. */
function listUnpacked({ backend, cut, rule }: PartsOptions): ReadonlySet<number> {
  if (backend.kind !== "cpu" || rule.kernels.length === 0) return new Set();
  return new Set(cut.segments.filter(unpacksWeights).map(({ index }) => index));
}

function logSegments(segments: readonly CompiledSegment[], { cut, rule }: PartsOptions): void {
  const refusals = segments.flatMap((each) => "refused" in each ? each.refused : []);
  log.info("some segments of the decoder run in Hearth's kernels, the others in ONNX Runtime", {
    segments: `${segments.length - refusals.length} of ${cut.segments.length}`,
    ...Number.isFinite(rule.maxFewRows) && !rule.kernels.includes("many")
      ? { decoding: rule.maxFewRows }
      : {},
    ...refusals.length === 0 ? {} : { reason: refusals[0]! },
  });
}

/** Compiles the cut to Hearth's kernels, as far as kernels, graph and device allow. */
function compile({ backend, cut, attention, ...options }: PartsOptions): CompiledSegment[] {
  const { limits, maxCompiledFloatBytes = Infinity, rule } = options;
  if (rule.kernels.length === 0) return [];
  if (sumWeightBytes(cut, "float32") > maxCompiledFloatBytes) return [];
  const takesLayout = ({ layer }: AttentionNode) => attention.takesLayout?.(layer) ?? false;
  const contextLength = limits.contextLength + (cut.longFrom ?? 0);
  const writesSums = backend.kind === "webgpu";
  // For a GPU, the cut was already adapted for ONNX Runtime.
  const adapted = backend.kind === "cpu" ? cutForCpu(cut) : cut;
  const rotates = backend.kind === "cpu";
  const segments = compileCut(adapted, { takesLayout, contextLength, writesSums, rotates });
  return refuseSegments(segments, (program) => backend.findRefusal(program));
}

async function openKernels(
  programs: StepPrograms,
  { backend, cut, files, limits, attention, ...options }: PartsOptions,
): Promise<KernelExecutor | undefined> {
  const { spareBytes, weights, buffers } = options;
  const ours = listPrograms(programs);
  if (ours.length === 0) return undefined;
  const maxRows = countMaxRows(programs, limits);
  const many = new Set(listPrograms({ few: [], many: programs.many }));
  return await backend.openKernels({
    ...{ programs: ours, weights, files, attention, spareBytes },
    maxRows: limits.maxBatchTokens,
    getBuffers: (program) => buffers?.[many.has(program) ? "many" : "few"] ?? new Map(),
    countMaxRows: (program) => maxRows.get(program)!,
    attentionOutputs: cut.attentions.map(({ output }) => output.name),
  });
}

/** Most rows of each program: prompts are long, but the last segment only computes the rows that are wanted. */
function countMaxRows(
  { few, many }: StepPrograms,
  { maxBatchTokens, maxSequences }: DecoderLimits,
): Map<Program, number> {
  const counts = new Map<Program, number>();
  for (const instructions of [few, many]) {
    const last = instructions.findLast((each) => "segment" in each)!.segment;
    for (const each of instructions) {
      if (each.kind !== "kernels") continue;
      const takesPrompts = instructions === many && each.segment !== last;
      counts.set(each.program, takesPrompts ? maxBatchTokens : maxSequences);
    }
  }
  return counts;
}

/** Reports progress by bytes if weights are uploaded one after the other. */
function openWeights({ backend, cut, files, onProgress }: PagedOpenOptions) {
  const ofExperts = cut.experts.flatMap(({ mixture }) => findWeights(mixture));
  const total = sumWeightBytes(cut) + ofExperts.reduce((sum, each) => sum + storedBytes(each), 0);
  return backend.openWeights(files, { onProgress: (done) => onProgress(done / total) });
}

/** Bytes of the weights of all segments, or only of those with one data type. */
function sumWeightBytes({ segments }: GraphCut, ofType?: StoredTensor["dtype"]): number {
  const tensors = segments.flatMap(({ model }) => model.graph.initializers)
    .filter(({ dtype }) => ofType === undefined || dtype === ofType);
  const bytes = new Map(tensors.map((tensor) => [tensor.name, storedBytes(tensor)]));
  return bytes.values().reduce((sum, count) => sum + count, 0);
}

async function openEmbeddings(options: PagedOpenOptions): Promise<TokenEmbeddings> {
  const { backend, cut, files, limits, openEmbedding } = options;
  const session = cut.embedding
    ? await backend.openEmbedding(cut.embedding, files)
    : await openEmbedding();
  const ports = embeddedPorts(cut, session.outputs.map(({ name }) => name));
  for (const { output, port } of ports) {
    const { type } = session.outputs.find(({ name }) => name === output) ?? {};
    if (type === port.dtype) continue;
    await session.release();
    throw new StartupError(
      `The embeddings' graph gives ${
        type ?? `no "${output}"`
      } and the decoder takes ${port.dtype}: ` +
        "they do not come from the same export.",
    );
  }
  const allocate = (most: AxisSizes): Map<string, Storage> => {
    const storages = ports.map(({ output, port }) =>
      [output, backend.allocate(computeBytes(port, most))] as const
    );
    return new Map(storages.flatMap(([output, storage]) => storage ? [[output, storage]] : []));
  };
  return new TokenEmbeddings({
    ...{ backend, session },
    storages: allocate(countMost(limits)),
    decodingStorages: allocate(countMost(decodingLimits(limits))),
    outputs: ports.map(({ output }) => output),
  });
}

/** Reads constants, each once, by name. */
async function readConstants(
  tensors: readonly (StoredTensor | undefined)[],
  files: ModelFiles,
): Promise<Map<string, Float32Array>> {
  const constants = new Map<string, Float32Array>();
  for (const tensor of tensors) {
    if (tensor === undefined || constants.has(tensor.name)) continue;
    constants.set(tensor.name, await readFloats(tensor, files));
  }
  return constants;
}
