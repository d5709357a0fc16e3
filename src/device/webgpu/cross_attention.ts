/**
 * Cross-attention on a GPU: `kv_write` once per input, `paged_attention` once per node and step.
 *
 * @module
 */
import { KvWrite } from "../../../kernels/attention/kv_write.ts";
import { PagedAttention as AttentionKernel } from "../../../kernels/attention/paged_attention.ts";
import { StepBuffer } from "../../../kernels/attention/step_buffer.ts";
import { createStorage, type GpuContext } from "../../gpu/device.ts";
import { elemBytes } from "../../gpu/kernel.ts";
import type { AttentionNode } from "../../graph/graph_cut.ts";
import type { Tensor } from "../ort/ort.ts";
import type { KernelParams } from "../attention_params.ts";
import type { CrossAlignment, CrossAlignmentOptions } from "../cross_alignment.ts";
import {
  blocksPerSlot,
  type CrossAttention,
  type CrossAttentionOptions,
  type CrossTensors,
  POSITIONS_PER_BLOCK,
  stepOfPositions,
  stepOfTokens,
  toCrossParams,
} from "../cross_attention.ts";
import { WebGpuCrossAlignment } from "./cross_alignment.ts";

interface Layer {
  readonly node: AttentionNode;
  readonly params: KernelParams;
  /** The step that writes one input. */
  readonly writeStep: StepBuffer;
  readonly write: KvWrite;
  readonly attend: AttentionKernel;
  readonly kCache: GPUBuffer;
  readonly vCache: GPUBuffer;
}

interface Steps {
  readonly write: StepBuffer;
  readonly attend: StepBuffer;
}

/** Allocates all its memory when it is constructed. */
export class WebGpuCrossAttention implements CrossAttention {
  readonly #gpu: GpuContext;
  readonly #options: CrossAttentionOptions;
  readonly #layers: readonly Layer[];
  /** Number of positions in each slot. */
  readonly #lengths: Int32Array;
  /** Steps by shape: nodes with the same shape share plans of the steps. */
  readonly #steps = new Map<string, Steps>();

  /** @throws {RangeError} when the kernels cannot run a node's shape. */
  constructor(gpu: GpuContext, options: CrossAttentionOptions) {
    this.#gpu = gpu;
    this.#options = options;
    this.#lengths = new Int32Array(options.numSlots);
    this.#layers = options.nodes.map((node) => this.#openLayer(node));
  }

  keep(layer: number, { keys, values }: CrossTensors, slots: readonly number[]): void {
    const { writeStep, write, kCache, vCache } = this.#layers[layer]!;
    const numBlocks = blocksPerSlot(this.#options.numPositions);
    const numPositions = keys.dims[1]!;
    for (const slot of slots) this.#lengths[slot] = numPositions;
    const [k, v] = [keys.gpuBuffer as GPUBuffer, values.gpuBuffer as GPUBuffer];
    writeStep.write(stepOfPositions(slots, { first: 0, numPositions, numBlocks }));
    write.encode(this.#gpu.commands, { q: k, k, v, kCache, vCache });
    this.#gpu.commands.submit();
  }

  begin(slots: readonly number[]): void {
    // Recorded commands still read the last step's plan.
    this.#gpu.commands.submit();
    const numBlocks = blocksPerSlot(this.#options.numPositions);
    const step = stepOfTokens(slots, { lengths: this.#lengths, numBlocks });
    for (const { attend } of this.#steps.values()) attend.write(step);
  }

  run(layer: number, tensors: ReadonlyMap<string, Tensor>, output: Tensor | undefined): Tensor {
    const { node, attend, kCache, vCache } = this.#layers[layer]!;
    const q = tensors.get(node.q.tensor)!.gpuBuffer as GPUBuffer;
    const out = output!.gpuBuffer as GPUBuffer;
    attend.encode(this.#gpu.commands, { q, kCache, vCache, out });
    return output!;
  }

  openAlignment(options: CrossAlignmentOptions): CrossAlignment {
    const { numPositions } = this.#options;
    return new WebGpuCrossAlignment(this.#gpu, options, { kept: this.#layers, numPositions });
  }

  dispose(): void {
    for (const { kCache, vCache } of this.#layers) {
      kCache.destroy();
      vCache.destroy();
    }
    for (const { write, attend } of this.#steps.values()) {
      write.dispose();
      attend.dispose();
    }
  }

  #openLayer(node: AttentionNode): Layer {
    const { numPositions, numSlots } = this.#options;
    const elem = node.dtype === "float16" ? "f16" : "f32";
    const params = toCrossParams(node, elem);
    const steps = this.#getSteps(params);
    const numRows = numSlots * blocksPerSlot(numPositions) * POSITIONS_PER_BLOCK;
    const size = numRows * node.kvHeads * node.headDim * elemBytes(elem);
    return {
      node,
      params,
      writeStep: steps.write,
      write: new KvWrite(this.#gpu, steps.write, params.write),
      attend: new AttentionKernel(this.#gpu, steps.attend, params.attend),
      kCache: createStorage(this.#gpu, "encoder's keys", size),
      vCache: createStorage(this.#gpu, "encoder's values", size),
    };
  }

  #getSteps({ shape }: KernelParams): Steps {
    const { numPositions, maxInputs, maxTokens } = this.#options;
    const key = JSON.stringify(shape);
    const maxBlocksPerSequence = blocksPerSlot(numPositions);
    const open = (limits: { readonly maxTokens: number; readonly maxSequences: number }) =>
      new StepBuffer(this.#gpu, shape, { ...limits, maxBlocksPerSequence });
    const steps = this.#steps.get(key) ?? {
      write: open({ maxTokens: maxInputs * numPositions, maxSequences: maxInputs }),
      attend: open({ maxTokens, maxSequences: maxTokens }),
    };
    this.#steps.set(key, steps);
    return steps;
  }
}
