/**
 * Linear attention that runs token by token in a `Scan`, as PyTorch exporters write the gated delta rule and Mamba-2.
 *
 * The nodes of the body are not matched. Instead the body is evaluated once on known numbers. There must be an
 * assignment of its inputs to queries, keys, values, decay and rates for which the results are those of a linear
 * attention.
 *
 * @module
 */
import { getName } from "../attention/attention.ts";
import { countElements } from "../file/tensor.ts";
import { Evaluation, readScan, type Scan } from "../evaluate/evaluation.ts";
import { normalizeAxis, toValue, type Value } from "../evaluate/value.ts";
import { describeNode } from "../graph_index.ts";
import type { Node } from "../file/proto.ts";
import { SHORT_LENGTHS } from "../probes.ts";
import { Refusal } from "../refusal.ts";
import type { LinearAttention } from "../graph_cut.ts";
import { type FoundState, isPastState, type StateSearch } from "./find_operators.ts";

/** One evaluation of a body, for one token and a batch of one. */
interface Measured {
  /** `[heads, rows, columns]`. */
  readonly state: Float64Array;
  readonly inputs: readonly Float64Array[];
  readonly newState: Float64Array;
  readonly output: Float64Array;
  readonly sizes: readonly [heads: number, rows: number, columns: number];
}

/** The roles of the body's inputs, by their indices. */
interface Roles {
  readonly q: number;
  readonly k: number;
  readonly v: number;
  readonly decay?: number | undefined;
  readonly rates?: number | undefined;
}

/**
 * A `Scan` over the tokens that computes a linear attention; `undefined` if it reads no recurrent state.
 *
 * @throws {Refusal} when it reads a state but computes something else.
 */
export function findScan(node: Node, search: StateSearch): FoundState | undefined {
  const scan = readScan(node);
  if (scan === undefined || !isPastState(search, node.inputs[0])) return undefined;
  const measured = measure(node, scan, search);
  const found = measured && findRoles(measured);
  if (found === undefined) {
    throw new Refusal(`${describeNode(node)} runs token by token, not as a linear attention.`);
  }
  const { roles, recurrence } = found;
  const used = [roles.q, roles.k, roles.v, roles.decay, roles.rates]
    .filter((role) => role !== undefined);
  const getRank = (name: string) => search.probes.at(SHORT_LENGTHS[0]).value(name)!.shape.length;
  const findOrder = (name: string, axis: number) =>
    tokensSecond(normalizeAxis(axis, getRank(name)), getRank(name));
  const output = node.outputs[1]!;
  const order = findOrder(output, scan.outputAxes[0]!);
  return {
    name: getName(node),
    recurrence,
    operands: used.map((role) => node.inputs[1 + role]!),
    operandOrders: used.map((role) => findOrder(node.inputs[1 + role]!, scan.inputAxes[role]!)),
    output,
    outputOrder: order && order.map((_, axis) => order.indexOf(axis)),
  };
}

/** The permutation to `[batch, tokens, …]` of a tensor whose tokens are on `axis`; `undefined` if that is axis 1. */
function tokensSecond(axis: number, rank: number): number[] | undefined {
  if (axis === 1) return undefined;
  const others = Array.from({ length: rank }, (_, i) => i).filter((i) => i !== axis);
  return [others[0]!, axis, ...others.slice(1)];
}

/** Irregular numbers between 0.1 and 0.9, which can serve as decays and as logarithms of decays. */
function makeNumbers(length: number, seed: number): Float64Array {
  return Float64Array.from(
    { length },
    (_, i) => 0.1 + 0.8 * ((Math.sin(i * 12.9898 + seed * 78.233) * 43758.5453) % 1 + 1) % 0.8,
  );
}

/** Evaluates the body; `undefined` if that is not possible, or if its state is not `[1, heads, rows, columns]`. */
function measure(node: Node, scan: Scan, { index, probes }: StateSearch): Measured | undefined {
  const { body, inputs, outputs, numStates, inputAxes } = scan;
  if (numStates !== 1 || outputs.length !== 2) return undefined;
  const run = probes.at(SHORT_LENGTHS[0]);
  const feeds = new Map<string, Value>();
  for (const { inputs: read } of body.graph.nodes) {
    // The body may read constants of the outer graph.
    for (const name of read) {
      const constant = index.constants.get(name);
      if (constant !== undefined) feeds.set(name, toValue(constant));
    }
  }
  const fed: Float64Array[] = [];
  for (const [i, name] of inputs.entries()) {
    const value = run.value(node.inputs[i]!);
    if (value === undefined) return undefined;
    const shape = i === 0
      ? value.shape
      : value.shape.toSpliced(normalizeAxis(inputAxes[i - 1]!, value.shape.length), 1);
    const data = makeNumbers(countElements(shape), i + 1);
    fed.push(data);
    feeds.set(name, { dtype: value.dtype, shape, data });
  }
  const made = new Evaluation(body, feeds);
  const [newState, output] = outputs.map((name) => made.value(name)?.data);
  const [batch, ...sizes] = run.value(node.inputs[0]!)!.shape;
  if (newState === undefined || output === undefined || batch !== 1 || sizes.length !== 3) {
    return undefined;
  }
  const [state, ...others] = fed as [Float64Array, ...Float64Array[]];
  return { state, inputs: others, newState, output, sizes: sizes as [number, number, number] };
}

