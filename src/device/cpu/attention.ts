/**
 * Paged attention on the CPU: the SIMD kernels, which read ONNX Runtime's tensors, and for prompts the native ONNX
 * Runtime.
 *
 * @module
 */
import { SimdAttention, type SimdLayer } from "../../../kernels/attention/attention_simd.ts";
import type { KernelThreads } from "../../../kernels/cpu/kernel_threads.ts";
import { choosePool } from "../../../kernels/attention/attention_shape.ts";
import { type PackedStep, sliceStep, stepInPool } from "../../../kernels/attention/step_plan.ts";
import type { AttentionNode } from "../../graph/graph_cut.ts";
import type { Tensor } from "../ort/ort.ts";
import {
  type AttentionOptions,
  type KernelParams,
  type PagedAttention,
  type Slices,
  toKernelParams,
} from "../attention.ts";
import { type OpenSession, PromptAttention } from "./prompt_attention.ts";
import { copyOperands, isPacked, makeTensor, viewElements } from "./tensors.ts";

/**
 * Minimum number of rows that are worth a separate part of the work: all rows of a part share one pass over the keys.
 */
const LEAST_ROWS = 24;

/** Optional help for the kernels. */
interface CpuAttentionHelp {
  readonly threads?: KernelThreads | undefined;
  /** Opens a graph on a runtime that is faster than the kernels for prompts, if there is one. */
  readonly openSession?: OpenSession | undefined;
}

/** Allocates the memory of the cache when it is constructed or resized. */
export class CpuAttention implements PagedAttention {
  readonly #nodes: readonly AttentionNode[];
  readonly #windows: AttentionOptions["windows"];
  readonly #prompts: PromptAttention | undefined;
  #kernels: SimdAttention | undefined;
  #step: PackedStep | undefined;
  /** Sequences that {@linkcode PromptAttention} handles. */
  #prompted: readonly number[] = [];

  /**
   * @throws {RangeError} when the kernels cannot run a node's shape.
   * @throws {StartupError} when there is not enough memory.
   */
  constructor(options: AttentionOptions, { threads, openSession }: CpuAttentionHelp = {}) {
    this.#nodes = options.nodes;
    this.#windows = options.windows;
    const layers = options.nodes.map((node) => describeLayer(node, options));
    this.#kernels = new SimdAttention(layers, { ...options, threads });
    if (openSession !== undefined && PromptAttention.canRun(layers)) {
      this.#prompts = new PromptAttention(layers, openSession);
    }
  }

  resize(numBlocks: number, pool: number): Promise<boolean> {
    return Promise.resolve(this.#kernels!.resize(numBlocks, pool));
  }

  begin(step: PackedStep): void {
    this.#prompted = this.#prompts ? PromptAttention.choose(step) : [];
    this.#kernels!.begin(step, this.#prompted);
    this.#step = step;
  }

  run(
    layer: number,
    tensors: ReadonlyMap<string, Tensor>,
    output?: Tensor,
    slices?: Slices,
  ): Tensor | Promise<Tensor> {
    const node = this.#nodes[layer]!;
    const kernels = this.#kernels!;
    const { dtype, heads, vHeadDim } = node;
    const out = output ?? makeTensor(dtype, [1, this.#step!.numTokens, heads * vHeadDim]);
    if (this.#prompted.length === 0 && slices?.divides) {
      return this.#runRows(layer, { tensors, out, slices });
    }
    copyOperands(node, tensors, kernels.inputs(layer));
    kernels.write(layer);
    if (this.#prompted.length > 0) return this.#runPrompts(layer, out, slices);
    // A copy, since ONNX Runtime takes no shared memory.
    viewElements(out).set(kernels.attend(layer));
    return out;
  }

  /** Attends for a part of the rows at a time. The keys of earlier rows are then in the cache. */
  async #runRows(
    layer: number,
    { tensors, out, slices }: {
      readonly tensors: ReadonlyMap<string, Tensor>;
      readonly out: Tensor;
      readonly slices: Slices;
    },
  ): Promise<Tensor> {
    const kernels = this.#kernels!;
    const step = this.#step!;
    const elements = viewElements(out);
    const width = elements.length / step.numTokens;
    const weight = Math.max(...step.kvLengths.subarray(0, step.sequences.length));
    const work = { key: this, length: step.numTokens, least: LEAST_ROWS, weight };
    await slices.divide(work, (first, end) => {
      kernels.begin(sliceStep(step, first, end));
      copyOperands(this.#nodes[layer]!, tensors, kernels.inputs(layer), [first, end]);
      kernels.write(layer);
      elements.set(kernels.attend(layer), first * width);
    });
    return out;
  }

  async #runPrompts(layer: number, out: Tensor, slices?: Slices): Promise<Tensor> {
    const kernels = this.#kernels!;
    const pool = choosePool(this.#nodes[layer]!.localWindow ?? 0, this.#windows);
    const step = stepInPool(this.#step!, pool);
    const sequences = this.#prompted;
    const into = viewElements(out);
    if (sequences.length < step.sequences.length) into.set(kernels.attend(layer));
    await this.#prompts!.run(layer, { kernels, step, sequences, into, slices });
    return out;
  }

  /** The garbage collector frees the memory. */
  dispose(): void {
    this.#kernels?.dispose();
    this.#prompts?.dispose();
    this.#kernels = undefined;
  }
}

function describeLayer(
  node: AttentionNode,
  { blockSize, isQuantized, constants }: AttentionOptions,
): SimdLayer & KernelParams {
  const params = toKernelParams(node, { blockSize, elem: "f32", isQuantized });
  return {
    ...params,
    isPacked: isPacked(node),
    rotary: node.rotary && {
      cos: constants.get(node.rotary.cos.name)!,
      sin: constants.get(node.rotary.sin.name)!,
    },
    sinks: node.sinks && constants.get(node.sinks.name)!,
    slopes: node.slopes && Float32Array.from(node.slopes),
  };
}
