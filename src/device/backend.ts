/**
 * The interface of a device: sessions, memory, and the kernels that run between graphs.
 *
 * @module
 */
import type { SampledToken, SampleRow } from "../../kernels/sample/sample_row.ts";
import type { OperandLayout, Program } from "../program/program.ts";
import type {
  CrossAttention,
  CrossAttentionOptions,
  PackedAttention,
  PackedAttentionOptions,
} from "./encoder_attention.ts";
import type { ModelFiles } from "../graph/file/external_data.ts";
import type { GraphSession, Tensor } from "./ort/ort.ts";
import type { ModelProto } from "../graph/file/proto.ts";
import type { DeviceWeights, DeviceWeightsOptions } from "./device_weights.ts";
import type { ImageKernels, SpeechKernels, SpeechOptions } from "./media.ts";
import type { AttentionOptions, PagedAttention } from "./attention.ts";
import type {
  ExpertLayers,
  ExpertsOptions,
  SequenceStates,
  StatesOptions,
} from "./kernel_nodes.ts";
import type { DeviceChoice } from "../base/config.ts";
import { findAdapter } from "../gpu/device.ts";

/** Options for opening a graph without external data. */
export interface OpenSessionOptions {
  /**
   * Whether the native runtime keeps the memory of its largest run for the next one; true if absent. See {@linkcode
   * NativeSessionOptions.keepsMemory}.
   */
  readonly keepsMemory?: boolean;
}

/** A device that runs graphs and kernels. It owns all memory that it allocates until `dispose`. */
export interface Backend {
  readonly kind: "webgpu" | "cpu";
  /** The build of ONNX Runtime: the native one maps weights from disk. */
  readonly runtime: "native" | "web";
  /** Human-readable name of the device. */
  readonly adapter: string;
  /** Whether graphs and kernels may compute in f16. */
  readonly hasF16: boolean;
  /** Maximum number of bytes that one buffer may have. */
  readonly maxBufferBytes: number;
  /** Whether the device's memory is the machine's own, as for a CPU and an integrated GPU. */
  readonly usesMachineMemory: boolean;
  /** Resolves with the reason when the device is lost; never on the CPU. */
  readonly lost: Promise<string>;
  /** Resolves with the reason when a kernel does not compile; absent on the CPU. */
  readonly uncompiled?: Promise<string>;
  /** Starts loading the runtime for graphs that will be opened soon. A GPU's runtime takes a second to load. */
  prepareRuntime(): void;
  /** Opens a graph without external data from the bytes of its ModelProto. Its outputs stay on this device. */
  openSession(model: Uint8Array, options?: OpenSessionOptions): Promise<GraphSession>;
  /**
   * Opens a model whose weights are in `files`, which may be closed afterwards. If the runtime maps the weights from
   * disk, they must not change while the session is open.
   */
  openModel(
    model: ModelProto,
    files: ModelFiles,
    options?: OpenModelOptions,
  ): Promise<GraphSession>;
  /** Opens a graph of token embeddings. On a GPU the table stays in its file, and token ids must be on the CPU. */
  openEmbedding(model: ModelProto, files: ModelFiles): Promise<GraphSession>;
  /**
   * Prepares device memory for the weights in `files`, without uploading any yet. The caller disposes it.
   *
   * @returns `undefined` if the runtime maps or copies weights itself.
   */
  openWeights(files: ModelFiles, options?: DeviceWeightsOptions): DeviceWeights | undefined;
  /**
   * Allocates reusable memory for the outputs of sessions.
   *
   * @returns `undefined` if onnxruntime-web has to allocate its outputs itself.
   */
  allocate(numBytes: number): Storage | undefined;
  /** Reads a tensor of f32 or f16 that a session of this backend has written, as f32. The elements are the caller's. */
  read(tensor: Tensor): Promise<Float32Array>;
  /**
   * Copies rows between two tensors of the same dtype and width, before anything that runs later.
   *
   * @param from written by a session of this backend.
   * @param to written by a session too, or a tensor in an allocated storage.
   */
  copyRows(from: Tensor, to: Tensor, range: RowRange): void;
  /**
   * Opens the paged attention of a cut graph, with its KV cache and rotary tables in device memory.
   *
   * @throws {RangeError} when the kernels cannot run a node's shape.
   */
  openAttention(options: AttentionOptions): PagedAttention;
  /**
   * Opens the recurrent states of a cut graph in device memory.
   *
   * @throws {RangeError} when the kernels cannot run a node's shape.
   */
  openStates(options: StatesOptions): SequenceStates;
  /**
   * Opens the mixtures of experts of a cut graph, with their weights in the device's memory.
   *
   * @throws {StartupError} when the device has no room for the weights.
   */
  openExperts(options: ExpertsOptions): Promise<ExpertLayers>;
  /** Says in one sentence why the device's kernels cannot run a program; `undefined` if they can. */
  findRefusal(program: Program): string | undefined;
  /** Opens the kernels of programs; `undefined` if there is no memory for them, or with onnxruntime-web on the CPU. */
  openKernels(options: KernelsOptions): Promise<KernelExecutor | undefined>;
  /** Opens the attention of a cut encoder. @throws {RangeError} when the kernel cannot run a node's shape. */
  openPackedAttention(options: PackedAttentionOptions): PackedAttention;
  /**
   * Opens a cut decoder's attention to an encoder's output.
   *
   * @throws {RangeError} when the kernels cannot run a node's shape.
   */
  openCrossAttention(options: CrossAttentionOptions): CrossAttention;
  openSampler(options: SamplerOptions): TokenSampler;
  openSpeech(options: SpeechOptions): SpeechKernels;
  openImages(): Promise<ImageKernels>;
  /**
   * Compiles one of the programs that were deferred, which blocks the thread.
   *
   * @returns whether there was one. Absent if programs are never deferred.
   */
  compileNext?(): boolean;
  /** Frees everything that the backend owns, including sessions that are still open. */
  dispose(): Promise<void>;
}

