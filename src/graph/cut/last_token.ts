/**
 * Some exports compute the logits of the last token alone, and classifiers those of the first. A cut computes any rows
 * that are asked for, so the selection is removed from the graph and the caller asks for that row.
 *
 * @module
 */
import { numbered } from "../attention/traced_operand.ts";
import type { Evaluation } from "../evaluate/evaluation.ts";
import { type Graph, int64Tensor, makeNode, type Node, type Tensor } from "../file/proto.ts";
import { type Probes, SHORT_LENGTHS } from "../probes.ts";

/** Operators that exporters pick the last token with. */
const PICKING = new Set(["Gather", "Slice", "GatherND"]);

/** Which token a graph picks. */
export type PickedToken = "first" | "last";

/** Whether a node reduces `[1, tokens, …]` to that token's row and does nothing else. */
export function picksToken(probes: Probes, which: PickedToken, node: Node): boolean {
  return PICKING.has(node.opType) &&
    probes.short().every((run, i) => picks(which, node, run, SHORT_LENGTHS[i]!.numTokens));
}

function picks(which: PickedToken, node: Node, run: Evaluation, numTokens: number): boolean {
  const [from, to] = [node.inputs[0]!, node.outputs[0]!];
  const all = run.value(from);
  if (all?.shape[0] !== 1 || all.shape[1] !== numTokens) return false;
  const source = numbered(all);
  const picked = run.valueWith(to, new Map([[from, source]]))?.data;
  const width = source.data!.length / numTokens;
  const row = which === "first" ? source.data!.subarray(0, width) : source.data!.subarray(-width);
  return picked?.length === row.length && picked.every((x, i) => x === row[i]);
}

/**
 * Removes the selection of a token from a graph.
 *
 * @param wanted the output.
 */
export function keepAllTokens(
  probes: Probes,
  wanted: string,
  which: PickedToken = "last",
): Graph {
  const { graph } = probes.index;
  const [short, , longer] = probes.short();
  const [shape, longerShape] = [short, longer].map((run) => run?.value(wanted)?.shape.join());
  if (shape === undefined || shape !== longerShape) return graph;
  const constants: Tensor[] = [];
  const nodes = graph.nodes.map((node) => {
    if (!picksToken(probes, which, node)) return node;
    const [from, to] = [node.inputs[0]!, node.outputs[0]!];
    const [all, picked] = [from, to].map((name) => short!.value(name)!.shape);
    if (all!.length === picked!.length) return makeNode("Identity", [from], [to]);
    // The index removed the tokens' axis: the batch's axis of size 1 replaces it.
    const sizes = int64Tensor(`${to}/all_tokens`, [picked!.length], [-1, ...picked!.slice(1)]);
    constants.push(sizes);
    return makeNode("Reshape", [from, sizes.name], [to]);
  });
  return { ...graph, nodes, initializers: [...graph.initializers, ...constants] };
}
