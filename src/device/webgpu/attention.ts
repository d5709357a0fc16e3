/**
 * Paged attention on a GPU: `kv_write` and `paged_attention`, recorded node by node.
 *
 * @module
 */
import { cachedHeadBytes, choosePool } from "../../../kernels/attention/attention_shape.ts";
import { type HeadNormParams, joinAngles, KvWrite } from "../../../kernels/attention/kv_write.ts";
import {
  PagedAttention as AttentionKernel,
  StepBuffer,
} from "../../../kernels/attention/paged_attention.ts";
import { createBuffer, createStorage, type GpuContext, uploadStorage } from "../../gpu/device.ts";
import { elemBytes, toElem } from "../../gpu/kernel.ts";
import { stepInPool } from "../../../kernels/attention/step_plan.ts";
import type { OperandLayout } from "../../program/program.ts";
import type { AttentionNode, Rotary } from "../../graph/graph_cut.ts";
import type { Tensor } from "../ort/ort.ts";
import {
  type AttentionOptions,
  type AttentionStep,
  type KernelParams,
  type LayoutConstants,
  type OperandBuffers,
  type PagedAttention,
  type RecordAttention,
  toKernelParams,
} from "../attention.ts";
import { type LayerCache, WebGpuKvCache } from "./kv_cache.ts";

interface Layer {
  readonly node: AttentionNode;
  readonly write: KvWrite;
  readonly attend: AttentionKernel;
  readonly cache: LayerCache;
  readonly angles: GPUBuffer | undefined;
  /** Buffer for rotated or normalised queries. */
  readonly qOut: GPUBuffer | undefined;
  readonly gammas?: GPUBuffer | undefined;
  readonly sinks: GPUBuffer | undefined;
  readonly slopes: GPUBuffer | undefined;
}

/** Allocates all its memory when it is constructed or resized. */
export class WebGpuAttention implements PagedAttention {
  readonly #gpu: GpuContext;
  readonly #options: AttentionOptions;
  /** The cache of each pool: the main pool, then the window pools. */
  readonly #caches: readonly WebGpuKvCache[];
  readonly #layers: readonly Layer[];
  /** Steps by shape and window: nodes with equal shape and window share a plan of the step. */
  readonly #steps = new Map<string, { readonly buffer: StepBuffer; readonly pool: number }>();
  readonly #constants = new Map<string, GPUBuffer>();
  /** Buffers by size in bytes. Rotated queries are only needed within one node, so nodes share the buffers. */
  readonly #queries = new Map<number, GPUBuffer>();
  /** Factors of head norms. */
  readonly #factors: GPUBuffer[] = [];
  /** Angles that are written for each step, by the names of their tables. */
  readonly #stepAngles = new Map<string, StepAngles>();

