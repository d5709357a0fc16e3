/**
 * Graphs that pick the first or the last token. Decoders may compute the logits of only the last token;
 * classifiers and embedders read the first.
 *
 * A cut computes the rows that its caller asks for, so the pick is removed from the graph ({@linkcode keepAllTokens}).
 * In a graph that is not cut, the nodes before a pick of the first token are made to compute only that token's row
 * ({@linkcode computeFirstRows}).
 *
 * @module
 */
import { findEncoderInputs } from "../decoder_inputs.ts";
import { liftConstants } from "../file/lift_constants.ts";
import { ELEMENTWISE_RULES } from "../evaluate/elementwise.ts";
import {
  type Graph,
  hasSubgraph,
  int64Tensor,
  makeNode,
  type ModelProto,
  type Node,
  readIntAttribute,
  type Tensor,
  withGraph,
} from "../file/proto.ts";
import { GraphIndex } from "../graph_index.ts";
import { Probes, SHORT_LENGTHS } from "../probes.ts";
import { Refusal } from "../refusal.ts";
import { numbered } from "../attention/traced_operand.ts";
import type { Evaluation } from "../evaluate/evaluation.ts";

/** Operators that compute each row of their output from the same row of their inputs. */
const ROW_OPERATORS = new Set([
  ...Object.keys(ELEMENTWISE_RULES),
  ...["Erf", "Gelu", "FastGelu", "BiasGelu", "QuickGelu", "Elu", "Selu", "Softplus", "LeakyRelu"],
  ...["HardSigmoid", "HardSwish", "MatMul", "MatMulNBits"],
  ...["LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"],
  ...["SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "ReduceMean"],
  ...["Split", "Slice"],
]);

const FIRST = "first_token";

/**
 * Makes row-wise nodes compute only the first token's row, if nothing but a pick of the first token reads their
 * results. Results do not change: nodes that quantise all rows together are left unchanged.
 *
 * @param wanted the output of the graph that is read.
 * @returns the model itself if the graph picks no token, or if nothing before the pick is row-wise.
 */
export function computeFirstRows(
  model: ModelProto,
  { wanted, padTokenId }: { readonly wanted: string; readonly padTokenId: number },
): ModelProto {
  const index = new GraphIndex(liftConstants(model.graph));
  // The index does not show what a nested graph reads.
  if (index.graph.nodes.some(hasSubgraph)) return model;
  const probes = findProbes(index, padTokenId);
  const pick = probes && findPick(probes);
  if (pick === undefined) return model;
  const tensors = new KnownTensors(probes!);
  const early = new Set<Node>();
  const isReadEarly = (name: string) =>
    name !== wanted && !index.isOutput(name) &&
    index.consumers(name).every((node) =>
      node === pick || early.has(node) || tensors.isRowLength(node)
    );
  for (const node of index.graph.nodes.toReversed()) {
    const read = node.outputs.filter((name) => index.consumers(name).length > 0);
    if (read.length === 0 || !read.every((name) => isReadEarly(name) && tensors.isRows(name))) {
      continue;
    }
    if (isRowWise(node, tensors)) early.add(node);
  }
  if (early.size === 0) return model;
  return withFirstRows(model, index, { early, tensors });
}

function findProbes(index: GraphIndex, padTokenId: number): Probes | undefined {
  try {
    return new Probes(index, findEncoderInputs(index, padTokenId));
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}

/** The node that picks the first token's row of a tensor; `undefined` if there is none, or if there are several. */
function findPick(probes: Probes): Node | undefined {
  const picks = probes.index.graph.nodes.filter((node) => picksToken(probes, "first", node));
  return picks.length === 1 ? picks[0] : undefined;
}

/** Whether an axis of `[1, tokens, …]` is the last of three. */
function isRowAxis(axis: number): boolean {
  return axis === 2 || axis === -1;
}

/** Tells, by partial evaluation, which tensors of a graph have a row for each token. */
class KnownTensors {
  readonly #probes: Probes;
  readonly #constant = new Map<string, boolean>();

  constructor(probes: Probes) {
    this.#probes = probes;
  }

  /** Whether a tensor is `[1, tokens, width]`. */
  isRows(name: string): boolean {
    return this.#probes.short().every((run, i) => {
      const shape = run.value(name)?.shape;
      return shape?.length === 3 && shape[0] === 1 && shape[1] === SHORT_LENGTHS[i]!.numTokens;
    });
  }

  /** The number of axes of a tensor that does not depend on an input; `undefined` for any other tensor. */
  countConstantAxes(name: string): number | undefined {
    return this.#isConstant(name) ? this.#probes.short()[0]!.value(name)?.shape.length : undefined;
  }

  /** Whether a node computes a tensor's shape, of which only the row length is read. */
  isRowLength({ opType, outputs }: Node): boolean {
    const { index } = this.#probes;
    return opType === "Shape" && !index.isOutput(outputs[0]!) &&
      index.consumers(outputs[0]!).every(({ opType, inputs }) => {
        const indices = this.#probes.short()[0]!.value(inputs[1] ?? "")?.data;
        return opType === "Gather" && inputs[0] === outputs[0] &&
          indices?.every(isRowAxis) === true;
      });
  }

  /** Whether a node works along the last axis of `[1, tokens, width]`, if it works along an axis at all. */
  isAlongRow(node: Node): boolean {
    if (node.opType === "Slice") {
      const axes = this.#probes.short()[0]!.value(node.inputs[3] ?? "")?.data;
      return axes !== undefined && axes.every(isRowAxis);
    }
    return isRowAxis(readIntAttribute(node, "axis") ?? (node.opType === "Split" ? 0 : -1));
  }

  #isConstant(name: string): boolean {
    let known = this.#constant.get(name);
    if (known === undefined) {
      const { constants, producers } = this.#probes.index;
      known = constants.has(name) ||
        (producers.get(name)?.inputs.every((input) => input === "" || this.#isConstant(input)) ??
          false);
      this.#constant.set(name, known);
    }
    return known;
  }
}

