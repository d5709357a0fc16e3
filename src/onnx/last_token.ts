/**
 * Some exports compute the logits of the last token alone. A cut answers for any token of a step: each counts
 * as the last of its own prefix, so picking the last one is left out.
 *
 * @module
 */
import { numbered } from "./cached_operand.ts";
import type { Evaluation } from "./evaluate/evaluation.ts";
import { type Graph, int64Tensor, makeNode, type Node, type Tensor } from "./proto.ts";
import { type Probes, SHORT_LENGTHS } from "./probes.ts";

/** Operators that exporters pick the last token with. */
const PICKING = new Set(["Gather", "Slice", "GatherND"]);

/** Whether a node gives of `[1, tokens, …]` the last token's row and nothing else. */
function picksLast(node: Node, run: Evaluation, numTokens: number): boolean {
  const [from, to] = [node.inputs[0]!, node.outputs[0]!];
  const all = run.value(from);
  if (all?.shape[0] !== 1 || all.shape[1] !== numTokens) return false;
  const source = numbered(all);
  const picked = run.valueWith(to, new Map([[from, source]]))?.data;
  const last = source.data!.subarray(-source.data!.length / numTokens);
  return picked?.length === last.length && picked.every((x, i) => x === last[i]);
}

/**
 * Leaves out what picks the last token, in a graph whose output has no other.
 *
 * @param wanted the output.
 */
export function keepAllTokens(probes: Probes, wanted: string): Graph {
  const { graph } = probes.index;
  const [short, , longer] = probes.short();
  const [shape, longerShape] = [short, longer].map((run) => run?.value(wanted)?.shape.join());
  if (shape === undefined || shape !== longerShape) return graph;
  const constants: Tensor[] = [];
  const nodes = graph.nodes.map((node) => {
    const isPick = PICKING.has(node.opType) &&
      probes.short().every((run, i) => picksLast(node, run, SHORT_LENGTHS[i]!.numTokens));
    if (!isPick) return node;
    const [from, to] = [node.inputs[0]!, node.outputs[0]!];
    const [all, picked] = [from, to].map((name) => short!.value(name)!.shape);
    if (all!.length === picked!.length) return makeNode("Identity", [from], [to]);
    // The index took the tokens' axis away: the batch's axis of size 1 takes its place.
    const sizes = int64Tensor(`${to}/all_tokens`, [picked!.length], [-1, ...picked!.slice(1)]);
    constants.push(sizes);
    return makeNode("Reshape", [from, sizes.name], [to]);
  });
  return { ...graph, nodes, initializers: [...graph.initializers, ...constants] };
}