  /** @throws {RangeError} when the kernels cannot run a node's shape. */
  constructor(gpu: GpuContext, options: AttentionOptions) {
    this.#gpu = gpu;
    this.#options = options;
    const { nodes, blockSize, windows = [] } = options;
    const caches = new Map<AttentionNode, LayerCache>();
    this.#caches = [options, ...windows].map(({ numBlocks }, pool) => {
      const ofPool = nodes.filter((node) => this.#getPool(node) === pool);
      const blockBytes = ofPool.map((node) => {
        const { shape } = this.#getParams(node);
        return shape.kvHeads * blockSize * cachedHeadBytes(shape);
      });
      const cache = new WebGpuKvCache(gpu, blockBytes, numBlocks);
      ofPool.forEach((node, i) => caches.set(node, cache.layers[i]!));
      return cache;
    });
    this.#layers = nodes.map((node) => this.#openLayer(node, caches.get(node)!));
  }

  resize(numBlocks: number, pool: number): Promise<boolean> {
    return this.#caches[pool]!.resize(numBlocks);
  }

  #getPool({ localWindow = 0 }: AttentionNode): number {
    return choosePool(localWindow, this.#options.windows);
  }

  begin(step: AttentionStep): void {
    // Recorded commands still read the last step's plan.
    this.#gpu.commands.submit();
    for (const angles of this.#stepAngles.values()) angles.write(step);
    for (const { buffer, pool } of this.#steps.values()) buffer.write(stepInPool(step, pool));
  }

  run(layer: number, tensors: ReadonlyMap<string, Tensor>, output: Tensor | undefined): Tensor {
    const { node } = this.#layers[layer]!;
    const [q, k, v] = [node.q, node.k, node.v].map(({ tensor }) =>
      tensors.get(tensor)!.gpuBuffer as GPUBuffer
    ) as [GPUBuffer, GPUBuffer, GPUBuffer];
    const out = output!.gpuBuffer as GPUBuffer;
    this.#record(this.#layers[layer]!, { q, k, v, out });
    return output!;
  }

  takesLayout(): boolean {
    return true;
  }

  openLayout(layout: OperandLayout, { gammas, angles }: LayoutConstants): RecordAttention {
    const { layer, q, k, v, norms, rotary, scale } = layout;
    const own = this.#layers[layer]!;
    const { node: before } = own;
    const node = {
      ...{ ...before, q, k, v },
      rotary: rotary ?? before.rotary,
      scale: before.scale * scale,
    };
    const kernels = this.#getKernels(
      node,
      norms && {
        epsilon: norms.epsilon,
        ofQueries: norms.q !== undefined,
        ofKeys: norms.k !== undefined,
        ofRows: norms.ofRows,
        isAfterRotation: norms.isAfterRotation,
      },
    );
    const withLayout: Layer = {
      ...own,
      ...kernels,
      gammas: gammas && this.#uploadFactors(gammas),
      angles: rotary && angles ? this.#getAngles(rotary, angles) : own.angles,
    };
    return (buffers) => this.#record(withLayout, buffers);
  }

  #record(layer: Layer, { q, k, v, out }: OperandBuffers): void {
    const { write, attend, cache: { keys: kCache, values: vCache } } = layer;
    const { angles, qOut, gammas, sinks, slopes } = layer;
    const pass = this.#gpu.commands;
    write.encode(pass, { q, k, v, kCache, vCache, angles, qOut, gammas });
    attend.encode(pass, { q: qOut ?? q, kCache, vCache, out, sinks, slopes });
  }

  dispose(): void {
    for (const cache of this.#caches) cache.dispose();
    for (const { buffer } of this.#steps.values()) buffer.dispose();
    for (const { buffer } of this.#stepAngles.values()) buffer.destroy();
    const shared = [...this.#constants.values(), ...this.#queries.values(), ...this.#factors];
    for (const buffer of shared) buffer.destroy();
  }

  #openLayer(node: AttentionNode, cache: LayerCache): Layer {
    const { constants } = this.#options;
    return {
      node,
      cache,
      ...this.#getKernels(node),
      angles: node.rotary && this.#getAngles(node.rotary, {
        cos: constants.get(node.rotary.cos.name)!,
        sin: constants.get(node.rotary.sin.name)!,
      }),
      sinks: node.sinks &&
        this.#getConstant(node.sinks.name, () => constants.get(node.sinks!.name)!),
      slopes: node.slopes &&
        this.#getConstant(`slopes ${node.slopes}`, () => Float32Array.from(node.slopes!)),
    };
  }

  #getParams(node: AttentionNode, norms?: HeadNormParams): KernelParams {
    const { blockSize, isQuantized } = this.#options;
    return toKernelParams(node, { blockSize, elem: toElem(node.dtype), norms, isQuantized });
  }

  #getKernels(node: AttentionNode, norms?: HeadNormParams) {
    const { shape, write, attend } = this.#getParams(node, norms);
    const step = this.#openStep(node, shape);
    const queryBytes = this.#options.maxTokens * shape.heads * shape.headSize *
      elemBytes(shape.elem);
    return {
      write: new KvWrite(this.#gpu, step, write),
      attend: new AttentionKernel(this.#gpu, step, attend),
      qOut: node.rotary || norms?.ofQueries ? this.#getQueries(queryBytes) : undefined,
    };
  }

  #openStep(node: AttentionNode, shape: KernelParams["shape"]): StepBuffer {
    const { localWindow: window } = node;
    const key = JSON.stringify({ shape, window });
    const step = this.#steps.get(key) ?? {
      buffer: new StepBuffer(this.#gpu, shape, { ...this.#options, window }),
      pool: this.#getPool(node),
    };
    this.#steps.set(key, step);
    return step.buffer;
  }

  #getAngles(
    { cos, sin, dim, sections }: Rotary,
    values: NonNullable<LayoutConstants["angles"]>,
  ): GPUBuffer {
    const name = `${cos.name}, ${sin.name}`;
    if (sections === undefined) return this.#getConstant(name, () => joinAngles(values, dim / 2));
    const { maxTokens } = this.#options;
    const angles = this.#stepAngles.get(name) ??
      new StepAngles(this.#gpu, { ...values, sections, maxTokens });
    this.#stepAngles.set(name, angles);
    return angles.buffer;
  }

  #getConstant(name: string, values: () => Float32Array): GPUBuffer {
    const known = this.#constants.get(name);
    if (known) return known;
    const buffer = uploadStorage(this.#gpu, name, values());
    this.#constants.set(name, buffer);
    return buffer;
  }

  #uploadFactors(values: Float32Array): GPUBuffer {
    const usage = GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST;
    const size = Math.ceil(values.byteLength / 16) * 16;
    const buffer = createBuffer(this.#gpu, { label: "head norms", size, usage });
    this.#gpu.device.queue.writeBuffer(buffer, 0, values as Float32Array<ArrayBuffer>);
    this.#factors.push(buffer);
    return buffer;
  }

  #getQueries(bytes: number): GPUBuffer {
    const buffer = this.#queries.get(bytes) ?? createStorage(this.#gpu, "rotated queries", bytes);
    this.#queries.set(bytes, buffer);
    return buffer;
  }
}

