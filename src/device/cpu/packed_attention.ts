/**
 * Packed attention on the CPU: the SIMD kernel, which reads ONNX Runtime's tensors.
 *
 * @module
 */
import type { KernelThreads } from "../../../kernels/cpu/kernel_threads.ts";
import { SimdPackedAttention } from "../../../kernels/attention/packed_attention_simd.ts";
import { numQueryRows, type PackedBounds } from "../../../kernels/attention/packed_bounds.ts";
import type { EncoderNode } from "../../graph/cut/encoder_cut.ts";
import type { Tensor } from "../ort/ort.ts";
import {
  type PackedAttention,
  type PackedAttentionOptions,
  toPackedParams,
} from "../packed_attention.ts";
import { copyOperands, isPacked, makeTensor } from "./tensors.ts";

export class CpuPackedAttention implements PackedAttention {
  readonly #nodes: readonly EncoderNode[];
  #kernel: SimdPackedAttention | undefined;
  #numRows = 0;

  /** @throws {RangeError} when the kernel cannot run a node's shape. */
  constructor({ nodes }: PackedAttentionOptions, threads?: KernelThreads) {
    this.#nodes = nodes;
    this.#kernel = new SimdPackedAttention(
      nodes.map((node) => ({ ...toPackedParams(node, "f32"), isPacked: isPacked(node) })),
      threads,
    );
  }

  begin(bounds: PackedBounds): void {
    this.#kernel!.begin(bounds);
    this.#numRows = numQueryRows(bounds);
  }

  run(layer: number, tensors: ReadonlyMap<string, Tensor>): Tensor {
    const node = this.#nodes[layer]!;
    copyOperands(node, tensors, this.#kernel!.inputs(layer));
    const dims = [1, this.#numRows, node.heads * node.vHeadDim];
    // A copy, since a graph may read it after later layers have run.
    return makeTensor(node.dtype, dims, this.#kernel!.run(layer));
  }

  /** The garbage collector frees the memory. */
  dispose(): void {
    this.#kernel?.dispose();
    this.#kernel = undefined;
  }
}
