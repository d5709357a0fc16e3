/**
 * Paged attention on a GPU: `kv_write` and `paged_attention`, one submit per site.
 *
 * @module
 */
import { KvWrite } from "../../kernels/kv_write.ts";
import { PagedAttention as AttentionKernel } from "../../kernels/paged_attention.ts";
import { StepBuffer } from "../../kernels/step_buffer.ts";
import { createBuffer, type GpuContext } from "../gpu/device.ts";
import { sizeOf } from "../gpu/kernel.ts";
import type { PackedStep } from "../../kernels/step_plan.ts";
import type { AttentionSite } from "../onnx/graph_cut.ts";
import type { StoredTensor } from "../onnx/stored_tensor.ts";
import type { Tensor } from "../onnx/ort.ts";
import { paramsOfSite, type SiteParams } from "./attention_params.ts";
import type { AttentionOptions, PagedAttention } from "./backend.ts";

interface Layer {
  readonly site: AttentionSite;
  readonly write: KvWrite;
  readonly attend: AttentionKernel;
  readonly kCache: GPUBuffer;
  readonly vCache: GPUBuffer;
  readonly rotary:
    | { readonly cos: GPUBuffer; readonly sin: GPUBuffer; readonly qOut: GPUBuffer }
    | undefined;
  readonly sinks: GPUBuffer | undefined;
}

/** See the module. All its memory is allocated when it is made. */
export class WebGpuAttention implements PagedAttention {
  readonly #gpu: GpuContext;
  readonly #options: AttentionOptions;
  readonly #layers: readonly Layer[];
  /** By shape: sites of one shape share the step's plan. */
  readonly #steps = new Map<string, StepBuffer>();
  readonly #constants = new Map<string, GPUBuffer>();
  /** By size in bytes: rotated queries are needed within one site only. */
  readonly #queries = new Map<number, GPUBuffer>();

  /** @throws {RangeError} when the kernels cannot run a site's shape. */
  constructor(gpu: GpuContext, options: AttentionOptions) {
    this.#gpu = gpu;
    this.#options = options;
    this.#layers = options.sites.map((site) => this.#openLayer(site));
  }

  begin(step: PackedStep): void {
    for (const buffer of this.#steps.values()) buffer.write(step);
  }

  run(layer: number, tensors: ReadonlyMap<string, Tensor>, output: Tensor | undefined): Tensor {
    const { site, write, attend, kCache, vCache, rotary, sinks } = this.#layers[layer]!;
    const bufferOf = (name: string) => tensors.get(name)!.gpuBuffer as GPUBuffer;
    const q = bufferOf(site.q.tensor);
    const encoder = this.#gpu.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    write.encode(pass, {
      q,
      k: bufferOf(site.k.tensor),
      v: bufferOf(site.v.tensor),
      kCache,
      vCache,
      rotary,
    });
    const out = output!.gpuBuffer as GPUBuffer;
    attend.encode(pass, { q: rotary?.qOut ?? q, kCache, vCache, out, sinks });
    pass.end();
    this.#gpu.device.queue.submit([encoder.finish()]);
    return output!;
  }

  dispose(): void {
    for (const { kCache, vCache } of this.#layers) {
      kCache.destroy();
      vCache.destroy();
    }
    for (const step of this.#steps.values()) step.dispose();
    for (const buffer of [...this.#constants.values(), ...this.#queries.values()]) buffer.destroy();
  }

  #openLayer(site: AttentionSite): Layer {
    const { blockSize, numBlocks, maxTokens } = this.#options;
    const elem = site.dtype === "float16" ? "f16" : "f32";
    const params = paramsOfSite(site, { blockSize, elem, anglesElem: "f32" });
    const step = this.#stepOf(params);
    const { shape } = params;
    const elementBytes = sizeOf(elem);
    const cacheBytes = numBlocks * shape.kvHeads * blockSize * shape.headSize * elementBytes;
    const queryBytes = maxTokens * shape.heads * shape.headSize * elementBytes;
    return {
      site,
      write: new KvWrite(this.#gpu, step, params.write),
      attend: new AttentionKernel(this.#gpu, step, params.attend),
      kCache: this.#createBuffer("keys", cacheBytes),
      vCache: this.#createBuffer("values", cacheBytes),
      rotary: site.rotary && {
        cos: this.#constantOf(site.rotary.cos),
        sin: this.#constantOf(site.rotary.sin),
        qOut: this.#queriesOf(queryBytes),
      },
      sinks: site.sinks && this.#constantOf(site.sinks),
    };
  }

  #stepOf({ shape }: SiteParams): StepBuffer {
    const key = JSON.stringify(shape);
    const step = this.#steps.get(key) ?? new StepBuffer(this.#gpu, shape, this.#options);
    this.#steps.set(key, step);
    return step;
  }

  #constantOf({ name }: StoredTensor): GPUBuffer {
    const known = this.#constants.get(name);
    if (known) return known;
    const values = this.#options.constants.get(name)!;
    const buffer = this.#createBuffer(name, values.byteLength);
    this.#gpu.device.queue.writeBuffer(buffer, 0, values as Float32Array<ArrayBuffer>);
    this.#constants.set(name, buffer);
    return buffer;
  }

  #queriesOf(bytes: number): GPUBuffer {
    const buffer = this.#queries.get(bytes) ?? this.#createBuffer("rotated queries", bytes);
    this.#queries.set(bytes, buffer);
    return buffer;
  }

  #createBuffer(label: string, bytes: number): GPUBuffer {
    return createBuffer(this.#gpu, {
      label,
      size: Math.ceil(bytes / 16) * 16,
      usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST,
    });
  }
}
