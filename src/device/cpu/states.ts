/**
 * Recurrent states of sequences on the CPU, in WebAssembly.
 *
 * @module
 */
import type { KernelThreads } from "../../../kernels/cpu/kernel_threads.ts";
import { convFactors } from "../../../kernels/states/causal_conv.ts";
import { listRanges, type StateRange, type StateStep } from "../../../kernels/states/state_step.ts";
import {
  type SimdRecurrence,
  SimdStates,
  type StateArrays,
} from "../../../kernels/states/states_simd.ts";
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
import { makeTensor } from "./tensors.ts";

/** Most bytes of states in one memory. With everything else in it, that is less than a WebAssembly memory can hold. */
const MEMORY_BYTES = 3 * 2 ** 30;

/** Names of a node's operands, by the kernels' names for them. */
type OperandNames = Readonly<Partial<Record<Exclude<keyof StateArrays, "out">, string>>>;

/** Allocates the memory of the states when it is constructed. */
export class CpuStates implements SequenceStates {
  readonly #nodes: readonly RecurrenceNode[];
  readonly #names: readonly OperandNames[];
  readonly #memories: readonly SimdStates[];
  /** For each node, its memory and its index in that memory. */
  readonly #locations: readonly (readonly [memory: SimdStates, index: number])[];
  #ranges: readonly StateRange[] = [];

  /**
   * @throws {RangeError} when the kernels cannot run a node's shape.
   * @throws {StartupError} when there is not enough memory.
   */
  constructor(
    { nodes, numSlots, maxSequences, constants }: StatesOptions,
    threads: KernelThreads,
  ) {
    this.#nodes = nodes;
    this.#names = nodes.map(listNames);
    const groups = divideNodes(nodes, numSlots);
    this.#memories = groups.map((group) => {
      const simdNodes = group.map((node) => toSimdRecurrence(node, constants));
      return new SimdStates(simdNodes, { numSlots, maxSequences, threads });
    });
    this.#locations = groups.flatMap((group, i) =>
      group.map((_, index) => [this.#memories[i]!, index] as const)
    );
  }

  begin(step: StateStep & { readonly stateCopies?: readonly StateCopy[] | undefined }): void {
    for (const { from, to } of step.stateCopies ?? []) {
      for (const states of this.#memories) states.copy(from, to);
    }
    this.#ranges = listRanges(step);
  }

  run(index: number, tensors: ReadonlyMap<string, Tensor>, output: Tensor | undefined): Tensor {
    const out = output ?? this.#makeOutput(this.#nodes[index]!);
    const operands = Object.entries(this.#names[index]!).map(([role, name]) =>
      [role, tensors.get(name)!.data] as const
    );
    const arrays = { ...Object.fromEntries(operands), out: out.data } as unknown as StateArrays;
    const [states, number] = this.#locations[index]!;
    states.run(number, arrays, this.#ranges);
    return out;
  }

  dispose(): void {
    for (const states of this.#memories) states.dispose();
  }

  #makeOutput({ dtype, output: { shape } }: RecurrenceNode): Tensor {
    const numTokens = this.#ranges.at(-1)?.end ?? 0;
    const dims = shape.map((size) => typeof size === "number" ? size : numTokens);
    return makeTensor(dtype, dims);
  }
}

/** Divides the nodes, in order, among memories that their states fit in. */
function divideNodes(nodes: readonly RecurrenceNode[], numSlots: number): RecurrenceNode[][] {
  const groups: RecurrenceNode[][] = [];
  let bytes = Infinity;
  for (const node of nodes) {
    const own = numSlots * stateSize(node) * Float32Array.BYTES_PER_ELEMENT;
    if (bytes + own > MEMORY_BYTES) {
      groups.push([]);
      bytes = 0;
    }
    groups.at(-1)!.push(node);
    bytes += own;
  }
  return groups;
}

function listNames(node: RecurrenceNode): OperandNames {
  const { recurrence, operands } = node;
  if (recurrence.kind === "convolution") return { x: operands[0]!.tensor };
  const { decaysName, betasName } = linearParams(node, recurrence);
  const [q, k, v] = operands.map(({ tensor }) => tensor) as [string, string, string];
  return {
    ...{ q, k, v },
    ...decaysName === undefined ? {} : { decays: decaysName },
    ...betasName === undefined ? {} : { betas: betasName },
  };
}

function toSimdRecurrence(
  node: RecurrenceNode,
  constants: StatesOptions["constants"],
): SimdRecurrence {
  const { recurrence } = node;
  if (recurrence.kind !== "convolution") {
    const { decaysName: _decays, betasName: _betas, ...params } = linearParams(node, recurrence);
    return { kind: "attention", params };
  }
  const { weights, bias } = recurrence;
  const factors = convFactors({
    weights: constants.get(weights.name)!,
    bias: bias && constants.get(bias.name)!,
  }, recurrence);
  return { kind: "convolution", params: convParams(node, recurrence), factors };
}
