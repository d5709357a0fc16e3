/**
 * An attention site of a cut graph in the kernels' terms.
 *
 * @module
 */
import type { AttentionShape } from "../../kernels/attention/attention_shape.ts";
import type { HeadNormParams, KvWriteParams } from "../../kernels/attention/kv_write.ts";
import type { AttentionParams } from "../../kernels/attention/paged_attention.ts";
import type { Elem } from "../gpu/kernel.ts";
import type { AttentionSite, HeadRows } from "../graph/graph_cut.ts";

/** The kernels' parameters for one site. */
export interface SiteParams {
  readonly shape: AttentionShape;
  readonly write: KvWriteParams;
  readonly attend: AttentionParams;
}

/**
 * @param elem the element type of the cache and of what the kernels read and write.
 * @throws {RangeError} when keys and values have heads of different sizes.
 */
export function paramsOfSite(
  site: AttentionSite,
  options: {
    readonly blockSize: number;
    readonly elem: Elem;
    readonly norms?: HeadNormParams | undefined;
    /** Whether the cache is in 8 bits. */
    readonly isQuantized?: boolean | undefined;
  },
): SiteParams {
  const { heads, kvHeads, headDim, vHeadDim, rotary } = site;
  if (headDim !== vHeadDim) {
    throw new RangeError(
      `"${site.name}" has keys of ${headDim} and values of ${vHeadDim} elements; the kernels want equal ones.`,
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
      q: toLayout(site.q),
      k: toLayout(site.k),
      v: toLayout(site.v),
    },
    attend: {
      scale: site.scale,
      softcap: site.softcap ?? 0,
      window: site.localWindow ?? 0,
      hasSinks: site.sinks !== undefined,
      queryStride: isWritten ? heads * headDim : site.q.tokenStride,
      queryOffset: isWritten ? 0 : site.q.offset,
    },
  };
}