/** The roles of the inputs, and the linear attention that the body computes; `undefined` if there is none. */
function findRoles(
  measured: Measured,
): { readonly roles: Roles; readonly recurrence: LinearAttention } | undefined {
  const { inputs, sizes: [heads, rows, columns] } = measured;
  for (const isTransposed of [false, true]) {
    const [keyDim, valueDim] = isTransposed ? [columns, rows] : [rows, columns];
    for (const roles of assignments(inputs.length)) {
      const count = (role: number | undefined) => role === undefined ? 0 : inputs[role]!.length;
      const [queryHeads, keyHeads] = [count(roles.q) / keyDim, count(roles.k) / keyDim];
      const [decays, rates] = [count(roles.decay), count(roles.rates)];
      const isDivisor = (n: number) => Number.isInteger(n) && n > 0 && heads % n === 0;
      const fits = isDivisor(queryHeads) && isDivisor(keyHeads) &&
        count(roles.v) === heads * valueDim && [0, heads, heads * keyDim].includes(decays) &&
        [0, 1, heads].includes(rates);
      if (!fits) continue;
      for (const decay of decays === 0 ? [undefined] : ["factor", "logarithm"] as const) {
        const shape = {
          kind: "linear_attention",
          ...{ heads, queryHeads, keyHeads, keyDim, valueDim, decay, rates },
          decaysRows: decays > heads,
          scale: 1,
        } as const;
        const scale = measureScale(measured, { roles, shape, isTransposed });
        if (scale !== undefined) return { roles, recurrence: { ...shape, scale } };
      }
    }
  }
  return undefined;
}

/** All assignments of roles to three, four or five inputs. */
function* assignments(numInputs: number): Generator<Roles> {
  const optional: ("decay" | "rates")[][] = numInputs === 3
    ? [[]]
    : numInputs === 4
    ? [["decay"], ["rates"]]
    : numInputs === 5
    ? [["decay", "rates"]]
    : [];
  for (const more of optional) {
    const names = ["q", "k", "v", ...more];
    for (const order of permutations(numInputs)) {
      yield Object.fromEntries(names.map((name, i) => [name, order[i]])) as unknown as Roles;
    }
  }
}

function* permutations(
  length: number,
  taken: readonly number[] = [],
): Generator<readonly number[]> {
  if (taken.length === length) yield taken;
  for (let i = 0; i < length; i++) {
    if (!taken.includes(i)) yield* permutations(length, [...taken, i]);
  }
}

/**
 * The scale of the output, if new state and output are those that this linear attention computes; `undefined`
 * otherwise.
 */
function measureScale(
  { state, inputs, newState, output }: Measured,
  { roles, shape, isTransposed }: {
    readonly roles: Roles;
    readonly shape: LinearAttention;
    readonly isTransposed: boolean;
  },
): number | undefined {
  const { heads, queryHeads, keyHeads, keyDim, valueDim, decay, decaysRows, rates } = shape;
  const [q, k, v] = [roles.q, roles.k, roles.v].map((role) => inputs[role]!) as [
    Float64Array,
    Float64Array,
    Float64Array,
  ];
  const decays = roles.decay === undefined ? undefined : inputs[roles.decay]!;
  const isClose = (a: number, b: number) => Math.abs(a - b) <= 1e-6 * Math.max(1, Math.abs(b));
  let scale: number | undefined;
  for (let h = 0; h < heads; h++) {
    const [qAt, kAt] = [queryHeads, keyHeads].map((n) => Math.floor(h * n / heads) * keyDim) as [
      number,
      number,
    ];
    const rate = roles.rates === undefined ? 1 : inputs[roles.rates]![rates === 1 ? 0 : h]!;
    for (let j = 0; j < valueDim; j++) {
      const at = (i: number) =>
        h * keyDim * valueDim + (isTransposed ? j * keyDim + i : i * valueDim + j);
      const decayed = Array.from({ length: keyDim }, (_, i) => {
        const own = decays?.[decaysRows ? h * keyDim + i : h] ?? 1;
        return state[at(i)]! * (decay === "logarithm" ? Math.exp(own) : own);
      });
      const held = roles.rates === undefined
        ? 0
        : decayed.reduce((sum, s, i) => sum + s * k[kAt + i]!, 0);
      const gain = rate * (v[h * valueDim + j]! - held);
      let sum = 0;
      for (let i = 0; i < keyDim; i++) {
        const next = decayed[i]! + k[kAt + i]! * gain;
        if (!isClose(newState[at(i)]!, next)) return undefined;
        sum += next * q[qAt + i]!;
      }
      const factor = output[h * valueDim + j]! / sum;
      scale ??= factor;
      if (!isClose(factor, scale)) return undefined;
    }
  }
  return scale;
}
