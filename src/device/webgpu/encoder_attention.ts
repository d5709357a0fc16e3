/**
 * Attention within encoders and to their output on a GPU.
 *
 * @module
 */
import {
  PackedAttention as PackedKernel,
  type PackedBounds,
  PackedBuffer,
} from "../../../kernels/attention/packed_attention.ts";
import { createStorage, type GpuContext } from "../../gpu/device.ts";
import type { AttentionNode, EncoderNode } from "../../graph/graph_cut.ts";
import { Tensor } from "../ort/ort.ts";
import {
  blocksPerSlot,
  type CrossAlignment,
  type CrossAlignmentOptions,
  type CrossAttention,
  type CrossAttentionOptions,
  type CrossTensors,
  makePositionStep,
  makeTokenStep,
  type PackedAttention,
  type PackedAttentionOptions,
  POSITIONS_PER_BLOCK,
  type TakenText,
  toCrossParams,
  toPackedParams,
} from "../encoder_attention.ts";
import { KvWrite } from "../../../kernels/attention/kv_write.ts";
import {
  PagedAttention as AttentionKernel,
  StepBuffer,
} from "../../../kernels/attention/paged_attention.ts";
import { elemBytes, toElem } from "../../gpu/kernel.ts";
import type { KernelParams } from "../attention.ts";
import { Alignment } from "../../../kernels/alignment/alignment.ts";

/** Allocates all its memory when it is constructed. */
export class WebGpuPackedAttention implements PackedAttention {
  readonly #gpu: GpuContext;
  readonly #layers: readonly { readonly node: EncoderNode; readonly attend: PackedKernel }[];
  /** Plans of the batch by shape: nodes with the same shape share one. */
  readonly #batches = new Map<string, PackedBuffer>();

