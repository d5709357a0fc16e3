/**
 * `LinearAttention` of ONNX Runtime's own operator set (com.microsoft) and, since opset 27, of ONNX.
 *
 * @see https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
 * @module
 */
import { getName } from "../attention/attention.ts";
import { floatAttribute, intAttribute, type Node, stringAttribute } from "../file/proto.ts";
import { describeNode } from "../graph_index.ts";
import { SHORT_LENGTHS } from "../probes.ts";
import { Refusal } from "../refusal.ts";
import { type FoundState, isPastState, type StateSearch } from "./state.ts";

/** Which update rules have a decay, and which have the delta rule's rates. */
const RULES: Readonly<Record<string, { readonly decays: boolean; readonly isDelta: boolean }>> = {
  linear: { decays: false, isDelta: false },
  gated: { decays: true, isDelta: false },
  delta: { decays: false, isDelta: true },
  gated_delta: { decays: true, isDelta: true },
};

/** `LinearAttention`, with q, k and v as packed heads. */
export function findLinearAttention(node: Node, search: StateSearch): FoundState | undefined {
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
