/**
 * The backend on a GPU: ONNX Runtime's WebGPU provider and the WGSL kernels, on one device.
 *
 * @module
 */
import { ReferenceSampler } from "../../kernels/sample_reference.ts";
import type { SampledToken, SampleRow } from "../../kernels/sample_row.ts";
import { createBuffer, type GpuContext } from "../gpu/device.ts";
import { Readback } from "../gpu/readback.ts";
import { type ExternalData, openSession, type Session, Tensor } from "../onnx/ort.ts";
import type { AttentionOptions, Backend, PagedAttention, Storage } from "./backend.ts";
import { WebGpuAttention } from "./webgpu_attention.ts";

/** See the module. */
export class WebGpuBackend implements Backend {
  readonly kind = "webgpu";
  readonly adapter: string;
  readonly hasF16: boolean;
  readonly maxBufferBytes: number;
  readonly lost: Promise<string>;
  readonly #gpu: GpuContext;
  #sampler: ReferenceSampler | undefined;
  readonly #readback: Readback;

  private constructor(gpu: GpuContext, readback: Readback) {
    this.#gpu = gpu;
    this.#readback = readback;
    this.adapter = gpu.adapterInfo.description || gpu.adapterInfo.vendor || "unnamed adapter";
    this.hasF16 = gpu.hasF16;
    this.maxBufferBytes = Math.min(
      gpu.limits.maxBufferSize,
      gpu.limits.maxStorageBufferBindingSize,
    );
    this.lost = gpu.lost.then(({ reason, message }) =>
      `the GPU device was lost (${reason}): ${message}`
    );
  }

  static async create(gpu: GpuContext): Promise<WebGpuBackend> {
    return new WebGpuBackend(gpu, await Readback.create(gpu, { maxBytes: 1 << 20 }));
  }

  openSession(model: Uint8Array, externalData?: readonly ExternalData[]): Promise<Session> {
    return openSession(model, { device: this.#gpu.device, externalData });
  }

  allocate(numBytes: number): Storage {
    const buffer = createBuffer(this.#gpu, {
      label: "activations",
      size: Math.ceil(numBytes / 16) * 16,
      usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
    });
    return {
      tensor: (dataType, dims) => Tensor.fromGpuBuffer(buffer, { dataType, dims }),
      write: (data) => this.#gpu.device.queue.writeBuffer(buffer, 0, data),
      dispose: () => buffer.destroy(),
    };
  }

  openAttention(options: AttentionOptions): PagedAttention {
    return new WebGpuAttention(this.#gpu, options);
  }

  async sample(
    logits: Tensor,
    firstRow: number,
    rows: readonly SampleRow[],
  ): Promise<SampledToken[]> {
    const vocabSize = logits.dims.at(-1) as number;
    if (this.#sampler?.vocabSize !== vocabSize) this.#sampler = new ReferenceSampler(vocabSize);
    const isHalf = logits.type === "float16";
    const size = vocabSize * (isHalf ? 2 : 4);
    const encoder = this.#gpu.device.createCommandEncoder();
    const bytes = await this.#readback.read(encoder, [{
      buffer: logits.gpuBuffer as GPUBuffer,
      offset: firstRow * size,
      size: size * rows.length,
    }]);
    const values = isHalf ? new Float16Array(bytes.buffer) : new Float32Array(bytes.buffer);
    return this.#sampler.sample(values, vocabSize, rows);
  }

  dispose(): void {
    this.#readback.dispose();
    this.#gpu.device.destroy();
  }
}
