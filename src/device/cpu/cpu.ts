/**
 * The backend for machines without a GPU: ONNX Runtime on the CPU, kernels in WebAssembly SIMD, and the reference
 * implementations for sampling, images and recordings.
 *
 * @module
 */
import { KernelThreads } from "../../../kernels/cpu/kernel_threads.ts";
import { ReferenceSampler } from "../../../kernels/sample/sample_reference.ts";
import { StartupError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import type { Program } from "../../program/program.ts";
import { type EmbeddingLookup, takeLookup } from "../../graph/cut/embedding_lookup.ts";
import type { ModelFiles } from "../../graph/file/external_data.ts";
import type { GraphSession, Tensor } from "../ort/ort.ts";
import type { ModelProto } from "../../graph/file/proto.ts";
import type {
  Backend,
  KernelExecutor,
  KernelsOptions,
  OpenModelOptions,
  OpenSessionOptions,
  RowRange,
  SamplerOptions,
  Storage,
  TokenSampler,
} from "../backend.ts";
import type { AttentionOptions, PagedAttention } from "../attention.ts";
import { CpuAttention } from "./attention.ts";
import { CpuCrossAttention, CpuPackedAttention } from "./encoder_attention.ts";
import type {
  CrossAttention,
  CrossAttentionOptions,
  PackedAttention,
  PackedAttentionOptions,
} from "../encoder_attention.ts";
import { type CpuRuntime, type CpuRuntimeOptions, openCpuRuntime } from "./runtime.ts";
import { CpuKernels, findRefusal } from "./kernels.ts";
import { CpuStorages, makeTensor } from "./tensors.ts";
import { CpuExperts, CpuStates } from "./kernel_nodes.ts";
import { CpuImages, CpuSpeech } from "./media.ts";
import { SampledTokens } from "../../../kernels/sample/sample_row.ts";
import type { ImageKernels, SpeechKernels, SpeechOptions } from "../media.ts";
import type {
  ExpertLayers,
  ExpertsOptions,
  SequenceStates,
  StatesOptions,
} from "../kernel_nodes.ts";
import { EmbeddingTable } from "../../graph/cut/embedding_table.ts";

export class CpuBackend implements Backend {
  readonly kind = "cpu";
  readonly hasF16 = false;
  readonly maxBufferBytes = 2 ** 31;
  readonly usesMachineMemory = true;
  readonly lost = new Promise<string>(() => {});

  readonly #options: Partial<CpuRuntimeOptions>;
  #opening: Promise<CpuRuntime> | undefined;
  #runtime: CpuRuntime | undefined;
  #threads: KernelThreads | undefined;
  readonly #storages = new CpuStorages();

  /** The runtime is loaded with the first session, unless {@linkcode open} or `prepareRuntime` has loaded it before. */
  constructor(options: Partial<CpuRuntimeOptions> = {}) {
    this.#options = options;
  }

  /** Loads the runtime. @throws {StartupError} when the native runtime is requested and does not load. */
  static async open(options: Partial<CpuRuntimeOptions> = {}): Promise<CpuBackend> {
    const backend = new CpuBackend(options);
    await backend.#open();
    return backend;
  }

  get adapter(): string {
    return `CPU (${this.#runtime?.description ?? "not open"}, ${Deno.build.arch})`;
  }

  /** The runtime's name; before it is loaded, the name of the expected one. */
  get runtime(): CpuRuntime["name"] {
    return this.#runtime?.name ?? (this.#options.choice === "web" ? "web" : "native");
  }

  #open(): Promise<CpuRuntime> {
    this.#opening ??= openCpuRuntime({ choice: "auto", ...this.#options }).then((runtime) =>
      this.#runtime = runtime
    );
    return this.#opening;
  }

  /** Threads for kernels: {@linkcode CpuRuntime.threads}; `undefined` before the runtime is loaded. */
  #kernelThreads(): KernelThreads | undefined {
    if (this.#runtime) this.#threads ??= new KernelThreads(this.#runtime.threads);
    return this.#threads;
  }

  prepareRuntime(): void {
    // Errors are reported when a graph is opened.
    this.#open().catch(() => {});
  }

  async openSession(model: Uint8Array, options?: OpenSessionOptions): Promise<GraphSession> {
    return await (await this.#open()).openSession(model, options);
  }

  async openModel(
    model: ModelProto,
    files: ModelFiles,
    options?: OpenModelOptions,
  ): Promise<GraphSession> {
    return await (await this.#open()).openModel(model, files, options);
  }

  /** Only a packed table is read row by row, because onnxruntime-web would unpack all of it. */
  openEmbedding(model: ModelProto, files: ModelFiles): Promise<GraphSession> {
    const taken = takeLookup(model);
    const isAlone = taken?.lookup.quantized !== undefined && taken.rest.graph.nodes.length === 0;
    return isAlone ? openEmbeddingSession(taken.lookup, files) : this.openModel(model, files);
  }

  /** The native runtime maps weights from disk, and onnxruntime-web copies them. */
  openWeights(): undefined {}

  /** onnxruntime-web writes to memory of its own. */
  allocate(numBytes: number): Storage | undefined {
    return this.#runtime?.name === "native" ? this.#storages.allocate(numBytes) : undefined;
  }

  /** ONNX Runtime has already copied the elements out of its own memory, unless the tensor is in a storage. */
  read(tensor: Tensor): Promise<Float32Array> {
    const data = tensor.data as Float32Array;
    if (tensor.type === "float16") {
      const halves = new Float16Array(data.buffer, data.byteOffset, data.length);
      return Promise.resolve(Float32Array.from(halves));
    }
    return Promise.resolve(this.#storages.has(data.buffer) ? data.slice() : data);
  }

  copyRows(from: Tensor, to: Tensor, { fromRow, toRow, numRows }: RowRange): void {
    const width = to.dims.at(-1)!;
    const rows = (from.data as Float32Array).subarray(fromRow * width, (fromRow + numRows) * width);
    (to.data as Float32Array).set(rows, toRow * width);
  }

  openAttention(options: AttentionOptions): PagedAttention {
    return new CpuAttention(options, {
      threads: this.#kernelThreads(),
      // onnxruntime-web has vectors no wider than the kernels', and only one thread.
      openSession: this.runtime === "native" && !options.isInvariant
        ? this.openSession.bind(this)
        : undefined,
    });
  }

  openStates(options: StatesOptions): SequenceStates {
    return new CpuStates(options, this.#kernelThreads() ?? new KernelThreads(1));
  }

  async openExperts(options: ExpertsOptions): Promise<ExpertLayers> {
    await this.#open();
    return await CpuExperts.open(options, this.#kernelThreads()!);
  }

  findRefusal(program: Program): string | undefined {
    return findRefusal(program);
  }

  /** onnxruntime-web writes to memory of its own. */
  async openKernels(options: KernelsOptions): Promise<KernelExecutor | undefined> {
    if ((await this.#open()).name !== "native") return undefined;
    try {
      return await CpuKernels.open(options, this.#kernelThreads()!);
    } catch (error) {
      if (!(error instanceof StartupError)) throw error;
      log.warn("all steps run in ONNX Runtime", { reason: error.message });
      return undefined;
    }
  }

  openPackedAttention(options: PackedAttentionOptions): PackedAttention {
    return new CpuPackedAttention(options, this.#kernelThreads());
  }

  openCrossAttention(options: CrossAttentionOptions): CrossAttention {
    return new CpuCrossAttention(options, this.#kernelThreads());
  }

  openSampler({ vocabSize }: SamplerOptions): TokenSampler {
    const sampler = new ReferenceSampler(vocabSize);
    return {
      sample: async (parts) => {
        const tokens = new SampledTokens();
        for await (const { logits, rows } of parts) {
          const data = logits.data as Float32Array | Float16Array;
          tokens.add(rows.length, () => sampler.sample(data, vocabSize, rows));
        }
        return tokens.finish();
      },
      dispose: () => {},
    };
  }

  openSpeech(options: SpeechOptions): SpeechKernels {
    return new CpuSpeech(options);
  }

  openImages(): Promise<ImageKernels> {
    return Promise.resolve(new CpuImages());
  }

  async dispose(): Promise<void> {
    this.#threads?.dispose();
    await (await this.#opening)?.dispose();
  }
}

/**
 * A session that looks up embeddings, in the lookup's own type.
 *
 * @throws {StartupError} when a file ends before the table does.
 */
export async function openEmbeddingSession(
  lookup: EmbeddingLookup,
  files: ModelFiles,
): Promise<GraphSession> {
  const table = await EmbeddingTable.open(lookup, files);
  const { ids: idsName, output, dtype, width } = lookup;
  return {
    inputs: [{ name: idsName, type: "int64", shape: ["batch", "tokens"] }],
    outputs: [{ name: output, type: dtype, shape: ["batch", "tokens", width] }],
    run: ({ [idsName]: ids }, fetches) => {
      const rows = fetches?.[output] ?? makeTensor(dtype, [...ids!.dims, width]);
      const { buffer, byteOffset } = rows.data as Float32Array<ArrayBuffer>;
      const numBytes = ids!.size * table.rowBytes;
      table.read(ids!.data as BigInt64Array, new Uint8Array(buffer, byteOffset, numBytes));
      return Promise.resolve({ [output]: rows });
    },
    release: () => {
      table.close();
      return Promise.resolve();
    },
  };
}