/** Options for opening a model. */
export interface OpenModelOptions extends OpenSessionOptions {
  /**
   * Buffers with the session's large weights, which must outlive it; if absent, the weights are copied into the
   * session.
   */
  readonly weights?: DeviceWeights | undefined;
}

/** Rows to copy; a row is all of the last axis. */
export interface RowRange {
  readonly fromRow: number;
  readonly toRow: number;
  readonly numRows: number;
}

/** A region of device memory. */
export interface Storage {
  /** A tensor at the beginning of the region. */
  tensor(dtype: "float32" | "float16" | "int64", dims: readonly number[]): Tensor;
  /** Writes to the beginning of the region, before anything that runs later. */
  write(data: BigInt64Array<ArrayBuffer>): void;
  dispose(): void;
}

/** Options for opening the kernels of programs. */
export interface KernelsOptions {
  readonly programs: readonly Program[];
  /** Maximum number of rows in a step. */
  readonly maxRows: number;
  /**
   * Maximum number of rows that a program computes. Everything needed for any number of rows up to this is compiled
   * when the program is opened.
   */
  readonly countMaxRows: (program: Program) => number;
  /** Weights in device memory, owned by the caller; absent on the CPU. */
  readonly weights?: DeviceWeights | undefined;
  /** Files with the other constants. */
  readonly files: ModelFiles;
  /** Memory that a second copy of the weights may take; unlimited if absent. */
  readonly spareBytes?: number | undefined;
  /** Attention that reads operands in the layout in which programs write them. */
  readonly attention: PagedAttention;
  /** Memory of tensors that pass between a program's segments, with room for all rows of a tile; none on the CPU. */
  readonly getBuffers: (program: Program) => ReadonlyMap<string, GPUBuffer>;
  /** Names of the attention outputs, by layer. */
  readonly attentionOutputs: readonly string[];
}

/** Rows that a program computes. */
export interface KernelStep {
  /** First row to compute; 0 if absent, and always 0 on a GPU. */
  readonly firstRow?: number;
  readonly numRows: number;
  /** Inputs of the first segment, and numbers of rows; on the CPU, all tensors that enter or leave a segment. */
  readonly tensors: ReadonlyMap<string, Tensor>;
}

/** The kernels of programs. */
export interface KernelExecutor {
  /** Whether a row's result is bit-identical in every program, and among any number of rows. */
  readonly isExact?: boolean;
  /** Records a program's dispatches, which are submitted together with later commands. On the CPU they run at once. */
  run(program: Program, step: KernelStep): void;
  /** Records attention on operands in this layout. Its result goes to the buffer of the attention's output. */
  attend(layout: OperandLayout): void;
  dispose(): void;
}

/** The parameters of a sampler. */
export interface SamplerOptions {
  readonly vocabSize: number;
  /** Data type of the logits. */
  readonly dtype: "float32" | "float16";
  /** Maximum number of rows in one call. */
  readonly maxRows: number;
}

/** Logits, and how to choose tokens from their first rows. */
export interface LogitRows {
  /** `[1, rows, vocabSize]`, an output of a session of this backend. */
  readonly logits: Tensor;
  readonly rows: readonly SampleRow[];
}

/** Turns rows of logits into next tokens. */
export interface TokenSampler<Token extends SampledToken = SampledToken> {
  /**
   * Chooses a token from each row, waiting for the device once.
   *
   * @param parts the logits of a part may change as soon as the next part is requested.
   * @throws {NothingToSampleError} when a row allows no token.
   */
  sample(parts: Iterable<LogitRows> | AsyncIterable<LogitRows>): Promise<Token[]>;
  dispose(): void | Promise<void>;
}

/**
 * The class of a device, for choosing weights. It is found without importing the backends. Any import of them, even a
 * dynamic one, makes Deno fetch their packages first, and the server must answer before that.
 */
export type DeviceClass = "gpuWithF16" | "gpu" | "cpu";

/** The class of an open device. */
export function toDeviceClass({ kind, hasF16 }: Pick<Backend, "kind" | "hasF16">): DeviceClass {
  if (kind === "cpu") return "cpu";
  return hasF16 ? "gpuWithF16" : "gpu";
}

/** The class of the device that `openBackend` would open for a choice; `cpu` if `openBackend` would refuse. */
export async function classifyDevice(choice: DeviceChoice): Promise<DeviceClass> {
  if (choice === "cpu") return "cpu";
  const adapter = await findAdapter({ allowFallback: choice === "webgpu" });
  if (adapter === undefined) return "cpu";
  return adapter.features.has("shader-f16") ? "gpuWithF16" : "gpu";
}
