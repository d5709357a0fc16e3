/**
 * The backend for GPUs: ONNX Runtime's WebGPU provider and the WGSL kernels, on one device.
 *
 * @module
 */
import { createStorage, type GpuContext, usesMachineMemory } from "../../gpu/device.ts";
import { toElem } from "../../gpu/kernel.ts";
import { Readback } from "../../gpu/readback.ts";
import { takeLookup } from "../../graph/cut/embedding_lookup.ts";
import type { ModelFiles } from "../../graph/file/external_data.ts";
import { type GraphSession, openSession, prepareRuntime, Tensor } from "../ort/ort.ts";
import { copyWeights } from "../ort/pack_model.ts";
import type { ModelProto } from "../../graph/file/proto.ts";
import {
  liftLargeWeights,
  liftWeights,
  sumsToAdditions,
  type WeightInputs,
} from "../../graph/rewrite/webgpu_graph.ts";
import type {
  Backend,
  OpenModelOptions,
  RowRange,
  SamplerOptions,
  Storage,
  TokenSampler,
} from "../backend.ts";
import type { AttentionOptions, PagedAttention } from "../attention.ts";
import { type DeviceTensor, DeviceWeights, type DeviceWeightsOptions } from "../device_weights.ts";
import type { KernelExecutor, KernelsOptions } from "../kernel_executor.ts";
import type { ImageKernels, SpeechKernels, SpeechOptions } from "../media.ts";
import type {
  CrossAttention,
  CrossAttentionOptions,
  PackedAttention,
  PackedAttentionOptions,
} from "../encoder_attention.ts";
import type { ExpertLayers, ExpertsOptions } from "../experts.ts";
import type { SequenceStates, StatesOptions } from "../sequence_states.ts";
import { WebGpuAttention } from "./attention.ts";
import { WebGpuCrossAttention, WebGpuPackedAttention } from "./encoder_attention.ts";
import { openEmbeddingSession } from "./embedding.ts";
import { WebGpuImages, WebGpuSpeech } from "./media.ts";
import { WebGpuSampler } from "./sampler.ts";
import { WebGpuKernels } from "./kernels.ts";
import { WebGpuExperts } from "./experts.ts";
import { WebGpuStates } from "./states.ts";

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
  readonly #gpu: GpuContext;
  readonly #readback: Readback;

  private constructor(gpu: GpuContext, parts: { readback: Readback; failure: Promise<string> }) {
    this.#gpu = gpu;
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
    // The next caller that opens a session waits for it, and reports its errors.
    prepareRuntime(this.#gpu.device).catch(() => {});
  }

  async openSession(model: Uint8Array): Promise<GraphSession> {
    return this.#inOrder(await openSession(model, { device: this.#gpu.device }));
  }

  async openModel(
    model: ModelProto,
    files: ModelFiles,
    { weights }: OpenModelOptions = {},
  ): Promise<GraphSession> {
    const suited = sumsToAdditions(model);
    if (weights !== undefined) {
      return await this.#openLifted(liftWeights(suited), files, weights);
    }
    const lifted = liftLargeWeights(suited);
    const own = this.openWeights(files);
    try {
      const session = await this.#openLifted(lifted, files, own);
      return { ...session, release: () => session.release().finally(() => own.dispose()) };
    } catch (error) {
      own.dispose();
      throw error;
    }
  }

  async #openLifted(
    lifted: WeightInputs,
    files: ModelFiles,
    weights: DeviceWeights,
  ): Promise<GraphSession> {
    await weights.upload(lifted.weights);
    const { bytes, externalData } = await copyWeights(lifted.model, files);
    const session = await openSession(bytes, { device: this.#gpu.device, externalData });
    const given = lifted.weights.map(({ name }) => [name, weights.get(name)!] as const);
    return this.#inOrder(withInputs(session, given));
  }

  /** Wraps a session so that its runs follow the recorded commands. */
  #inOrder(session: GraphSession): GraphSession {
    return {
      ...session,
      run: (feeds, fetches) => {
        this.#gpu.commands.submit();
        return session.run(feeds, fetches);
      },
    };
  }

  async openEmbedding(model: ModelProto, files: ModelFiles): Promise<GraphSession> {
    const taken = takeLookup(model);
    if (taken === undefined) return await this.openModel(model, files);
    const { lookup, rest: { graph } } = taken;
    const givesRowsToo = graph.outputs.some(({ name }) => name === lookup.output);
    if (graph.nodes.length > 0 && givesRowsToo) return await this.openModel(model, files);
    const rest = graph.nodes.length > 0 ? await this.openModel(taken.rest, files) : undefined;
    try {
      return await openEmbeddingSession(this.#gpu, { lookup, rest }, files);
    } catch (error) {
      await rest?.release();
      throw error;
    }
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

/** Wraps a session with fixed additional inputs. */
function withInputs(
  session: GraphSession,
  given: readonly (readonly [string, DeviceTensor])[],
): GraphSession {
  if (given.length === 0) return session;
  const tensors = Object.fromEntries(given.map(([name, { buffer, dtype, dims }]) => [
    name,
    Tensor.fromGpuBuffer(buffer, { dataType: dtype as "uint8", dims }),
  ]));
  return {
    ...session,
    inputs: session.inputs.filter(({ name }) => !(name in tensors)),
    run: (feeds, fetches) => session.run({ ...feeds, ...tensors }, fetches),
  };
}
