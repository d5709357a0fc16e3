/**
 * Replaces each recurrence by a kernel node, whose operands and result are token-major.
 *
 * @module
 */
import { KERNEL_DOMAIN } from "../attention/replace_attentions.ts";
import { type Graph, makeNode, type Node } from "../file/proto.ts";
import { toDtypeCode } from "../file/tensor.ts";
import type { Value } from "../evaluate/value.ts";
import type { Lengths } from "../probes.ts";
import {
  findCausalConv,
  findLinearAttention,
  findSpelledOutConv,
  type FoundState,
  type StateSearch,
} from "./find_operators.ts";
import { findScan } from "./find_scan.ts";

/** A recurrence and the kernel node that replaces it. */
export interface ReplacedState {
  readonly found: FoundState;
  readonly node: Node;
}

/** A graph whose recurrences are kernel nodes. */
interface StateGraph {
  readonly graph: Graph;
  readonly states: readonly ReplacedState[];
  /** Types and shapes of the kernel nodes' results in a partial evaluation. */
  readonly known: (lengths: Lengths) => ReadonlyMap<string, Value>;
}

const FINDERS = [findCausalConv, findSpelledOutConv, findLinearAttention, findScan];

/** @throws {Refusal} when Hearth cannot compute one of the recurrences. */
export function replaceStates(search: StateSearch): StateGraph {
  const { index: { graph }, probes } = search;
  const states: ReplacedState[] = [];
  const replaced = new Map<string, readonly Node[]>();
  for (const node of graph.nodes) {
    const found = FINDERS.map((find) => find(node, search)).find((each) => each !== undefined);
    if (found === undefined) continue;
    const { nodes, kernelNode } = makeNodes(found, search);
    states.push({ found, node: kernelNode });
    replaced.set(found.output, nodes);
  }
  const nodes = graph.nodes.flatMap((node) => {
    const output = node.outputs.find((name) => replaced.has(name));
    return output === undefined ? [node] : replaced.get(output)!;
  });
  const known = (lengths: Lengths) =>
    new Map(states.flatMap(({ found, node }): [string, Value][] => {
      const value = probes.at(lengths).value(found.output);
      if (value === undefined) return [];
      const { dtype, shape } = value;
      const order = found.outputOrder;
      const rows = order ? order.map((_, axis) => shape[order.indexOf(axis)]!) : shape;
      return [[node.outputs[0]!, { dtype, shape: rows }]];
    }));
  return { graph: { ...graph, nodes }, states, known };
}

/** Makes the kernel node of a recurrence, and the transposes and casts that its operands and result need. */
function makeNodes(
  found: FoundState,
  { probes }: StateSearch,
): { readonly nodes: readonly Node[]; readonly kernelNode: Node } {
  const { name, recurrence, operands, operandOrders, output, outputOrder } = found;
  const before: Node[] = [];
  const step = (opType: string, input: string, attributes: Record<string, number | number[]>) => {
    const made = `${output}/${opType} of ${input}`;
    before.push(makeNode(opType, [input], [made], { attributes }));
    return made;
  };
  const isLinear = recurrence.kind === "linear_attention";
  const inputs = operands.map((operand, i) => {
    const order = operandOrders?.[i];
    const rows = order ? step("Transpose", operand, { perm: [...order] }) : operand;
    // Decays and rates are read in f32: decays are close to 1, where f16 has steps of about 1/2000.
    const isHalf = probes.short()[0]!.value(operand)?.dtype === "float16";
    return isLinear && i > 2 && isHalf ? step("Cast", rows, { to: toDtypeCode("float32") }) : rows;
  });
  const rows = outputOrder ? `${output}/rows` : output;
  const kernelNode = makeNode("RecurrenceNode", inputs, [rows], { domain: KERNEL_DOMAIN, name });
  const after = outputOrder
    ? [makeNode("Transpose", [rows], [output], { attributes: { perm: outputOrder } })]
    : [];
  return { nodes: [...before, kernelNode, ...after], kernelNode };
}