  /** @throws {RangeError} when the kernel cannot run a node's shape. */
  constructor(gpu: GpuContext, options: PackedAttentionOptions) {
    this.#gpu = gpu;
    try {
      this.#layers = options.nodes.map((node) => {
        const params = toPackedParams(node, toElem(node.dtype));
        const key = JSON.stringify(params.shape);
        const batch = this.#batches.get(key) ?? new PackedBuffer(gpu, params.shape, options);
        this.#batches.set(key, batch);
        return { node, attend: new PackedKernel(gpu, batch, params) };
      });
    } catch (error) {
      this.dispose();
      throw error;
    }
  }

  begin(bounds: PackedBounds): void {
    for (const batch of this.#batches.values()) batch.write(bounds);
  }

  run(layer: number, tensors: ReadonlyMap<string, Tensor>, output: Tensor | undefined): Tensor {
    const { node, attend } = this.#layers[layer]!;
    const [q, k, v] = [node.q, node.k, node.v].map(({ tensor }) =>
      tensors.get(tensor)!.gpuBuffer as GPUBuffer
    );
    const out = output!.gpuBuffer as GPUBuffer;
    attend.encode(this.#gpu.commands, { q: q!, k: k!, v: v!, out });
    this.#gpu.commands.submit();
    return output!;
  }

  dispose(): void {
    for (const batch of this.#batches.values()) batch.dispose();
  }
}

interface Layer {
  readonly node: AttentionNode;
  readonly params: KernelParams;
  /** The step in which the keys and values of inputs are written. */
  readonly writeStep: StepBuffer;
  readonly write: KvWrite;
  readonly attend: AttentionKernel;
  readonly kCache: GPUBuffer;
  readonly vCache: GPUBuffer;
}

interface Steps {
  readonly write: StepBuffer;
  readonly attend: StepBuffer;
}

/** Allocates all its memory when it is constructed. */
export class WebGpuCrossAttention implements CrossAttention {
  readonly #gpu: GpuContext;
  readonly #options: CrossAttentionOptions;
  readonly #layers: readonly Layer[];
  /** Number of positions in each slot. */
  readonly #lengths: Int32Array;
  /** Steps by shape: nodes with the same shape share them. */
  readonly #steps = new Map<string, Steps>();

  /** @throws {RangeError} when the kernels cannot run a node's shape. */
  constructor(gpu: GpuContext, options: CrossAttentionOptions) {
    this.#gpu = gpu;
    this.#options = options;
    this.#lengths = new Int32Array(options.numSlots);
    this.#layers = options.nodes.map((node) => this.#openLayer(node));
  }

  keep(layer: number, { keys, values }: CrossTensors, slots: readonly number[]): void {
    const { writeStep, write, kCache, vCache } = this.#layers[layer]!;
    const numBlocks = blocksPerSlot(this.#options.numPositions);
    const numPositions = keys.dims[1]!;
    for (const slot of slots) this.#lengths[slot] = numPositions;
    const [k, v] = [keys.gpuBuffer as GPUBuffer, values.gpuBuffer as GPUBuffer];
    writeStep.write(makePositionStep(slots, { first: 0, numPositions, numBlocks }));
    write.encode(this.#gpu.commands, { q: k, k, v, kCache, vCache });
    this.#gpu.commands.submit();
  }

  begin(slots: readonly number[]): void {
    // Recorded commands still read the last step's plan.
    this.#gpu.commands.submit();
    const numBlocks = blocksPerSlot(this.#options.numPositions);
    const step = makeTokenStep(slots, { lengths: this.#lengths, numBlocks });
    for (const { attend } of this.#steps.values()) attend.write(step);
  }

  run(layer: number, tensors: ReadonlyMap<string, Tensor>, output: Tensor | undefined): Tensor {
    const { node, attend, kCache, vCache } = this.#layers[layer]!;
    const q = tensors.get(node.q.tensor)!.gpuBuffer as GPUBuffer;
    const out = output!.gpuBuffer as GPUBuffer;
    attend.encode(this.#gpu.commands, { q, kCache, vCache, out });
    return output!;
  }

  openAlignment(options: CrossAlignmentOptions): CrossAlignment {
    const { numPositions } = this.#options;
    return new WebGpuCrossAlignment(this.#gpu, options, { kept: this.#layers, numPositions });
  }

  dispose(): void {
    for (const { kCache, vCache } of this.#layers) {
      kCache.destroy();
      vCache.destroy();
    }
    for (const { write, attend } of this.#steps.values()) {
      write.dispose();
      attend.dispose();
    }
  }

  #openLayer(node: AttentionNode): Layer {
    const { numPositions, numSlots } = this.#options;
    const elem = toElem(node.dtype);
    const params = toCrossParams(node, elem);
    const steps = this.#getSteps(params);
    const numRows = numSlots * blocksPerSlot(numPositions) * POSITIONS_PER_BLOCK;
    const size = numRows * node.kvHeads * node.headDim * elemBytes(elem);
    return {
      node,
      params,
      writeStep: steps.write,
      write: new KvWrite(this.#gpu, steps.write, params.write),
      attend: new AttentionKernel(this.#gpu, steps.attend, params.attend),
      kCache: createStorage(this.#gpu, "encoder's keys", size),
      vCache: createStorage(this.#gpu, "encoder's values", size),
    };
  }

  #getSteps({ shape }: KernelParams): Steps {
    const { numPositions, maxInputs, maxTokens } = this.#options;
    const key = JSON.stringify(shape);
    const maxBlocksPerSequence = blocksPerSlot(numPositions);
    const open = (limits: { readonly maxTokens: number; readonly maxSequences: number }) =>
      new StepBuffer(this.#gpu, shape, { ...limits, maxBlocksPerSequence });
    const steps = this.#steps.get(key) ?? {
      write: open({ maxTokens: maxInputs * numPositions, maxSequences: maxInputs }),
      attend: open({ maxTokens, maxSequences: maxTokens }),
    };
    this.#steps.set(key, steps);
    return steps;
  }
}

/** A cross-attention node and its cached keys. */
interface KeptKeys {
  readonly params: KernelParams;
  readonly kCache: GPUBuffer;
}

interface AlignedLayer {
  /** Queries: elem `[maxTokens, stride]`. */
  readonly q: GPUBuffer;
  readonly kCache: GPUBuffer;
  readonly rowBytes: number;
}

class WebGpuCrossAlignment implements CrossAlignment {
  readonly #gpu: GpuContext;
  readonly #kernel: Alignment;
  /** Layers by the index of their attention node. */
  readonly #layers: ReadonlyMap<number, AlignedLayer>;
  readonly #blocksPerSlot: number;

  /** @param kept every cross-attention node. */
  constructor(
    gpu: GpuContext,
    { nodes, maxTokens }: CrossAlignmentOptions,
    { kept, numPositions }: { readonly kept: readonly KeptKeys[]; readonly numPositions: number },
  ) {
    this.#gpu = gpu;
    this.#blocksPerSlot = blocksPerSlot(numPositions);
    const layers = nodes.map(({ layer, heads }) => {
      const { shape, write, attend } = kept[layer]!.params;
      return { shape, q: write.q, scale: attend.scale, heads };
    });
    this.#kernel = new Alignment(gpu, layers, { maxTokens, maxKeys: numPositions });
    this.#layers = new Map(nodes.map(({ layer }) => {
      const { params: { shape, write }, kCache } = kept[layer]!;
      const rowBytes = write.q.stride * elemBytes(shape.elem);
      const q = createStorage(gpu, "a text's queries", maxTokens * rowBytes);
      return [layer, { q, kCache, rowBytes }];
    }));
  }

  take(layer: number, queries: Tensor, firstToken: number): void {
    const own = this.#layers.get(layer);
    if (own === undefined) return;
    const from = queries.gpuBuffer as GPUBuffer;
    const numBytes = queries.dims[1]! * own.rowBytes;
    const encoder = this.#gpu.device.createCommandEncoder();
    encoder.copyBufferToBuffer(from, 0, own.q, firstToken * own.rowBytes, numBytes);
    this.#gpu.commands.submit(encoder);
  }

  align({ slot, numTokens, numPositions }: TakenText): Tensor {
    const text = { numTokens, numKeys: numPositions, firstBlock: slot * this.#blocksPerSlot };
    const encoder = this.#gpu.device.createCommandEncoder();
    this.#kernel.encode(encoder, text, [...this.#layers.values()]);
    this.#gpu.commands.submit(encoder);
    return Tensor.fromGpuBuffer(this.#kernel.result, {
      dataType: "float32",
      dims: [numTokens, numPositions],
    });
  }

  dispose(): void {
    this.#kernel.dispose();
    for (const { q } of this.#layers.values()) q.destroy();
  }
}
