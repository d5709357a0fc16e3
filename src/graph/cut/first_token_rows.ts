/**
 * Classifiers and embedders that read only the first token: row-wise work of the last layer, above all its products, is
 * done for that token alone.
 *
 * @module
 */
import { liftConstants } from "../decoder_inputs.ts";
import { ELEMENTWISE_RULES } from "../evaluate/elementwise.ts";
import {
  hasSubgraph,
  int64Tensor,
  intAttribute,
  makeNode,
  type ModelProto,
  type Node,
  withGraph,
} from "../file/proto.ts";
import { GraphIndex } from "../graph_index.ts";
import { Probes, SHORT_LENGTHS } from "../probes.ts";
import { Refusal } from "../refusal.ts";
import { picksToken } from "./last_token.ts";
import { findEncoderInputs } from "./split_encoder.ts";

/** Operators whose output elements depend only on the same elements of their inputs, or whose rows on the same rows. */
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
 * Lets nodes that only lead to a pick of the first token compute its row alone. Their results do not change; rows
 * quantised together stay together.
 *
 * @param wanted the output.
 * @returns the model itself if the graph picks no token, or if nothing before the pick is row-wise.
 */
export function computeFirstRows(
  model: ModelProto,
  { wanted, padTokenId }: { readonly wanted: string; readonly padTokenId: number },
): ModelProto {
  const index = new GraphIndex(liftConstants(model.graph));
  // What a nested graph reads is not visible here.
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

/** The only node that picks the first token's row of a tensor. */
function findPick(probes: Probes): Node | undefined {
  const picks = probes.index.graph.nodes.filter((node) => picksToken(probes, "first", node));
  return picks.length === 1 ? picks[0] : undefined;
}

/** Whether an axis of `[1, tokens, …]` is the last of three. */
function isRowAxis(axis: number): boolean {
  return axis === 2 || axis === -1;
}

/** Partial evaluations of a graph. */
class KnownTensors {
  readonly #probes: Probes;
  readonly #constant = new Map<string, boolean>();

  constructor(probes: Probes) {
    this.#probes = probes;
  }

  /** Whether a tensor is `[1, tokens, …]` of three axes. */
  isRows(name: string): boolean {
    return this.#probes.short().every((run, i) => {
      const shape = run.value(name)?.shape;
      return shape?.length === 3 && shape[0] === 1 && shape[1] === SHORT_LENGTHS[i]!.numTokens;
    });
  }

  /** The number of axes of a tensor that depends on no input; `undefined` for any other. */
  countConstantAxes(name: string): number | undefined {
    return this.#isConstant(name) ? this.#probes.short()[0]!.value(name)?.shape.length : undefined;
  }

  /** Whether a node computes the shape of rows, and only their length is read from it. */
  isRowLength({ opType, outputs }: Node): boolean {
    const { index } = this.#probes;
    return opType === "Shape" && !index.isOutput(outputs[0]!) &&
      index.consumers(outputs[0]!).every(({ opType, inputs }) => {
        const indices = this.#probes.short()[0]!.value(inputs[1] ?? "")?.data;
        return opType === "Gather" && inputs[0] === outputs[0] &&
          indices?.every(isRowAxis) === true;
      });
  }

  /** Whether a node works along the last axis of `[1, tokens, …]`, if it works along any. */
  isAlongRow(node: Node): boolean {
    if (node.opType === "Slice") {
      const axes = this.#probes.short()[0]!.value(node.inputs[3] ?? "")?.data;
      return axes !== undefined && axes.every(isRowAxis);
    }
    return isRowAxis(intAttribute(node, "axis") ?? (node.opType === "Split" ? 0 : -1));
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

/** Whether a token's row of the outputs needs nothing but the same row of the inputs. */
function isRowWise(node: Node, tensors: KnownTensors): boolean {
  const { opType, inputs } = node;
  if (!ROW_OPERATORS.has(opType) || !tensors.isAlongRow(node)) return false;
  // The other inputs of these operators say where to split rows.
  if (opType === "Split" || opType === "Slice") return tensors.isRows(inputs[0]!);
  return inputs.every((name, i) => {
    const axes = tensors.countConstantAxes(name);
    // A product may have any matrix; other operators only inputs that are the same for all tokens.
    if (axes !== undefined) return axes <= 1 || (opType.startsWith("MatMul") && i > 0);
    return name === "" || (tensors.isRows(name) && !(opType === "MatMul" && i > 0));
  });
}

/** Inserts a pick of the first row wherever row-wise nodes begin. */
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
