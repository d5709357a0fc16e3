/**
 * Recurrences and mixtures of experts on the CPU, in WebAssembly. A WebAssembly memory holds at most 4 GiB, so the
 * nodes are divided among several.
 *
 * @module
 */
import type { KernelThreads } from "../../../kernels/cpu/kernel_threads.ts";
import { joinConvFactors } from "../../../kernels/states/recurrences.ts";
import { listRanges, type StateRange, type StateStep } from "../../../kernels/states/state_step.ts";
import {
  type SimdRecurrence,
  SimdStates,
  type StateArrays,
} from "../../../kernels/states/states_simd.ts";
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
import { makeTensor, viewElements } from "./tensors.ts";
import { countLayerBytes, type ExpertLayer } from "../../../kernels/experts/experts_memory.ts";
import { SimdExperts } from "../../../kernels/experts/experts_simd.ts";
import type { ModelFiles } from "../../graph/file/external_data.ts";
import { readFloats, readRange, readStoredBytes } from "../../graph/file/stored_range.ts";
import type { ExpertWeights } from "../../graph/experts/mixture.ts";

/**
 * Maximum number of bytes of states in one memory. Together with everything else in the memory, this is less than a
 * WebAssembly memory can hold.
 */
const MAX_STATE_BYTES = 3 * 2 ** 30;

/** Names of a node's operands, by the kernels' names for them. */
type OperandNames = Readonly<Partial<Record<Exclude<keyof StateArrays, "out">, string>>>;

/** Runs recurrences. It allocates the memory of the states when it is constructed. */
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
    if (bytes + own > MAX_STATE_BYTES) {
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
  const { decaysName, betasName } = toLinearParams(node, recurrence);
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
    const { decaysName: _decays, betasName: _betas, ...params } = toLinearParams(node, recurrence);
    return { kind: "attention", params };
  }
  const { weights, bias } = recurrence;
  const factors = joinConvFactors({
    weights: constants.get(weights.name)!,
    bias: bias && constants.get(bias.name)!,
  }, recurrence);
  return { kind: "convolution", params: toConvParams(node, recurrence), factors };
}

/** Maximum number of bytes of weights in one memory. Everything else in the memory needs far less than what is left. */
const MAX_WEIGHT_BYTES = 3.5 * 2 ** 30;

/** A layer, and the memory that holds it. */
interface Placed {
  readonly memory: SimdExperts;
  readonly layer: number;
}

/** Runs mixtures of experts. */
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
      // Only the layers of one memory are described at a time: their constants can be freed once the weights of that
      // memory are read.
      const layers: ExpertLayer[] = [];
      let bytes = 0;
      for (const node of options.nodes.slice(from)) {
        const layer = await describeLayer(node, options);
        bytes += countLayerBytes(layer);
        if (layers.length > 0 && bytes > MAX_WEIGHT_BYTES) break;
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
