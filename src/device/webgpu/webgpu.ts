/**
 * The backend for GPUs: ONNX Runtime's WebGPU provider and the WGSL kernels, on one device.
 *
 * @module
 */
import {
  SampleKernel,
  type SamplerOptions as KernelOptions,
} from "../../../kernels/sample/sample.ts";
import { type SampledToken, SampledTokens } from "../../../kernels/sample/sample_row.ts";
import { createStorage, type GpuContext, usesMachineMemory } from "../../gpu/device.ts";
import { toElem } from "../../gpu/kernel.ts";
import { Readback } from "../../gpu/readback.ts";
import type { ModelFiles } from "../../graph/file/external_data.ts";
import { type GraphSession, prepareRuntime, Tensor } from "../ort/ort.ts";
import type { ModelProto } from "../../graph/file/proto.ts";
import type {
  Backend,
  KernelExecutor,
  KernelsOptions,
  LogitRows,
  OpenModelOptions,
  RowRange,
  SamplerOptions,
  Storage,
  TokenSampler,
} from "../backend.ts";
import type { AttentionOptions, PagedAttention } from "../attention.ts";
import { DeviceWeights, type DeviceWeightsOptions } from "../device_weights.ts";
import type { ImageKernels, SpeechKernels, SpeechOptions } from "../media.ts";
import type {
  CrossAttention,
  CrossAttentionOptions,
  PackedAttention,
  PackedAttentionOptions,
} from "../encoder_attention.ts";
import type {
  ExpertLayers,
  ExpertsOptions,
  SequenceStates,
  StatesOptions,
} from "../kernel_nodes.ts";
import { WebGpuAttention } from "./attention.ts";
import { WebGpuCrossAttention, WebGpuPackedAttention } from "./encoder_attention.ts";
import { WebGpuSessions } from "./sessions.ts";
import { WebGpuImages, WebGpuSpeech } from "./media.ts";
import { WebGpuKernels } from "./kernels.ts";
import { WebGpuExperts, WebGpuStates } from "./kernel_nodes.ts";

/** Size of the read-back buffer. A step reads 8 bytes per sequence, or 168 with log-probabilities. */
const MAX_READ_BYTES = 2 ** 20;

export class WebGpuBackend implements Backend {
  readonly kind = "webgpu";
  readonly runtime = "web";
  readonly adapter: string;
  readonly hasF16: boolean;
  readonly maxBufferBytes: number;
  readonly usesMachineMemory: boolean;
  readonly lost: Promise<string>;
  readonly uncompiled: Promise<string>;
  readonly #gpu: GpuContext;
  readonly #sessions: WebGpuSessions;
  readonly #readback: Readback;

  private constructor(gpu: GpuContext, parts: { readback: Readback; failure: Promise<string> }) {
    this.#gpu = gpu;
    this.#sessions = new WebGpuSessions(gpu);
    this.#readback = parts.readback;
    this.adapter = gpu.adapterInfo.description || gpu.adapterInfo.vendor || "unnamed adapter";
    this.hasF16 = gpu.hasF16;
    this.maxBufferBytes = Math.min(
      gpu.limits.maxBufferSize,
      gpu.limits.maxStorageBufferBindingSize,
    );
    this.usesMachineMemory = usesMachineMemory(gpu);
    const lost = gpu.lost.then(({ reason, message }) =>
      `the GPU device was lost (${reason}): ${message}`
    );
    this.lost = Promise.race([lost, parts.failure]);
    this.uncompiled = gpu.uncompiled.promise;
  }

  /** @param options.failure resolves with the reason when the device's results can no longer be trusted. */
  static async create(
    gpu: GpuContext,
    { failure = new Promise<string>(() => {}) }: { failure?: Promise<string> } = {},
  ): Promise<WebGpuBackend> {
    const readback = await Readback.create(gpu, { maxBytes: MAX_READ_BYTES });
    return new WebGpuBackend(gpu, { readback, failure });
  }

  compileNext(): boolean {
    const compile = this.#gpu.later.shift();
    compile?.();
    return compile !== undefined;
  }