/**
 * The rotation angles of a step's tokens if a token has several positions. The rows of angles are assembled on the
 * host. The constructor allocates all memory.
 */
class StepAngles {
  /** Cosines, then sines, of each token: f32 `[maxTokens, 2, width]`. */
  readonly buffer: GPUBuffer;
  readonly #gpu: GpuContext;
  readonly #tables: readonly [cos: Float32Array, sin: Float32Array];
  readonly #sections: readonly number[];
  readonly #rows: Float32Array<ArrayBuffer>;

  /**
   * @param options.cos f32 `[positions, width]`, like `sin`.
   * @param options.sections for each element of a row, which of a token's positions it depends on.
   */
  constructor(gpu: GpuContext, { cos, sin, sections, maxTokens }: {
    readonly cos: Float32Array;
    readonly sin: Float32Array;
    readonly sections: readonly number[];
    readonly maxTokens: number;
  }) {
    this.#gpu = gpu;
    this.#tables = [cos, sin];
    this.#sections = sections;
    this.#rows = new Float32Array(maxTokens * 2 * sections.length);
    this.buffer = createBuffer(gpu, {
      label: "angles of a step",
      size: this.#rows.byteLength,
      usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST,
    });
  }

  /** Writes a step's rows to the device, before anything that is submitted later. */
  write(
    { numTokens, positions, anglePositions = positions, sectionPositions }: AttentionStep,
  ): void {
    const width = this.#sections.length;
    const last = this.#tables[0].length / width - 1;
    let end = 0;
    for (let token = 0; token < numTokens; token++) {
      for (const table of this.#tables) {
        for (let i = 0; i < width; i++) {
          const own = sectionPositions?.[this.#sections[i]!] ?? anglePositions;
          this.#rows[end++] = table[Math.min(own[token]!, last) * width + i]!;
        }
      }
    }
    this.#gpu.device.queue.writeBuffer(this.buffer, 0, this.#rows, 0, end);
  }
}
