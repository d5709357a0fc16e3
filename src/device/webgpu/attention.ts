/**
 * Paged attention on a GPU: `kv_write` and `paged_attention`, recorded site by site.
 *
 * @module
 */
import { cachedHeadBytes } from "../../../kernels/attention/kv_cache.ts";
import { type HeadNormParams, joinAngles, KvWrite } from "../../../kernels/attention/kv_write.ts";
import { PagedAttention as AttentionKernel } from "../../../kernels/attention/paged_attention.ts";
import { StepBuffer } from "../../../kernels/attention/step_buffer.ts";
import { createBuffer, type GpuContext } from "../../gpu/device.ts";
import { sizeOf } from "../../gpu/kernel.ts";
import type { PackedStep } from "../../../kernels/attention/step_plan.ts";
import type { SiteForm } from "../../program/program.ts";
import type { AttentionSite, Rotary } from "../../graph/graph_cut.ts";
import type { Tensor } from "../ort/ort.ts";
import { paramsOfSite, type SiteParams } from "../attention_params.ts";
import type {
  AttentionForm,
  AttentionOptions,
  FormConstants,
  OperandBuffers,
  PagedAttention,
} from "../paged_attention.ts";
import { type LayerCache, WebGpuKvCache } from "./kv_cache.ts";

interface Layer {
  readonly site: AttentionSite;
  readonly write: KvWrite;
  readonly attend: AttentionKernel;
  readonly cache: LayerCache;
  readonly angles: GPUBuffer | undefined;
  /** Destination of rotated or normalised queries. */
  readonly qOut: GPUBuffer | undefined;
  readonly gammas?: GPUBuffer | undefined;
  readonly sinks: GPUBuffer | undefined;
}

/** All its memory is allocated when it is made, or when it is resized. */
export class WebGpuAttention implements PagedAttention {
  readonly #gpu: GpuContext;
  readonly #options: AttentionOptions;
  readonly #cache: WebGpuKvCache;
  readonly #layers: readonly Layer[];
  /** Steps by shape: sites of one shape share the step's plan. */
  readonly #steps = new Map<string, StepBuffer>();
  readonly #constants = new Map<string, GPUBuffer>();
  /** Buffers by size in bytes: rotated queries are needed within one site only. */
  readonly #queries = new Map<number, GPUBuffer>();
  /** Factors of head norms. */
  readonly #factors: GPUBuffer[] = [];

  /** @throws {RangeError} when the kernels cannot run a site's shape. */
  constructor(gpu: GpuContext, options: AttentionOptions) {
    this.#gpu = gpu;
    this.#options = options;
    const { sites, numBlocks, blockSize } = options;
    const blockBytes = sites.map((site) => {
      const { shape } = this.#paramsOf(site);
      return shape.kvHeads * blockSize * cachedHeadBytes(shape);
    });
    this.#cache = new WebGpuKvCache(gpu, blockBytes, numBlocks);
    this.#layers = sites.map((site, i) => this.#openLayer(site, this.#cache.layers[i]!));
  }

  resize(numBlocks: number): Promise<boolean> {
    return this.#cache.resize(numBlocks);
  }

  begin(step: PackedStep): void {
    // Recorded commands still read the last step's plan.
    this.#gpu.commands.submit();
    for (const buffer of this.#steps.values()) buffer.write(step);
  }

  run(layer: number, tensors: ReadonlyMap<string, Tensor>, output: Tensor | undefined): Tensor {
    const { site } = this.#layers[layer]!;
    const [q, k, v] = [site.q, site.k, site.v].map(({ tensor }) =>
      tensors.get(tensor)!.gpuBuffer as GPUBuffer
    ) as [GPUBuffer, GPUBuffer, GPUBuffer];
    const out = output!.gpuBuffer as GPUBuffer;
    this.#record(this.#layers[layer]!, { q, k, v, out });
    return output!;
  }

  takesForm(): boolean {
    return true;
  }

  openForm(form: SiteForm, { gammas, angles }: FormConstants): AttentionForm {
    const { layer, q, k, v, norms, rotary, scale } = form;
    const own = this.#layers[layer]!;
    const { site: before } = own;
    const site = {
      ...before,
      q,
      k,
      v,
      rotary: rotary ?? before.rotary,
      scale: before.scale * scale,
    };
    const ofForm = this.#kernelsOf(
      site,
      norms && {
        epsilon: norms.epsilon,
        ofQueries: norms.q !== undefined,
        ofKeys: norms.k !== undefined,
        ofRows: norms.ofRows,
      },
    );
    const factors = gammas && this.#upload("head norms", gammas, GPUBufferUsage.UNIFORM);
    if (factors) this.#factors.push(factors);
    const layerOfForm: Layer = {
      ...own,
      ...ofForm,
      gammas: factors,
      angles: rotary && angles ? this.#anglesOf(rotary, angles) : own.angles,
    };
    return (buffers) => this.#record(layerOfForm, buffers);
  }

