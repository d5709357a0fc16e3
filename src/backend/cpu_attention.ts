/**
 * Paged attention on the CPU: the SIMD kernels, fed with ONNX Runtime's tensors.
 *
 * @module
 */
import { SimdAttention, type SimdLayer } from "../../kernels/attention_simd.ts";
import { widen } from "../../kernels/half.ts";
import type { KernelThreads } from "../../kernels/kernel_threads.ts";
import type { PackedStep } from "../../kernels/step_plan.ts";
import type { AttentionSite } from "../onnx/graph_cut.ts";
import { Tensor } from "../onnx/ort.ts";
import { paramsOfSite } from "./attention_params.ts";
import type { AttentionOptions, PagedAttention } from "./backend.ts";

/** See the module. All its memory is allocated when it is made. */
export class CpuAttention implements PagedAttention {
  readonly #sites: readonly AttentionSite[];
  #kernels: SimdAttention | undefined;
  #numTokens = 0;

  /**
   * @throws {RangeError} when the kernels cannot run a site's shape.
   * @throws {StartupError} when there is not enough memory.
   */
  constructor(options: AttentionOptions, threads?: KernelThreads) {
    this.#sites = options.sites;
    const layers = options.sites.map((site) => layerOf(site, options));
    this.#kernels = new SimdAttention(layers, { ...options, threads });
  }

  begin(step: PackedStep): void {
    this.#kernels!.begin(step);
    this.#numTokens = step.numTokens;
  }

  run(layer: number, tensors: ReadonlyMap<string, Tensor>): Tensor {
    const site = this.#sites[layer]!;
    const { q, k, v } = this.#kernels!.inputs(layer);
    copy(tensors.get(site.q.tensor)!, q);
    if (!isPacked(site)) {
      copy(tensors.get(site.k.tensor)!, k);
      copy(tensors.get(site.v.tensor)!, v);
    }
    const out = this.#kernels!.run(layer);
    const dims = [1, this.#numTokens, site.heads * site.vHeadDim];
    // A copy, since ONNX Runtime takes no shared memory.
    if (site.dtype === "float32") return new Tensor("float32", out.slice(), dims);
    return new Tensor("float16", new Float16Array(out) as unknown as Uint16Array, dims);
  }

  /** Lets go of the memory; the engine frees it. */
  dispose(): void {
    this.#kernels?.dispose();
    this.#kernels = undefined;
  }
}

function layerOf(site: AttentionSite, { blockSize, constants }: AttentionOptions): SimdLayer {
  const params = paramsOfSite(site, { blockSize, elem: "f32", anglesElem: "f32" });
  return {
    ...params,
    isPacked: isPacked(site),
    rotary: site.rotary && {
      cos: constants.get(site.rotary.cos.name)!,
      sin: constants.get(site.rotary.sin.name)!,
    },
    sinks: site.sinks && constants.get(site.sinks.name)!,
  };
}

function isPacked({ q, k, v }: AttentionSite): boolean {
  return q.tensor === k.tensor && q.tensor === v.tensor;
}

/** The tensor's values as f32. */
function copy({ data }: Tensor, into: Float32Array): void {
  if (data instanceof Float32Array) into.set(data);
  else widen(data as unknown as Float16Array, into);
}
