/**
 * Converts an attention node of a cut graph to the kernels' parameters.
 *
 * @module
 */
import type { AttentionShape } from "../../kernels/attention/attention_shape.ts";
import type { HeadNormParams, KvWriteParams } from "../../kernels/attention/kv_write.ts";
import type { AttentionParams } from "../../kernels/attention/paged_attention.ts";
import type { Elem } from "../gpu/kernel.ts";
import type { AttentionNode, HeadRows } from "../graph/graph_cut.ts";

/** The kernels' parameters for one node. */
export interface KernelParams {
  readonly shape: AttentionShape;
  readonly write: KvWriteParams;
  readonly attend: AttentionParams;
}

/**
 * Converts a node.
 *
 * @param elem the element type of the cache and of what the kernels read and write.
 * @throws {RangeError} when keys and values have heads of different sizes.
 */
export function toKernelParams(
  node: AttentionNode,
  options: {
    readonly blockSize: number;
    readonly elem: Elem;
    readonly norms?: HeadNormParams | undefined;
    /** Whether the cache is in 8 bits. */
    readonly isQuantized?: boolean | undefined;
  },
): KernelParams {
  const { heads, kvHeads, headDim, vHeadDim, rotary } = node;
  if (headDim !== vHeadDim) {
    throw new RangeError(
      `"${node.name}" has keys of ${headDim} and values of ${vHeadDim} elements; the kernels want equal ones.`,
    );
  }
  // Rotated or normalised queries are written packed; others are read in place.
  const isWritten = rotary !== undefined || options.norms?.ofQueries;
  const toLayout = ({ tokenStride, offset }: HeadRows) => ({ stride: tokenStride, offset });
  const { blockSize, elem, isQuantized } = options;
  return {
    shape: { heads, kvHeads, headSize: headDim, blockSize, elem, isQuantized },
    write: {
      rotary: rotary && {
        size: rotary.dim,
        isInterleaved: rotary.interleaved,
        isByToken: rotary.sections !== undefined,
      },
      norms: options.norms,
      q: toLayout(node.q),
      k: toLayout(node.k),
      v: toLayout(node.v),
    },
    attend: {
      scale: node.scale,
      softcap: node.softcap ?? 0,
      window: node.localWindow ?? 0,
      hasSinks: node.sinks !== undefined,
      queryStride: isWritten ? heads * headDim : node.q.tokenStride,
      queryOffset: isWritten ? 0 : node.q.offset,
    },
  };
}
