/**
 * Attention of a cut encoder, within each text of a packed batch.
 *
 * @module
 */
import type { PackedParams } from "../../kernels/attention/packed_attention.ts";
import type { PackedBounds, PackedLimits } from "../../kernels/attention/packed_bounds.ts";
import type { Elem } from "../gpu/kernel.ts";
import type { EncoderNode } from "../graph/cut/encoder_cut.ts";
import type { HeadRows } from "../graph/graph_cut.ts";
import type { Tensor } from "./ort/ort.ts";

/** The parameters of a packed attention. */
export interface PackedAttentionOptions extends PackedLimits {
  readonly nodes: readonly EncoderNode[];
}

/** Packed attention, one call per node and batch. */
export interface PackedAttention {
  /** Sets the bounds of the texts in the next batch. */
  begin(bounds: PackedBounds): void;
  /**
   * Runs node `layer`, and writes the result to `output`.
   *
   * @param tensors by name, including the node's q, k and v.
   * @param output destination of the result; allocated if absent.
   */
  run(layer: number, tensors: ReadonlyMap<string, Tensor>, output: Tensor | undefined): Tensor;
  dispose(): void;
}

/**
 * Converts an encoder's attention node to the kernel's parameters.
 *
 * @param elem the element type that the kernel reads and writes.
 * @throws {RangeError} when keys and values have heads of different sizes.
 */
export function toPackedParams(node: EncoderNode, elem: Elem): PackedParams {
  const { heads, kvHeads, headDim, vHeadDim, scale, softcap = 0, window = 0 } = node;
  if (headDim !== vHeadDim) {
    throw new RangeError(
      `"${node.name}" has keys of ${headDim} and values of ${vHeadDim} elements; the kernel wants equal ones.`,
    );
  }
  const toLayout = ({ tokenStride, offset }: HeadRows) => ({ stride: tokenStride, offset });
  return {
    shape: { heads, kvHeads, headSize: headDim, elem },
    q: toLayout(node.q),
    k: toLayout(node.k),
    v: toLayout(node.v),
    scale,
    softcap,
    window,
  };
}
