/**
 * Puts one kernel node in place of each recurrence, with token-major operands and result.
 *
 * @module
 */
import { KERNEL_DOMAIN } from "../attention/replace_attentions.ts";
import { getName } from "../attention/attention.ts";
import {
  floatAttribute,
  type Graph,
  intAttribute,
  makeNode,
  type Node,
  stringAttribute,
} from "../file/proto.ts";
import { toDtypeCode } from "../file/dtype.ts";
import { describeNode } from "../graph_index.ts";
import type { Value } from "../evaluate/value.ts";
import { type Lengths, SHORT_LENGTHS } from "../probes.ts";
import { Refusal } from "../refusal.ts";
import { findCausalConv, findSpelledOutConv } from "./find_convolution.ts";
import { findScan } from "./find_scan.ts";
import { type FoundState, isPastState, type StateSearch } from "./state.ts";

/** A recurrence and the node that stands for it. */
export interface ReplacedState {
  readonly found: FoundState;
  readonly node: Node;
}

/** A graph whose recurrences are kernel nodes. */
interface StateGraph {
  readonly graph: Graph;
  readonly states: readonly ReplacedState[];
  /** The results of the kernel nodes in a run. */
  readonly known: (lengths: Lengths) => ReadonlyMap<string, Value>;
}

const FINDERS = [findCausalConv, findSpelledOutConv, findLinearAttention, findScan];

/** @throws {Refusal} when one of the recurrences cannot be expressed. */
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

/** The kernel node of a recurrence, and transposes that bring operands and result into the order that it needs. */
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
    // Decays and rates are read in f32: a state that shrinks by 1/1000 a token would not in f16.
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

/** Which update rules have a decay, and which have the delta rule's rates. */
const RULES: Readonly<Record<string, { readonly decays: boolean; readonly isDelta: boolean }>> = {
  linear: { decays: false, isDelta: false },
  gated: { decays: true, isDelta: false },
  delta: { decays: false, isDelta: true },
  gated_delta: { decays: true, isDelta: true },
};

/**
 * `LinearAttention` of ONNX Runtime's own operator set (com.microsoft) and, since opset 27, of ONNX, with q, k and v as
 * packed heads.
 *
 * @see https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
 */
function findLinearAttention(node: Node, search: StateSearch): FoundState | undefined {
  if (node.opType !== "LinearAttention") return undefined;
  const [q, k, v, past, decay, rates] = node.inputs as [string, string, string, ...string[]];
  if (!isPastState(search, past)) {
    throw new Refusal(`The past of ${describeNode(node)} is computed; it should be an input.`);
  }
  const rule = RULES[stringAttribute(node, "update_rule") ?? "gated_delta"];
  const queryHeads = intAttribute(node, "q_num_heads") ?? 0;
  const heads = intAttribute(node, "kv_num_heads") ?? queryHeads;
  if (rule === undefined || queryHeads > heads || heads === 0) {
    throw new Refusal(
      `${describeNode(node)} has ${queryHeads} heads of queries for ${heads} states, or a rule ` +
        "of its own.",
    );
  }
  const findWidth = (name: string | undefined) => {
    const width = search.probes.at(SHORT_LENGTHS[0]).value(name ?? "")?.shape.at(-1);
    if (width !== undefined) return width;
    throw new Refusal(`${describeNode(node)} takes "${name}", of which nothing is known.`);
  };
  const keyDim = findWidth(q) / queryHeads;
  const scale = floatAttribute(node, "scale") || 1 / Math.sqrt(keyDim);
  return {
    name: getName(node),
    recurrence: {
      kind: "linear_attention",
      ...{ heads, queryHeads, keyDim, scale },
      keyHeads: findWidth(k) / keyDim,
      valueDim: findWidth(v) / heads,
      decay: rule.decays ? "logarithm" : undefined,
      decaysRows: rule.decays && findWidth(decay) === heads * keyDim && keyDim > 1,
      rates: rule.isDelta ? findWidth(rates) : 0,
    },
    operands: [q, k, v, ...rule.decays ? [decay!] : [], ...rule.isDelta ? [rates!] : []],
    output: node.outputs[0]!,
  };
}
