/**
 * Opens the segments of a cut graph: kernels for some, sessions of ONNX Runtime for the others.
 *
 * @module
 */
import type { Backend, KernelExecutor, KernelsOptions } from "../device/backend.ts";
import type { DeviceWeights } from "../device/device_weights.ts";
import { log } from "../base/log.ts";
import type { ModelFiles } from "../graph/file/external_data.ts";
import {
  type AttentionNode,
  countWeightBytes,
  type GraphCut,
  type Segment,
} from "../graph/graph_cut.ts";
import { countStoredBytes, type StoredTensor } from "../graph/file/tensor.ts";
import type { GraphSession } from "../device/ort/ort.ts";
import {
  compileCut,
  type CompiledSegment,
  listOrtSegments,
  listPrograms,
  lowerCut,
} from "../program/compile_cut.ts";
import { cutForCpu } from "../program/adapt_cut.ts";
import type { Program, StepPrograms } from "../program/program.ts";
import type { DecoderLimits } from "./decoder.ts";
import { type KernelRule, unpacksWeights } from "./kernel_rule.ts";
import type { ExecutorParts, StepExecutor } from "./step_executor.ts";

/** The segments to open, their backend, and options. */
interface OpenSegmentsOptions {
  readonly backend: Backend;
  readonly files: ModelFiles;
  /** Whether a segment needs a session; all do if absent. */
  readonly isWanted?: ((segment: Segment) => boolean) | undefined;
  /** Device memory from which the segments read their large weights; if absent, each session holds its own. */
  readonly weights?: DeviceWeights | undefined;
  /** Called after each segment with the fraction that is open, 0 to 1. */
  readonly onProgress?: ((fraction: number) => void) | undefined;
}

/**
 * Opens sessions for segments one by one, because the weights of a segment are held twice while its session opens. The
 * largest segment is opened first, while the fewest others are in memory. The caller owns the sessions.
 *
 * @returns the session of each segment that needs one.
 * @throws {Error} with ONNX Runtime's message when it refuses a segment; sessions opened before it are released.
 */
export async function openSegments(
  cut: Pick<GraphCut, "segments">,
  { backend, files, isWanted = () => true, weights, onProgress }: OpenSegmentsOptions,
): Promise<(GraphSession | undefined)[]> {
  const sessions: (GraphSession | undefined)[] = cut.segments.map(() => undefined);
  const wanted = cut.segments.map((segment, i) => ({
    segment,
    i,
    bytes: countWeightBytes(segment),
  }))
    .filter(({ segment }) => isWanted(segment))
    .toSorted((a, b) => b.bytes - a.bytes);
  try {
    for (const [numOpen, { segment, i }] of wanted.entries()) {
      sessions[i] = await backend.openModel(segment.model, files, { weights, keepsMemory: false });
      onProgress?.((numOpen + 1) / wanted.length);
    }
  } catch (error) {
    await releaseSessions(sessions);
    throw error;
  }
  return sessions;
}

export async function releaseSessions(
  sessions: readonly (GraphSession | undefined)[],
): Promise<void> {
  for (const session of sessions) await session?.release();
}

/** Options of {@linkcode openParts}. */
export interface PartsOptions extends Pick<KernelsOptions, "attention" | "weights"> {
  readonly backend: Backend;
  readonly cut: GraphCut;
  readonly files: ModelFiles;
  readonly limits: DecoderLimits;
  readonly rule: KernelRule;
  /** Memory of tensors that pass between segments, on a GPU. */
  readonly buffers: StepExecutor<GraphCut>["buffers"] | undefined;
  /** Memory that a second copy of the weights may take; unlimited if absent. */
  readonly spareBytes?: number;
  /** Decoders with more bytes of f32 weights are not compiled; unlimited if absent. */
  readonly maxCompiledFloatBytes?: number | undefined;
  /** Called with the fraction that is loaded, 0 to 1. */
  readonly onProgress: (fraction: number) => void;
}

/** Opens kernels for segments that compile and that the rule assigns to kernels, and sessions for the rest. */
export async function openParts(options: PartsOptions): Promise<ExecutorParts> {
  const { backend, cut, files, weights, rule: { kernels: lowerings } } = options;
  const segments = compile(options);
  const always = listUnpacked(options);
  const programs = lowerCut(cut, { segments, kernels: lowerings, always });
  const opening = openKernels(programs, options);
  // The promise is awaited below, or when a session cannot be opened.
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

/** The indices of segments that are slow in ONNX Runtime on the CPU, however many rows they compute. */
function listUnpacked({ backend, cut, rule }: PartsOptions): ReadonlySet<number> {
  if (backend.kind !== "cpu" || rule.kernels.length === 0) return new Set();
  return new Set(cut.segments.filter(unpacksWeights).map(({ index }) => index));
}

function logSegments(segments: readonly CompiledSegment[], { cut, rule }: PartsOptions): void {
  const refusals = segments.flatMap((each) => "refused" in each ? each.refused : []);
  log.info("decoder segments that run in Hearth's kernels; any others run in ONNX Runtime", {
    segments: `${segments.length - refusals.length} of ${cut.segments.length}`,
    ...Number.isFinite(rule.maxFewRows) && !rule.kernels.includes("many")
      ? { decoding: rule.maxFewRows }
      : {},
    ...refusals.length === 0 ? {} : { reason: refusals[0]! },
  });
}

/** Compiles the segments for which the device has kernels. */
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
  const findRefusal = (program: Program) => backend.findRefusal(program);
  return compileCut(adapted, { takesLayout, contextLength, writesSums, rotates, findRefusal });
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

/** Maximum number of rows that each program computes: for prompts too, the last segment computes only wanted rows. */
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

/** The number of bytes of all weights, or of those with one data type. Weights that segments share count once. */
export function sumWeightBytes({ segments }: GraphCut, ofType?: StoredTensor["dtype"]): number {
  const tensors = segments.flatMap(({ model }) => model.graph.initializers)
    .filter(({ dtype }) => ofType === undefined || dtype === ofType);
  const bytes = new Map(tensors.map((tensor) => [tensor.name, countStoredBytes(tensor)]));
  return bytes.values().reduce((sum, count) => sum + count, 0);
}
