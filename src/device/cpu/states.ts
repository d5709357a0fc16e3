/**
 * States of sequences on the CPU, in WebAssembly.
 *
 * @module
 */
import type { KernelThreads } from "../../../kernels/cpu/kernel_threads.ts";
import { convFactors } from "../../../kernels/states/causal_conv.ts";
import { listRanges, type StateRange, type StateStep } from "../../../kernels/states/state_step.ts";
import {
  type SimdSite,
  SimdStates,
  type StateArrays,
} from "../../../kernels/states/states_simd.ts";
import type { StateSite } from "../../graph/graph_cut.ts";
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

/** Bytes of the states in one memory: with its other contents less than a memory of WebAssembly may hold. */
const MEMORY_BYTES = 3 * 2 ** 30;

/** A site's operands by the kernels' names. */
type OperandNames = Readonly<Partial<Record<Exclude<keyof StateArrays, "out">, string>>>;

/** The memory of the states is allocated when it is made. */
export class CpuStates implements SequenceStates {
  readonly #sites: readonly StateSite[];
  readonly #names: readonly OperandNames[];
  readonly #memories: readonly SimdStates[];
  /** Of each site its memory, and its number there. */
  readonly #places: readonly (readonly [memory: SimdStates, index: number])[];
  #ranges: readonly StateRange[] = [];

  /**
   * @throws {RangeError} when the kernels cannot run a site's shape.
   * @throws {StartupError} when there is not enough memory.
   */
  constructor(
    { sites, numSlots, maxSequences, constants }: StatesOptions,
    threads: KernelThreads,
  ) {
    this.#sites = sites;
    this.#names = sites.map(listNames);
    const groups = divideSites(sites, numSlots);
    this.#memories = groups.map((group) => {
      const simdSites = group.map((site) => toSimdSite(site, constants));
      return new SimdStates(simdSites, { numSlots, maxSequences, threads });
    });
    this.#places = groups.flatMap((group, i) =>
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
    const out = output ?? this.#makeOutput(this.#sites[index]!);
    const operands = Object.entries(this.#names[index]!).map(([role, name]) =>
      [role, tensors.get(name)!.data] as const
    );
    const arrays = { ...Object.fromEntries(operands), out: out.data } as unknown as StateArrays;
    const [states, number] = this.#places[index]!;
    states.run(number, arrays, this.#ranges);
    return out;
  }

  dispose(): void {
    for (const states of this.#memories) states.dispose();
  }

  #makeOutput({ dtype, output: { shape } }: StateSite): Tensor {
    const numTokens = this.#ranges.at(-1)?.end ?? 0;
    const dims = shape.map((size) => typeof size === "number" ? size : numTokens);
    return makeTensor(dtype, dims);
  }
}

/** The sites, in their order, by the memories that their states fit in. */
function divideSites(sites: readonly StateSite[], numSlots: number): StateSite[][] {
  const groups: StateSite[][] = [];
  let bytes = Infinity;
  for (const site of sites) {
    const own = numSlots * stateSize(site) * Float32Array.BYTES_PER_ELEMENT;
    if (bytes + own > MEMORY_BYTES) {
      groups.push([]);
      bytes = 0;
    }
    groups.at(-1)!.push(site);
    bytes += own;
  }
  return groups;
}

function listNames(site: StateSite): OperandNames {
  const { recurrence, operands } = site;
  if (recurrence.kind === "convolution") return { x: operands[0]!.tensor };
  const { decaysName, betasName } = linearParams(site, recurrence);
  const [q, k, v] = operands.map(({ tensor }) => tensor) as [string, string, string];
  return {
    ...{ q, k, v },
    ...decaysName === undefined ? {} : { decays: decaysName },
    ...betasName === undefined ? {} : { betas: betasName },
  };
}

function toSimdSite(site: StateSite, constants: StatesOptions["constants"]): SimdSite {
  const { recurrence } = site;
  if (recurrence.kind !== "convolution") {
    const { decaysName: _decays, betasName: _betas, ...params } = linearParams(site, recurrence);
    return { kind: "attention", params };
  }
  const { weights, bias } = recurrence;
  const factors = convFactors({
    weights: constants.get(weights.name)!,
    bias: bias && constants.get(bias.name)!,
  }, recurrence);
  return { kind: "convolution", params: convParams(site, recurrence), factors };
}
