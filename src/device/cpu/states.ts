/**
 * States of sequences on the CPU: the kernels' references.
 *
 * @module
 */
import { convFactors } from "../../../kernels/states/causal_conv.ts";
import { causalConvReference } from "../../../kernels/states/causal_conv_reference.ts";
import { checkLinearAttention } from "../../../kernels/states/linear_attention.ts";
import { linearAttentionReference } from "../../../kernels/states/linear_attention_reference.ts";
import { rangesOf, type StateRange, type StateStep } from "../../../kernels/states/state_step.ts";
import type { StateSite } from "../../graph/graph_cut.ts";
import { Tensor } from "../ort/ort.ts";
import {
  convParams,
  linearParams,
  type SequenceStates,
  type StateCopy,
  stateSize,
  type StatesOptions,
} from "../sequence_states.ts";

type Numbers = Float32Array | Float16Array;

/** Runs one recurrence over the ranges of a step. */
type Runner = (
  tensors: ReadonlyMap<string, Tensor>,
  out: Numbers,
  ranges: readonly StateRange[],
) => void;

/** The memory of the states is allocated when it is made. */
export class CpuStates implements SequenceStates {
  readonly #sites: readonly StateSite[];
  readonly #states: Float32Array[];
  readonly #runners: readonly Runner[];
  #ranges: readonly StateRange[] = [];

  /** @throws {RangeError} when the kernels cannot run a site's shape. */
  constructor({ sites, numSlots, constants }: StatesOptions) {
    this.#sites = sites;
    this.#states = sites.map((site) => new Float32Array(numSlots * stateSize(site)));
    this.#runners = sites.map((site, i) => open(site, this.#states[i]!, constants));
  }

  begin(step: StateStep & { readonly stateCopies?: readonly StateCopy[] | undefined }): void {
    for (const { from, to } of step.stateCopies ?? []) {
      this.#sites.forEach((site, i) => {
        const size = stateSize(site);
        this.#states[i]!.copyWithin(to * size, from * size, (from + 1) * size);
      });
    }
    this.#ranges = rangesOf(step);
  }

  run(index: number, tensors: ReadonlyMap<string, Tensor>, output: Tensor | undefined): Tensor {
    const out = output ?? this.#makeOutput(this.#sites[index]!);
    this.#runners[index]!(tensors, out.data as Numbers, this.#ranges);
    return out;
  }

  /** Drops the memory; the engine frees it. */
  dispose(): void {
    this.#states.length = 0;
  }

  #makeOutput({ dtype, output: { shape } }: StateSite): Tensor {
    const numTokens = this.#ranges.at(-1)?.end ?? 0;
    const dims = shape.map((size) => typeof size === "number" ? size : numTokens);
    const length = dims.reduce((product, size) => product * size, 1);
    if (dtype === "float32") return new Tensor("float32", new Float32Array(length), dims);
    return new Tensor("float16", new Float16Array(length) as unknown as Uint16Array, dims);
  }
}

function open(
  site: StateSite,
  state: Float32Array,
  constants: StatesOptions["constants"],
): Runner {
  const { recurrence, operands } = site;
  const numbersOf = (tensors: ReadonlyMap<string, Tensor>, name: string) =>
    tensors.get(name)!.data as Numbers;
  if (recurrence.kind === "convolution") {
    const params = convParams(site, recurrence);
    const { weights, bias } = recurrence;
    const factors = convFactors({
      weights: constants.get(weights.name)!,
      bias: bias && constants.get(bias.name)!,
    }, recurrence);
    const [{ tensor }] = operands as [StateSite["operands"][number]];
    return (tensors, out, ranges) =>
      causalConvReference(params, { x: numbersOf(tensors, tensor), factors, state, out }, ranges);
  }
  const { decaysName, betasName, ...params } = linearParams(site, recurrence);
  checkLinearAttention(params);
  const [q, k, v] = operands.map(({ tensor }) => tensor) as [string, string, string];
  return (tensors, out, ranges) => {
    const of = (name: string) => numbersOf(tensors, name);
    linearAttentionReference(params, {
      ...{ q: of(q), k: of(k), v: of(v), state, out },
      decays: decaysName === undefined ? undefined : of(decaysName) as Float32Array,
      betas: betasName === undefined ? undefined : of(betasName) as Float32Array,
    }, ranges);
  };
}
