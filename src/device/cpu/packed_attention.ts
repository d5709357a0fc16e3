/**
 * Packed attention on the CPU: the SIMD kernel, fed with ONNX Runtime's tensors.
 *
 * @module
 */
import { widen } from "../../../kernels/common/half.ts";
import type { KernelThreads } from "../../../kernels/cpu/kernel_threads.ts";
import { SimdPackedAttention } from "../../../kernels/attention/packed_attention_simd.ts";
import { numQueryRows, type PackedBounds } from "../../../kernels/attention/packed_bounds.ts";
import type { EncoderSite } from "../../graph/cut/encoder_cut.ts";
import { Tensor } from "../ort/ort.ts";
import {
  type PackedAttention,
  type PackedAttentionOptions,
  paramsOfEncoderSite,
} from "../packed_attention.ts";

export class CpuPackedAttention implements PackedAttention {
  readonly #sites: readonly EncoderSite[];
  #kernel: SimdPackedAttention | undefined;
  #numRows = 0;

  /** @throws {RangeError} when the kernel cannot run a site's shape. */
  constructor({ sites }: PackedAttentionOptions, threads?: KernelThreads) {
    this.#sites = sites;
    this.#kernel = new SimdPackedAttention(
      sites.map((site) => ({ ...paramsOfEncoderSite(site, "f32"), isPacked: isPacked(site) })),
      threads,
    );
  }

  begin(bounds: PackedBounds): void {
    this.#kernel!.begin(bounds);
    this.#numRows = numQueryRows(bounds);
  }

  run(layer: number, tensors: ReadonlyMap<string, Tensor>): Tensor {
    const site = this.#sites[layer]!;
    const { q, k, v } = this.#kernel!.inputs(layer);
    copy(tensors.get(site.q.tensor)!, q);
    if (!isPacked(site)) {
      copy(tensors.get(site.k.tensor)!, k);
      copy(tensors.get(site.v.tensor)!, v);
    }
    const out = this.#kernel!.run(layer);
    const dims = [1, this.#numRows, site.heads * site.vHeadDim];
    // A copy, since a graph may read it after later layers have run.
    if (site.dtype === "float32") return new Tensor("float32", out.slice(), dims);
    return new Tensor("float16", new Float16Array(out) as unknown as Uint16Array, dims);
  }

  /** Drops the memory; the engine frees it. */
  dispose(): void {
    this.#kernel?.dispose();
    this.#kernel = undefined;
  }
}

function isPacked({ q, k, v }: EncoderSite): boolean {
  return q.tensor === k.tensor && q.tensor === v.tensor;
}

/** The tensor's values as f32. */
function copy({ data }: Tensor, into: Float32Array): void {
  if (data instanceof Float32Array) into.set(data);
  else widen(data as unknown as Float16Array, into);
}