/** Whether a token's row of the outputs depends only on the same row of the inputs. */
function isRowWise(node: Node, tensors: KnownTensors): boolean {
  const { opType, inputs } = node;
  if (!ROW_OPERATORS.has(opType) || !tensors.isAlongRow(node)) return false;
  // The other inputs of these operators say where to split rows.
  if (opType === "Split" || opType === "Slice") return tensors.isRows(inputs[0]!);
  return inputs.every((name, i) => {
    const axes = tensors.countConstantAxes(name);
    // A product may take any constant matrix. The constants of other operators must be the same for all tokens.
    if (axes !== undefined) return axes <= 1 || (opType.startsWith("MatMul") && i > 0);
    return name === "" || (tensors.isRows(name) && !(opType === "MatMul" && i > 0));
  });
}

/** Makes the row-wise nodes read only the first row of the tensors that other nodes compute. */
function withFirstRows(
  model: ModelProto,
  index: GraphIndex,
  { early, tensors }: { readonly early: ReadonlySet<Node>; readonly tensors: KnownTensors },
): ModelProto {
  const { graph } = index;
  const computed = new Set([...early].flatMap(({ outputs }) => outputs));
  const picked = new Map<string, string>();
  const nodes = graph.nodes.flatMap((node) => {
    if (!early.has(node)) return [node];
    const gathers: Node[] = [];
    const inputs = node.inputs.map((name) => {
      if (computed.has(name) || !tensors.isRows(name)) return name;
      let row = picked.get(name);
      if (row === undefined) {
        row = `${name}/${FIRST}`;
        picked.set(name, row);
        gathers.push(makeNode("Gather", [name, FIRST], [row], { attributes: { axis: 1 } }));
      }
      return row;
    });
    return [...gathers, { ...node, inputs }];
  });
  return withGraph(model, {
    ...graph,
    nodes,
    initializers: [...graph.initializers, int64Tensor(FIRST, [1], [0])],
    valueInfos: graph.valueInfos.filter(({ name }) => !computed.has(name)),
  });
}

/** Operators with which exporters pick a token. */
const PICKING = new Set(["Gather", "Slice", "GatherND"]);

/** The token whose row a graph picks. */
export type PickedToken = "first" | "last";

/** Whether a node only takes that token's row of `[1, tokens, …]`. */
function picksToken(probes: Probes, which: PickedToken, node: Node): boolean {
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
 * Removes the pick of a token from a graph, so that the output has a row for each token.
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
    // The pick removed the tokens' axis. Here it takes the position of the batch axis, which has size 1.
    const sizes = int64Tensor(`${to}/all_tokens`, [picked!.length], [-1, ...picked!.slice(1)]);
    constants.push(sizes);
    return makeNode("Reshape", [from, sizes.name], [to]);
  });
  return { ...graph, nodes, initializers: [...graph.initializers, ...constants] };
}
