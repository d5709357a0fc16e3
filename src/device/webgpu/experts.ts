/**
 * Mixtures of experts on a GPU, recorded node by node.
 *
 * @module
 */
import {
  type ExpertBuffers,
  Experts,
  ExpertsScratch,
  type ExpertsTensors,
} from "../../../kernels/experts/experts.ts";
import { type ExpertWeights, findWeights } from "../../graph/experts/mixture.ts";
import { readFloats } from "../../graph/file/stored_range.ts";
import type { StoredTensor } from "../../graph/file/tensor.ts";
import type { ExpertsNode } from "../../graph/graph_cut.ts";
import { type GpuContext, uploadStorage } from "../../gpu/device.ts";
import type { DeviceWeights } from "../device_weights.ts";
import {
  type ExpertLayers,
  type ExpertsOptions,
  type ExpertsRun,
  toExpertParams,
} from "../experts.ts";
import type { Tensor } from "../ort/ort.ts";

/** The kernels and constants of a node. */
interface Layer {
  readonly node: ExpertsNode;
  readonly kernels: Experts;
  readonly constants: Pick<ExpertsTensors, "first" | "second" | "routerBias">;
}

/** Runs mixtures of experts. The caller owns the weights. */
export class WebGpuExperts implements ExpertLayers {
  readonly isExact = false;
  readonly #gpu: GpuContext;
  readonly #scratch: ExpertsScratch;
  readonly #layers: readonly Layer[];

  private constructor(gpu: GpuContext, scratch: ExpertsScratch, layers: readonly Layer[]) {
    this.#gpu = gpu;
    this.#scratch = scratch;
    this.#layers = layers;
  }

  /**
   * Uploads the weights and prepares the kernels.
   *
   * @throws {StartupError} when the device has no room for the weights.
   */
  static async open(gpu: GpuContext, options: ExpertsOptions): Promise<WebGpuExperts> {
    const { nodes, maxTokens, weights, files } = options;
    await weights!.upload(nodes.flatMap(({ mixture }) => findWeights(mixture)));
    const all = nodes.map(toExpertParams);
    const biases = await Promise.all(
      nodes.map(async ({ mixture: { router: { bias } } }) => bias && await readFloats(bias, files)),
    );
    const scratch = new ExpertsScratch(gpu, all, maxTokens);
    const layers = nodes.map((node, i): Layer => ({
      node,
      kernels: new Experts(gpu, scratch, all[i]!),
      constants: {
        first: getBuffers(weights!, node.mixture.first),
        second: getBuffers(weights!, node.mixture.second),
        routerBias: biases[i] && uploadStorage(gpu, "bias of a router", biases[i]),
      },
    }));
    return new WebGpuExperts(gpu, scratch, layers);
  }

  run(index: number, { tensors, output, numRows, lowering }: ExpertsRun): Tensor {
    const { node: { operands }, kernels, constants } = this.#layers[index]!;
    const [x, logits] = operands.map(({ tensor }) =>
      tensors.get(tensor)!.gpuBuffer as GPUBuffer
    ) as [
      GPUBuffer,
      GPUBuffer,
    ];
    const out = output!.gpuBuffer as GPUBuffer;
    const isFew = lowering === "few";
    kernels.encode(this.#gpu.commands, { x, logits, ...constants, out }, { numRows, isFew });
    return output!;
  }

  dispose(): void {
    this.#scratch.dispose();
    for (const { constants } of this.#layers) constants.routerBias?.destroy();
  }
}

function getBuffers(
  weights: DeviceWeights,
  { scales, zeroPoints, bias, ...matrix }: ExpertWeights,
): ExpertBuffers {
  const getBuffer = (tensor: StoredTensor | undefined) =>
    tensor && weights.get(tensor.name)!.buffer;
  return {
    weights: getBuffer(matrix.weights)!,
    scales: getBuffer(scales),
    zeroPoints: getBuffer(zeroPoints),
    bias: getBuffer(bias),
  };
}
