/**
 * Opens a cut decoder on a backend.
 *
 * @module
 */
import type { Storage } from "../device/backend.ts";
import type { AttentionOptions, PagedAttention } from "../device/attention.ts";
import { listStateConstants } from "../device/kernel_nodes.ts";
import { StartupError } from "../base/errors.ts";
import { chooseKernels, type KernelRule, sharesScales } from "./kernel_rule.ts";
import { findWeights } from "../graph/experts/mixture.ts";
import type { ModelFiles } from "../graph/file/external_data.ts";
import { readFloats } from "../graph/file/stored_range.ts";
import { countStoredBytes, type StoredTensor } from "../graph/file/tensor.ts";
import type { GraphSession } from "../device/ort/ort.ts";
import { type AxisSizes, computeBytes } from "./activations.ts";
import { openParts, type PartsOptions, sumWeightBytes } from "./open_segments.ts";
import {
  countMost,
  listEmbeddedPorts,
  type LogitsProcessor,
  PagedDecoder,
  toDecodingLimits,
} from "./paged_decoder.ts";
import { StepExecutor } from "./step_executor.ts";
import { TokenEmbeddings } from "./token_embeddings.ts";

/** The decoder to open, its backend, and options. */
interface PagedOpenOptions
  extends Omit<PartsOptions, "attention" | "buffers" | "rule" | "weights"> {
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
  readonly hasRoom?: ((numBlocks: number, pool: number) => boolean) | undefined;
  /** Whether weights are stored in one layout only, if the device has several: see `kernel_rule.ts`. */
  readonly keepsOneLayout?: boolean | undefined;
  /** Whether rows must be bit-identical whatever other rows share the step, even if that takes longer. */
  readonly isInvariant?: boolean | undefined;
  /** The rows that run in kernels; chosen for the device if absent. */
  readonly rule?: KernelRule | undefined;
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
    constants: await readConstants(listStateConstants(cut.states), files),
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
    mostDecoding: countMost(toDecodingLimits(limits)),
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

/** Opens memory for weights on the device, if it has any, and reports progress by the bytes that were uploaded. */
function openWeights({ backend, cut, files, onProgress }: PagedOpenOptions) {
  const ofExperts = cut.experts.flatMap(({ mixture }) => findWeights(mixture));
  const total = sumWeightBytes(cut) +
    ofExperts.reduce((sum, each) => sum + countStoredBytes(each), 0);
  return backend.openWeights(files, { onProgress: (done) => onProgress(done / total) });
}

async function openEmbeddings(options: PagedOpenOptions): Promise<TokenEmbeddings> {
  const { backend, cut, files, limits, openEmbedding } = options;
  const session = cut.embedding
    ? await backend.openEmbedding(cut.embedding, files)
    : await openEmbedding();
  const ports = listEmbeddedPorts(cut, session.outputs.map(({ name }) => name));
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
    decodingStorages: allocate(countMost(toDecodingLimits(limits))),
    outputs: ports.map(({ output }) => output),
  });
}

/** Reads constants by name, each of them once. */
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
