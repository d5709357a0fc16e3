/**
 * Rotations whose cosines and sines the graph has gathered for each token before, as exporters do for positions in
 * sections: `RotaryEmbedding` then takes the number of the token's row, which says nothing where steps are packed.
 *
 * @module
 */
import {
  floatAttribute,
  type Graph,
  int64Tensor,
  intAttribute,
  makeNode,
  type Node,
  type Tensor,
} from "../file/proto.ts";
import { type Probes, SHORT_LENGTHS } from "../probes.ts";

/** The graph with such rotations spelled out, which read each token's own row. */
export function spellOwnRowRotary(probes: Probes): Graph {
  const { graph } = probes.index;
  const constants: Tensor[] = [];
  const nodes = graph.nodes.flatMap((node) => {
    const spelled = isOfOwnRows(probes, node) ? spell(probes, node) : undefined;
    constants.push(...spelled?.constants ?? []);
    return spelled?.nodes ?? [node];
  });
  if (constants.length === 0) return graph;
  return { ...graph, nodes, initializers: [...graph.initializers, ...constants] };
}

/** Whether token `t` reads row `t` of tables that have as many rows as the step has tokens. */
function isOfOwnRows(probes: Probes, { opType, domain, inputs }: Node): boolean {
  const [, rows, cos] = inputs;
  if (opType !== "RotaryEmbedding" || domain !== "com.microsoft") return false;
  return probes.short().every((run, i) => {
    const { numTokens } = SHORT_LENGTHS[i]!;
    const data = run.value(rows!)?.data;
    return run.value(cos!)?.shape[0] === numTokens && data?.length === numTokens &&
      data.every((row, token) => row === token);
  });
}

/** `concat(x[.. size] * cos + turned(x[.. size]) * sin, x[size ..])`; `undefined` where neighbours turn together. */
function spell(
  probes: Probes,
  node: Node,
): { readonly nodes: readonly Node[]; readonly constants: readonly Tensor[] } | undefined {
  const [x, , cos, sin] = node.inputs as [string, string, string, string];
  const [output] = node.outputs as [string];
  const shape = probes.at(SHORT_LENGTHS[0]).value(x)?.shape;
  const half = probes.at(SHORT_LENGTHS[0]).value(cos)?.shape.at(-1);
  if (intAttribute(node, "interleaved") === 1 || shape === undefined || half === undefined) {
    return undefined;
  }
  const isRows = shape.length === 3;
  const numHeads = isRows ? intAttribute(node, "num_heads") ?? 0 : 0;
  const headDim = isRows ? shape[2]! / numHeads : shape[3]!;
  if (!Number.isInteger(headDim) || readScale(node) !== 1) return undefined;
  const constants: Tensor[] = [];
  const nodes: Node[] = [];
  const ints = (what: string, values: readonly number[]) => {
    constants.push(int64Tensor(`${output}/${what}`, [values.length], values));
    return `${output}/${what}`;
  };
  const add = (
    opType: string,
    inputs: readonly string[],
    [what, ...more]: readonly [string, ...string[]],
    axis?: number,
  ) => {
    const outputs = [what, ...more].map((name) => name === output ? name : `${output}/${name}`);
    const attributes = axis === undefined ? {} : { axis };
    nodes.push(makeNode(opType, inputs, outputs, { attributes }));
    return outputs as [string, ...string[]];
  };
  const heads = isRows
    ? add("Reshape", [x, ints("heads_sizes", [0, 0, numHeads, headDim])], ["heads"])[0]
    : x;
  const [first, rest] = 2 * half === headDim
    ? [heads, undefined]
    : add("Split", [heads, ints("turning", [2 * half, headDim - 2 * half])], ["first", "rest"], -1);
  const [before, behind] = add("Split", [first, ints("halves", [half, half])], ["a", "b"], -1);
  const [negated] = add("Neg", [behind!], ["negated"]);
  const [turned] = add("Concat", [negated, before], ["turned"], -1);
  const twice = (table: string, what: string) => {
    const [row] = add("Concat", [table, table], [what], -1);
    return isRows
      ? add("Reshape", [row, ints(`${what}_sizes`, [-1, 1, 2 * half])], [`${what}_rows`])[0]
      : row;
  };
  const [straight] = add("Mul", [first, twice(cos, "cos")], ["straight"]);
  const [crossed] = add("Mul", [turned, twice(sin, "sin")], ["crossed"]);
  const whole = rest === undefined && !isRows ? output : "sum";
  let [sum] = add("Add", [straight, crossed], [whole]);
  if (rest !== undefined) [sum] = add("Concat", [sum, rest], [isRows ? "joined" : output], -1);
  if (isRows) add("Reshape", [sum, ints("row_sizes", [0, 0, numHeads * headDim])], [output]);
  return { nodes, constants };
}

/** What the rotation multiplies by besides. */
function readScale(node: Node): number {
  return floatAttribute(node, "scale") ?? 1;
}