  prepareRuntime(): void {
    // The next caller that opens a session waits for the runtime, and reports its errors.
    prepareRuntime(this.#gpu.device).catch(() => {});
  }

  openSession(model: Uint8Array): Promise<GraphSession> {
    return this.#sessions.open(model);
  }

  openModel(
    model: ModelProto,
    files: ModelFiles,
    options?: OpenModelOptions,
  ): Promise<GraphSession> {
    return this.#sessions.openModel(model, files, options);
  }

  openEmbedding(model: ModelProto, files: ModelFiles): Promise<GraphSession> {
    return this.#sessions.openEmbedding(model, files);
  }

  openWeights(files: ModelFiles, options?: DeviceWeightsOptions): DeviceWeights {
    return new DeviceWeights(this.#gpu, files, options);
  }

  allocate(numBytes: number): Storage {
    const buffer = createStorage(this.#gpu, "activations", numBytes);
    return {
      tensor: (dataType, dims) => Tensor.fromGpuBuffer(buffer, { dataType, dims }),
      write: (data) => {
        // Recorded commands still read the old content.
        this.#gpu.commands.submit();
        this.#gpu.device.queue.writeBuffer(buffer, 0, data);
      },
      dispose: () => buffer.destroy(),
    };
  }

  async read(tensor: Tensor): Promise<Float32Array> {
    const buffer = tensor.gpuBuffer as GPUBuffer;
    const Elements = tensor.type === "float16" ? Float16Array : Float32Array;
    // Buffers and copies consist of whole 4-byte words.
    const bytes = new Uint8Array(4 * Math.ceil(tensor.size * Elements.BYTES_PER_ELEMENT / 4));
    for (let offset = 0; offset < bytes.length; offset += MAX_READ_BYTES) {
      const size = Math.min(MAX_READ_BYTES, bytes.length - offset);
      const encoder = this.#gpu.device.createCommandEncoder();
      bytes.set(await this.#readback.read(encoder, [{ buffer, offset, size }]), offset);
    }
    const elements = new Elements(bytes.buffer, 0, tensor.size);
    return elements instanceof Float32Array ? elements : Float32Array.from(elements);
  }

  copyRows(from: Tensor, to: Tensor, { fromRow, toRow, numRows }: RowRange): void {
    const rowBytes = to.dims.at(-1)! * (to.type === "float16" ? 2 : 4);
    const encoder = this.#gpu.device.createCommandEncoder();
    encoder.copyBufferToBuffer(
      from.gpuBuffer as GPUBuffer,
      fromRow * rowBytes,
      to.gpuBuffer as GPUBuffer,
      toRow * rowBytes,
      numRows * rowBytes,
    );
    this.#gpu.commands.submit(encoder);
  }

  openAttention(options: AttentionOptions): PagedAttention {
    return new WebGpuAttention(this.#gpu, options);
  }

  openStates(options: StatesOptions): SequenceStates {
    return new WebGpuStates(this.#gpu, options);
  }

  openExperts(options: ExpertsOptions): Promise<ExpertLayers> {
    return WebGpuExperts.open(this.#gpu, options);
  }

  findRefusal(): undefined {}

  openKernels(options: KernelsOptions): Promise<KernelExecutor> {
    return WebGpuKernels.open(this.#gpu, options);
  }

  openPackedAttention(options: PackedAttentionOptions): PackedAttention {
    return new WebGpuPackedAttention(this.#gpu, options);
  }

  openCrossAttention(options: CrossAttentionOptions): CrossAttention {
    return new WebGpuCrossAttention(this.#gpu, options);
  }

  openSampler({ vocabSize, dtype, maxRows }: SamplerOptions): TokenSampler {
    return new WebGpuSampler(this.#gpu, {
      readback: this.#readback,
      kernel: { vocabSize, rowStride: vocabSize, elem: toElem(dtype), maxRows },
    });
  }

  openSpeech(options: SpeechOptions): SpeechKernels {
    return new WebGpuSpeech(this.#gpu, options);
  }

  async openImages(): Promise<ImageKernels> {
    return await WebGpuImages.create(this.#gpu);
  }

  dispose(): Promise<void> {
    this.#readback.dispose();
    this.#gpu.device.destroy();
    return Promise.resolve();
  }
}

/** The parameters of a sampler, and the memory through which its results are read. */
interface WebGpuSamplerOptions {
  readonly readback: Readback;
  readonly kernel: KernelOptions;
}

/** Chooses tokens on a GPU. */
class WebGpuSampler implements TokenSampler {
  readonly #gpu: GpuContext;
  readonly #options: WebGpuSamplerOptions;
  /** Kernels that no step uses, in such an order that part `n` of each step gets the same kernel. */
  readonly #free: SampleKernel[] = [];

  constructor(gpu: GpuContext, options: WebGpuSamplerOptions) {
    this.#gpu = gpu;
    this.#options = options;
    this.#free.push(new SampleKernel(gpu, options.kernel));
  }

  async sample(parts: Iterable<LogitRows> | AsyncIterable<LogitRows>): Promise<SampledToken[]> {
    // One kernel for each part of the step, whose results are read together.
    const used: { readonly kernel: SampleKernel; readonly count: number }[] = [];
    try {
      for await (const { logits, rows } of parts) {
        const kernel = this.#free.pop() ?? new SampleKernel(this.#gpu, this.#options.kernel);
        used.push({ kernel, count: rows.length });
        kernel.write(rows);
        kernel.encode(this.#gpu.commands, logits.gpuBuffer as GPUBuffer);
      }
      if (used.length === 0) return [];
      const ranges = used.map(({ kernel }) => kernel.results());
      const bytes = await this.#options.readback.readRecorded(ranges.flat());
      const tokens = new SampledTokens();
      let end = 0;
      used.forEach(({ count, kernel }, part) => {
        const start = end;
        for (const { size } of ranges[part]!) end += size;
        tokens.add(count, () => kernel.decode(bytes.subarray(start, end)));
      });
      return tokens.finish();
    } finally {
      for (const { kernel } of used.reverse()) this.#free.push(kernel);
    }
  }

  dispose(): void {
    for (const kernel of this.#free) kernel.dispose();
  }
}
