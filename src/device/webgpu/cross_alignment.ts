/**
 * Alignment to an encoder on a GPU: the `alignment` kernels.
 *
 * @module
 */
import { Alignment } from "../../../kernels/alignment/alignment.ts";
import { createStorage, type GpuContext } from "../../gpu/device.ts";
import { elemBytes } from "../../gpu/kernel.ts";
import { Tensor } from "../ort/ort.ts";
import type { KernelParams } from "../attention_params.ts";
import type { CrossAlignment, CrossAlignmentOptions, TakenText } from "../cross_alignment.ts";
import { blocksPerSlot } from "../cross_attention.ts";

/** A cross-attention node and its cached keys. */
interface KeptKeys {
  readonly params: KernelParams;
  readonly kCache: GPUBuffer;
}

interface Layer {
  /** Queries: elem `[maxTokens, stride]`. */
  readonly q: GPUBuffer;
  readonly kCache: GPUBuffer;
  readonly rowBytes: number;
}

export class WebGpuCrossAlignment implements CrossAlignment {
  readonly #gpu: GpuContext;
  readonly #kernel: Alignment;
  /** Layers by the index of their attention node. */
  readonly #layers: ReadonlyMap<number, Layer>;
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
