/**
 * What models need of a device: sessions, memory, and the kernels that run between graphs.
 *
 * @module
 */
import type { SampledToken, SampleRow } from "../../kernels/sample/sample_row.ts";
import type { KernelExecutor, KernelsOptions } from "./kernel_executor.ts";
import type { Program } from "../program/program.ts";
import type { CrossAttention, CrossAttentionOptions } from "./cross_attention.ts";
import type { ModelFiles } from "../graph/file/external_data.ts";
import type { GraphSession, Tensor } from "./ort/ort.ts";
import type { ModelProto } from "../graph/file/proto.ts";
import type { DeviceWeights, DeviceWeightsOptions } from "./device_weights.ts";
import type { ImageKernels } from "./images.ts";
import type { PackedAttention, PackedAttentionOptions } from "./packed_attention.ts";
import type { AttentionOptions, PagedAttention } from "./paged_attention.ts";
import type { ExpertLayers, ExpertsOptions } from "./experts.ts";
import type { SequenceStates, StatesOptions } from "./sequence_states.ts";
import type { SpeechKernels, SpeechOptions } from "./speech.ts";

/** How to open a graph without external data. */
export interface OpenSessionOptions {
  /**
   * Whether the native runtime keeps the memory of its largest run for the next one; it does if absent. See
   * {@linkcode NativeSessionOptions.keepsMemory}.
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
  /** Most bytes that one buffer may have. */
  readonly maxBufferBytes: number;
  /** Whether its memory is the machine's own, as a CPU's and an integrated GPU's is. */
  readonly usesMachineMemory: boolean;
  /** Resolves with the reason when the device is gone; never on the CPU. */
  readonly lost: Promise<string>;
  /** Begins to load the runtime, which takes a GPU's a second, for graphs that are opened soon. */
  prepareRuntime(): void;
  /** Opens a graph without external data, the bytes of its ModelProto; its outputs stay on this device. */
  openSession(model: Uint8Array, options?: OpenSessionOptions): Promise<GraphSession>;
  /**
   * Opens a model whose weights lie among `files`, which may be closed afterwards. Where the runtime maps them from
   * disk they must not change while the session is open.
   */
  openModel(
    model: ModelProto,
    files: ModelFiles,
    options?: OpenModelOptions,
  ): Promise<GraphSession>;
  /** Opens a graph of token embeddings. On a GPU the table stays in its file, and token ids must be on the CPU. */
  openEmbedding(model: ModelProto, files: ModelFiles): Promise<GraphSession>;
  /**
   * Device memory for the weights among `files`, nothing uploaded yet; the caller disposes it.
   *
   * @returns `undefined` if the runtime maps or copies them itself.
   */
  openWeights(files: ModelFiles, options?: DeviceWeightsOptions): DeviceWeights | undefined;
  /**
   * Reusable output memory of sessions.
   *
   * @returns `undefined` if onnxruntime-web has to allocate its outputs itself.
   */
  allocate(numBytes: number): Storage | undefined;
  /** Reads a tensor of f32 or f16 that a session of this backend has written, as f32. The elements are the caller's. */
  read(tensor: Tensor): Promise<Float32Array>;
  /**
   * Copies rows between two tensors of one dtype and width, ahead of whatever runs next.
   *
   * @param from a session of this backend has written it.
   * @param to the same, or a tensor in an allocated storage.
   */
  copyRows(from: Tensor, to: Tensor, range: RowRange): void;
  /**
   * The paged attention of a cut graph, with its KV cache and rotary tables in device memory.
   *
   * @throws {RangeError} when the kernels cannot run a node's shape.
   */
  openAttention(options: AttentionOptions): PagedAttention;
  /**
   * The states that a cut graph keeps beside keys and values, in device memory.
   *
   * @throws {RangeError} when the kernels cannot run a node's shape.
   */
  openStates(options: StatesOptions): SequenceStates;
  /**
   * The mixtures of experts of a cut graph, their weights in the device's memory.
   *
   * @throws {StartupError} when the device has no room for the weights.
   */
  openExperts(options: ExpertsOptions): Promise<ExpertLayers>;
  /** Says in one sentence why the device's kernels do not run a program, if they do not. */
  findRefusal(program: Program): string | undefined;
  /** Opens the kernels of programs; none where there is no memory for them, or the runtime leaves them no room. */
  openKernels(options: KernelsOptions): Promise<KernelExecutor | undefined>;
  /**
   * The attention of a cut encoder.
   *
   * @throws {RangeError} when the kernel cannot run a node's shape.
   */
  openPackedAttention(options: PackedAttentionOptions): PackedAttention;
  /**
   * The attention of a cut decoder to an encoder's output.
   *
   * @throws {RangeError} when the kernels cannot run a node's shape.
   */
  openCrossAttention(options: CrossAttentionOptions): CrossAttention;
  openSampler(options: SamplerOptions): TokenSampler;
  openSpeech(options: SpeechOptions): SpeechKernels;
  openImages(): Promise<ImageKernels>;
  /**
   * Compiles one of the programs that were left for later, which keeps the thread for as long.
   *
   * @returns whether there was one; there never is if absent.
   */
  compileNext?(): boolean;
  /** Frees all that it owns, sessions that are still open included. */
  dispose(): Promise<void>;
}

/** How to open a model. */
export interface OpenModelOptions extends OpenSessionOptions {
  /**
   * Buffers with the session's large weights; copied into the session if absent. They must outlive it.
   */
  readonly weights?: DeviceWeights | undefined;
}

/** Which rows to copy; a row is all of the last axis. */
export interface RowRange {
  readonly fromRow: number;
  readonly toRow: number;
  readonly numRows: number;
}

/** A piece of device memory. */
export interface Storage {
  /** A tensor at its beginning. */
  tensor(dtype: "float32" | "float16" | "int64", dims: readonly number[]): Tensor;
  /** Writes to its beginning, ahead of whatever runs next. */
  write(data: BigInt64Array<ArrayBuffer>): void;
  dispose(): void;
}

/** The parameters of a sampler. */
export interface SamplerOptions {
  readonly vocabSize: number;
  /** Type of the logits. */
  readonly dtype: "float32" | "float16";
  /** Most rows of one call. */
  readonly maxRows: number;
}

/** Logits and how to choose from their first rows. */
export interface LogitRows {
  /** `[1, rows, vocabSize]`, an output of a session of this backend. */
  readonly logits: Tensor;
  readonly rows: readonly SampleRow[];
}

/** Makes of rows what a step gives: next tokens. */
export interface TokenSampler<Token extends SampledToken = SampledToken> {
  /**
   * Chooses a token from each row; waits for the device once.
   *
   * @param parts logits may change as soon as the next part is asked for.
   * @throws {NothingToSampleError} when a row has no token to choose.
   */
  sample(parts: Iterable<LogitRows> | AsyncIterable<LogitRows>): Promise<Token[]>;
  dispose(): void | Promise<void>;
}
