/**
 * Packed attention on a GPU, with one submit per node.
 *
 * @module
 */
import {
  PackedAttention as AttentionKernel,
  PackedBuffer,
} from "../../../kernels/attention/packed_attention.ts";
import type { PackedBounds } from "../../../kernels/attention/packed_bounds.ts";
import type { GpuContext } from "../../gpu/device.ts";
import type { EncoderNode } from "../../graph/cut/encoder_cut.ts";
import type { Tensor } from "../ort/ort.ts";
import {
  type PackedAttention,
  type PackedAttentionOptions,
  toPackedParams,
} from "../packed_attention.ts";

/** Allocates all its memory when it is constructed. */
export class WebGpuPackedAttention implements PackedAttention {
  readonly #gpu: GpuContext;
  readonly #layers: readonly { readonly node: EncoderNode; readonly attend: AttentionKernel }[];
  /** Plans of the batch by shape: nodes with the same shape share one. */
  readonly #batches = new Map<string, PackedBuffer>();

  /** @throws {RangeError} when the kernel cannot run a node's shape. */
  constructor(gpu: GpuContext, options: PackedAttentionOptions) {
    this.#gpu = gpu;
    try {
      this.#layers = options.nodes.map((node) => {
        const params = toPackedParams(node, node.dtype === "float16" ? "f16" : "f32");
        const key = JSON.stringify(params.shape);
        const batch = this.#batches.get(key) ?? new PackedBuffer(gpu, params.shape, options);
        this.#batches.set(key, batch);
        return { node, attend: new AttentionKernel(gpu, batch, params) };
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
