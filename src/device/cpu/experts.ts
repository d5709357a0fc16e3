/**
 * Mixtures of experts on the CPU. Their weights are in WebAssembly memories of at most 4 GiB each.
 *
 * @module
 */
import { type ExpertLayer, layerBytes } from "../../../kernels/experts/experts_memory.ts";
import { SimdExperts } from "../../../kernels/experts/experts_simd.ts";
import type { KernelThreads } from "../../../kernels/cpu/kernel_threads.ts";
import type { ModelFiles } from "../../graph/file/external_data.ts";
import { readFloats, readRange, readStoredBytes } from "../../graph/file/stored_range.ts";
import type { ExpertWeights } from "../../graph/experts/mixture.ts";
import type { ExpertsNode } from "../../graph/graph_cut.ts";
import {
  type ExpertLayers,
  type ExpertsOptions,
  type ExpertsRun,
  toExpertParams,
} from "../experts.ts";
import type { Tensor } from "../ort/ort.ts";
import { makeTensor, viewElements } from "./tensors.ts";

/** Most weights of layers that share a memory. Everything else in the memory needs far less than what is left. */
const MAX_MEMORY_BYTES = 3.5 * 2 ** 30;

/** A layer, and the memory that holds it. */
interface Placed {
  readonly memory: SimdExperts;
  readonly layer: number;
}

export class CpuExperts implements ExpertLayers {
  readonly isExact = true;
  readonly #nodes: readonly ExpertsNode[];
  readonly #placed: readonly Placed[];
  readonly #memories: readonly SimdExperts[];

  private constructor(
    nodes: readonly ExpertsNode[],
    placed: readonly Placed[],
    memories: readonly SimdExperts[],
  ) {
    this.#nodes = nodes;
    this.#placed = placed;
    this.#memories = memories;
  }

  /**
   * Reads the weights.
   *
   * @throws {StartupError} when there is not enough memory.
   */
  static async open(options: ExpertsOptions, threads: KernelThreads): Promise<CpuExperts> {
    threads.start();
    using opening = new DisposableStack();
    const placed: Placed[] = [];
    const memories: SimdExperts[] = [];
    for (let from = 0; from < options.nodes.length;) {
      // Constants of layers that are in memory already are not held any longer.
      const layers: ExpertLayer[] = [];
      let bytes = 0;
      for (const node of options.nodes.slice(from)) {
        const layer = await describeLayer(node, options);
        bytes += layerBytes(layer);
        if (layers.length > 0 && bytes > MAX_MEMORY_BYTES) break;
        layers.push(layer);
      }
      const memory = await SimdExperts.open(threads, layers);
      opening.defer(() => memory.dispose());
      memories.push(memory);
      layers.forEach((_, layer) => placed.push({ memory, layer }));
      from += layers.length;
    }
    opening.move();
    return new CpuExperts(options.nodes, placed, memories);
  }

  run(index: number, { tensors, output, firstRow, numRows }: ExpertsRun): Tensor {
    const { operands, dtype, output: port } = this.#nodes[index]!;
    const dims = port.shape.map((size) => typeof size === "number" ? size : numRows);
    const result = output ?? makeTensor(dtype, dims);
    const viewRows = (tensor: Tensor) =>
      viewElements(tensor).subarray(firstRow * tensor.dims.at(-1)!) as Float32Array;
    const [x, logits] = operands.map(({ tensor }) => viewRows(tensors.get(tensor)!)) as [
      Float32Array,
      Float32Array,
    ];
    const { memory, layer } = this.#placed[index]!;
    memory.run(layer, { x, logits, out: viewRows(result), numRows });
    return result;
  }

  dispose(): void {
    for (const memory of this.#memories) memory.dispose();
  }
}

async function describeLayer(
  node: ExpertsNode,
  { files }: ExpertsOptions,
): Promise<ExpertLayer> {
  const { mixture: { router, first, second } } = node;
  return {
    params: toExpertParams(node),
    routerBias: router.bias && await readFloats(router.bias, files),
    first: await makeSource(first, files),
    second: await makeSource(second, files),
  };
}

async function makeSource(
  { weights, scales, zeroPoints, bias }: ExpertWeights,
  files: ModelFiles,
): Promise<ExpertLayer["first"]> {
  const scratch = { bytes: new Uint8Array(0) };
  return {
    weights: (offset, into) => readRange(weights, { files, offset, scratch }, into),
    isHalf: weights.dtype === "float16",
    scales: scales && await readFloats(scales, files),
    zeroPoints: zeroPoints && await readStoredBytes(zeroPoints, files),
    bias: bias && await readFloats(bias, files),
  };
}