  #record(layer: Layer, { q, k, v, out }: OperandBuffers): void {
    const { write, attend, cache: { keys: kCache, values: vCache } } = layer;
    const { angles, qOut, gammas, sinks } = layer;
    const pass = this.#gpu.commands;
    write.encode(pass, { q, k, v, kCache, vCache, angles, qOut, gammas });
    attend.encode(pass, { q: qOut ?? q, kCache, vCache, out, sinks });
  }

  dispose(): void {
    this.#cache.dispose();
    for (const step of this.#steps.values()) step.dispose();
    const shared = [...this.#constants.values(), ...this.#queries.values(), ...this.#factors];
    for (const buffer of shared) buffer.destroy();
  }

  #openLayer(site: AttentionSite, cache: LayerCache): Layer {
    const { constants } = this.#options;
    return {
      site,
      cache,
      ...this.#kernelsOf(site),
      angles: site.rotary && this.#anglesOf(site.rotary, {
        cos: constants.get(site.rotary.cos.name)!,
        sin: constants.get(site.rotary.sin.name)!,
      }),
      sinks: site.sinks &&
        this.#constantOf(site.sinks.name, () => constants.get(site.sinks!.name)!),
    };
  }

  #paramsOf(site: AttentionSite, norms?: HeadNormParams): SiteParams {
    const elem = site.dtype === "float16" ? "f16" : "f32";
    const { blockSize, isQuantized } = this.#options;
    return paramsOfSite(site, { blockSize, elem, norms, isQuantized });
  }

  #kernelsOf(site: AttentionSite, norms?: HeadNormParams) {
    const { shape, write, attend } = this.#paramsOf(site, norms);
    const step = this.#stepOf({ shape });
    const queryBytes = this.#options.maxTokens * shape.heads * shape.headSize * sizeOf(shape.elem);
    return {
      write: new KvWrite(this.#gpu, step, write),
      attend: new AttentionKernel(this.#gpu, step, attend),
      qOut: site.rotary || norms?.ofQueries ? this.#queriesOf(queryBytes) : undefined,
    };
  }

  #stepOf({ shape }: Pick<SiteParams, "shape">): StepBuffer {
    const key = JSON.stringify(shape);
    const step = this.#steps.get(key) ?? new StepBuffer(this.#gpu, shape, this.#options);
    this.#steps.set(key, step);
    return step;
  }

  #anglesOf({ cos, sin, dim }: Rotary, values: NonNullable<FormConstants["angles"]>): GPUBuffer {
    return this.#constantOf(`${cos.name}, ${sin.name}`, () => joinAngles(values, dim / 2));
  }

  #constantOf(name: string, values: () => Float32Array): GPUBuffer {
    const known = this.#constants.get(name);
    if (known) return known;
    const buffer = this.#upload(name, values());
    this.#constants.set(name, buffer);
    return buffer;
  }

  #upload(label: string, values: Float32Array, usage?: GPUBufferUsageFlags): GPUBuffer {
    const buffer = this.#createBuffer(label, values.byteLength, usage);
    this.#gpu.device.queue.writeBuffer(buffer, 0, values as Float32Array<ArrayBuffer>);
    return buffer;
  }

  #queriesOf(bytes: number): GPUBuffer {
    const buffer = this.#queries.get(bytes) ?? this.#createBuffer("rotated queries", bytes);
    this.#queries.set(bytes, buffer);
    return buffer;
  }

  #createBuffer(
    label: string,
    bytes: number,
    usage: GPUBufferUsageFlags = GPUBufferUsage.STORAGE,
  ): GPUBuffer {
    return createBuffer(this.#gpu, {
      label,
      size: Math.ceil(bytes / 16) * 16,
      usage: usage | GPUBufferUsage.COPY_DST,
    });
  }
}
