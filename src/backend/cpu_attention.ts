/**
 * Paged attention on the CPU: the kernels' references over a cache in f32.
 *
 * @module
 */
import { widen } from "../../kernels/half.ts";
import { ReferenceKvWrite } from "../../kernels/kv_write_reference.ts";
import { ReferenceAttention } from "../../kernels/paged_attention_reference.ts";
import type { PackedStep } from "../../kernels/step_plan.ts";
import type { AttentionSite } from "../onnx/graph_cut.ts";
import { Tensor } from "../onnx/ort.ts";
import { paramsOfSite } from "./attention_params.ts";
import type { AttentionOptions, PagedAttention } from "./backend.ts";

interface Layer {
  readonly site: AttentionSite;
  readonly write: ReferenceKvWrite;
  readonly attend: ReferenceAttention;
  readonly kCache: Float32Array;
  readonly vCache: Float32Array;
  readonly rotary:
    | { readonly cos: Float32Array; readonly sin: Float32Array; readonly qOut: Float32Array }
    | undefined;
  readonly sinks: Float32Array | undefined;
}

/** See the module. All its memory is allocated when it is made. */
export class CpuAttention implements PagedAttention {
  readonly #options: AttentionOptions;
  readonly #layers: readonly Layer[];
  /** By name and length: each is needed within one site only, and shared by all sites. */
  readonly #scratch = new Map<string, Float32Array | Float16Array>();
  #current: PackedStep | undefined;

  /** @throws {RangeError} when the kernels cannot run a site's shape. */
  constructor(options: AttentionOptions) {
    this.#options = options;
    this.#layers = options.sites.map((site) => this.#openLayer(site));
  }

  begin(step: PackedStep): void {
    this.#current = step;
  }

  run(layer: number, tensors: ReadonlyMap<string, Tensor>): Tensor {
    const { site, write, attend, kCache, vCache, rotary, sinks } = this.#layers[layer]!;
    const step = this.#current!;
    const q = this.#read("q", site.q.tensor, tensors);
    const k = this.#read("k", site.k.tensor, tensors);
    const v = this.#read("v", site.v.tensor, tensors);
    write.run(step, { q, k, v, kCache, vCache, rotary });

    const width = site.heads * site.vHeadDim;
    const out = this.#float32("out", this.#options.maxTokens * width);
    attend.run(step, { q: rotary?.qOut ?? q, kCache, vCache, out, sinks });
    const valid = out.subarray(0, step.numTokens * width);
    const dims = [1, step.numTokens, width];
    if (site.dtype === "float32") return new Tensor("float32", valid, dims);
    return new Tensor("float16", new Float16Array(valid) as unknown as Uint16Array, dims);
  }

  dispose(): void {}

  #openLayer(site: AttentionSite): Layer {
    const { blockSize, numBlocks, maxTokens, maxBlocksPerSequence, constants } = this.#options;
    const params = paramsOfSite(site, { blockSize, elem: "f32", anglesElem: "f32" });
    const { shape } = params;
    const cacheLength = numBlocks * shape.kvHeads * blockSize * shape.headSize;
    return {
      site,
      write: new ReferenceKvWrite(shape, params.write),
      attend: new ReferenceAttention(shape, params.attend, maxBlocksPerSequence * blockSize),
      kCache: new Float32Array(cacheLength),
      vCache: new Float32Array(cacheLength),
      rotary: site.rotary && {
        cos: constants.get(site.rotary.cos.name)!,
        sin: constants.get(site.rotary.sin.name)!,
        qOut: this.#float32("rotated", maxTokens * shape.heads * shape.headSize),
      },
      sinks: site.sinks && constants.get(site.sinks.name)!,
    };
  }

  /** The tensor's values as f32: its own where it is f32, a copy where it is f16. */
  #read(use: string, name: string, tensors: ReadonlyMap<string, Tensor>): Float32Array {
    const data = tensors.get(name)!.data as Float32Array | Float16Array;
    if (data instanceof Float32Array) return data;
    const wide = this.#float32(
      use,
      (data.length / this.#current!.numTokens) * this.#options.maxTokens,
    );
    widen(data, wide);
    return wide;
  }

  #float32(use: string, length: number): Float32Array {
    const key = `${use} ${length}`;
    const known = this.#scratch.get(key);
    if (known instanceof Float32Array) return known;
    const made = new Float32Array(length);
    this.#scratch.set(key, made);
    return made;
  }
}
