/**
 * Recurrences and mixtures of experts on a GPU: `causal_conv`, `linear_attention` and `experts`, recorded node by node.
 *
 * @module
 */
import {
  CausalConv,
  joinConvFactors,
  LinearAttentionKernel,
} from "../../../kernels/states/recurrences.ts";
import { type StateStep, StateStepBuffer } from "../../../kernels/states/state_step.ts";
import { createStorage, type GpuContext, uploadStorage } from "../../gpu/device.ts";
import type { ExpertsNode, RecurrenceNode } from "../../graph/graph_cut.ts";
import type { Tensor } from "../ort/ort.ts";
import {
  type ExpertLayers,
  type ExpertsOptions,
  type ExpertsRun,
  type SequenceStates,
  type StateCopy,
  stateSize,
  type StatesOptions,
  toConvParams,
  toExpertParams,
  toLinearParams,
} from "../kernel_nodes.ts";
import {
  type ExpertBuffers,
  Experts,
  ExpertsScratch,
  type ExpertsTensors,
} from "../../../kernels/experts/experts.ts";
import { type ExpertWeights, findWeights } from "../../graph/experts/mixture.ts";
import { readFloats } from "../../graph/file/stored_range.ts";
import type { StoredTensor } from "../../graph/file/tensor.ts";
import type { DeviceWeights } from "../device_weights.ts";

/** Records one recurrence node. */
type Recorder = (tensors: ReadonlyMap<string, Tensor>, out: GPUBuffer) => void;

/** Runs recurrences. It allocates all its memory when it is constructed. */
export class WebGpuStates implements SequenceStates {
  readonly #gpu: GpuContext;
  readonly #options: StatesOptions;
  readonly #step: StateStepBuffer;
  readonly #states: readonly GPUBuffer[];
  readonly #constants: GPUBuffer[] = [];
  /** Temporary buffer for a state that is copied between slots. */
  readonly #between: GPUBuffer;
  readonly #recorders: readonly Recorder[];

  /** @throws {RangeError} when the kernels cannot run a node's shape. */
  constructor(gpu: GpuContext, options: StatesOptions) {
    this.#gpu = gpu;
    this.#options = options;
    this.#step = new StateStepBuffer(gpu, options.maxSequences);
    this.#states = options.nodes.map((node) =>
      this.#createBuffer(`state of ${node.name}`, options.numSlots * stateSize(node))
    );
    this.#between = this.#createBuffer(
      "state being copied",
      Math.max(...options.nodes.map((node) => stateSize(node))),
    );
    this.#recorders = options.nodes.map((node, i) => this.#open(node, this.#states[i]!));
  }

  begin(step: StateStep & { readonly stateCopies?: readonly StateCopy[] | undefined }): void {
    // Recorded commands still read the last step's sequences, and write the states.
    this.#gpu.commands.submit();
    this.#copy(step.stateCopies ?? []);
    this.#step.write(step);
  }

  run(index: number, tensors: ReadonlyMap<string, Tensor>, output: Tensor | undefined): Tensor {
    this.#recorders[index]!(tensors, output!.gpuBuffer as GPUBuffer);
    return output!;
  }

  dispose(): void {
    this.#step.dispose();
    for (const buffer of [...this.#states, ...this.#constants, this.#between]) buffer.destroy();
  }

  #copy(copies: readonly StateCopy[]): void {
    if (copies.length === 0) return;
    const encoder = this.#gpu.device.createCommandEncoder();
    for (const { from, to } of copies) {
      this.#options.nodes.forEach((node, i) => {
        const size = stateSize(node) * Float32Array.BYTES_PER_ELEMENT;
        if (size === 0) return;
        const state = this.#states[i]!;
        // Copies within one buffer are not allowed, hence the temporary buffer.
        encoder.copyBufferToBuffer(state, from * size, this.#between, 0, size);
        encoder.copyBufferToBuffer(this.#between, 0, state, to * size, size);
      });
    }
    this.#gpu.commands.submit(encoder);
  }

  #open(node: RecurrenceNode, state: GPUBuffer): Recorder {
    const { recurrence, operands } = node;
    const pass = this.#gpu.commands;
    const getBuffer = (tensors: ReadonlyMap<string, Tensor>, name: string) =>
      tensors.get(name)!.gpuBuffer as GPUBuffer;
    if (recurrence.kind === "convolution") {
      const kernel = new CausalConv(this.#gpu, this.#step, toConvParams(node, recurrence));
      const { constants } = this.#options;
      const { weights, bias } = recurrence;
      const factors = this.#upload(joinConvFactors({
        weights: constants.get(weights.name)!,
        bias: bias && constants.get(bias.name)!,
      }, recurrence));
      const [{ tensor }] = operands as [RecurrenceNode["operands"][number]];
      return (tensors, out) =>
        kernel.encode(pass, { x: getBuffer(tensors, tensor), factors, state, out });
    }
    const { decaysName, betasName, ...params } = toLinearParams(node, recurrence);
    const kernel = new LinearAttentionKernel(this.#gpu, this.#step, params);
    const [q, k, v] = operands.map(({ tensor }) => tensor) as [string, string, string];
    return (tensors, out) => {
      const of = (name: string) => getBuffer(tensors, name);
      kernel.encode(pass, {
        ...{ q: of(q), k: of(k), v: of(v), state, out },
        decays: decaysName === undefined ? undefined : of(decaysName),
        betas: betasName === undefined ? undefined : of(betasName),
      });
    };
  }

  #upload(values: Float32Array<ArrayBuffer>): GPUBuffer {
    const buffer = uploadStorage(this.#gpu, "factors of a convolution", values);
    this.#constants.push(buffer);
    return buffer;
  }

  #createBuffer(label: string, numFloats: number): GPUBuffer {
    return createStorage(this.#gpu, label, numFloats * Float32Array.BYTES_PER_ELEMENT);
  }
}

/** A mixture of experts with its kernels and constants. */
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
