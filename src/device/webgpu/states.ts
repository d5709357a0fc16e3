/**
 * Recurrent states of sequences on a GPU: `causal_conv` and `linear_attention`, recorded node by node.
 *
 * @module
 */
import { CausalConv, convFactors } from "../../../kernels/states/causal_conv.ts";
import { LinearAttentionKernel } from "../../../kernels/states/linear_attention.ts";
import { type StateStep, StateStepBuffer } from "../../../kernels/states/state_step.ts";
import { createStorage, type GpuContext, uploadStorage } from "../../gpu/device.ts";
import type { RecurrenceNode } from "../../graph/graph_cut.ts";
import type { Tensor } from "../ort/ort.ts";
import {
  convParams,
  linearParams,
  type SequenceStates,
  type StateCopy,
  stateSize,
  type StatesOptions,
} from "../sequence_states.ts";

/** Records one recurrence node. */
type Recorder = (tensors: ReadonlyMap<string, Tensor>, out: GPUBuffer) => void;

/** Allocates all its memory when it is constructed. */
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
      "state on its way",
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
      const kernel = new CausalConv(this.#gpu, this.#step, convParams(node, recurrence));
      const { constants } = this.#options;
      const { weights, bias } = recurrence;
      const factors = this.#upload(convFactors({
        weights: constants.get(weights.name)!,
        bias: bias && constants.get(bias.name)!,
      }, recurrence));
      const [{ tensor }] = operands as [RecurrenceNode["operands"][number]];
      return (tensors, out) =>
        kernel.encode(pass, { x: getBuffer(tensors, tensor), factors, state, out });
    }
    const { decaysName, betasName, ...params } = linearParams(node, recurrence);
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
