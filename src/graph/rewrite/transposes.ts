/**
 * Moves transposes from one graph to another, adds them to a graph's outputs, or removes them.
 *
 * @module
 */
import {
  attribute,
  type Graph,
  intAttribute,
  intsAttribute,
  makeNode,
  type ModelProto,
  type Node,
  type ValueInfo,
  withGraph,
} from "../file/proto.ts";
import { makeValueInfo } from "../file/proto_codec.ts";
import { ELEMENTWISE_RULES } from "../evaluate/elementwise.ts";
import { countElements } from "../file/tensor.ts";
import { GraphIndex, liveNodes } from "../graph_index.ts";

/**
 * Moves transposes from `user`, a graph that runs often, to `maker`, which computes its inputs and runs once. An input
 * is transposed there if `user` only reads it through a transpose.
 *
 * @param toOutput returns the output of `maker` that becomes an input of `user`; `undefined` for other inputs.
 */
export function hoistTransposes(
  { maker, user }: { readonly maker: ModelProto; readonly user: ModelProto },
  toOutput: (input: string) => string | undefined,
): { maker: ModelProto; user: ModelProto } {
  const hoisted = new Map<string, Node>();
  for (const { name } of user.graph.inputs) {
    const readers = user.graph.nodes.filter(({ inputs }) => inputs.includes(name));
    const [only] = readers;
    if (readers.length !== 1 || only!.opType !== "Transpose" || !toOutput(name)) continue;
    if (intsAttribute(only!, "perm") !== undefined) hoisted.set(name, only!);
  }
  const inputByOutput = new Map([...hoisted].map(([input, { outputs }]) => [outputs[0]!, input]));
  const transposes = new Map([...hoisted].map(([input, node]) => [toOutput(input)!, node]));
  return {
    user: withGraph(user, {
      nodes: user.graph.nodes
        .filter((node) => hoisted.get(node.inputs[0] ?? "") !== node)
        .map((node) => ({
          ...node,
          inputs: node.inputs.map((name) => inputByOutput.get(name) ?? name),
        })),
      inputs: user.graph.inputs.map((input) => permute(input, hoisted.get(input.name))),
    }),
    maker: withGraph(maker, {
      nodes: [
        ...maker.graph.nodes.map((node) => ({
          ...node,
          outputs: node.outputs.map((name) => transposes.has(name) ? plainName(name) : name),
        })),
        ...[...transposes].map(([name, node]): Node => ({
          ...makeNode("Transpose", [plainName(name)], [name], { name: `${name}_hoisted` }),
          attributes: node.attributes,
        })),
      ],
      outputs: maker.graph.outputs.map((output) => permute(output, transposes.get(output.name))),
    }),
  };
}

function plainName(name: string): string {
  return `${name}_plain`;
}

function permute(value: ValueInfo, transpose: Node | undefined): ValueInfo {
  const { name, dtype, shape } = value;
  if (transpose === undefined || dtype === undefined || shape === undefined) return value;
  const sizes = intsAttribute(transpose, "perm")!.map((axis) => shape[axis] ?? `size_${axis}`);
  return makeValueInfo(name, dtype, sizes);
}

/** Transposes all outputs from `[batch, heads, tokens, size]` to `[batch, tokens, heads, size]`. */
export function swapHeadsAndTokens(model: ModelProto): ModelProto {
  const { nodes, outputs } = model.graph;
  const parted = new Map(outputs.map(({ name }) => [name, `${name}/heads`]));
  const rename = (names: readonly string[]) => names.map((name) => parted.get(name) ?? name);
  return withGraph(model, {
    nodes: [
      ...nodes.map((node) => ({
        ...node,
        inputs: rename(node.inputs),
        outputs: rename(node.outputs),
      })),
      ...[...parted].map(([name, heads]) =>
        makeNode("Transpose", [heads], [name], {
          attributes: { perm: [0, 2, 1, 3] },
          name: `${name}/swap`,
        })
      ),
    ],
    outputs: outputs.map(({ name, dtype, shape = [] }) => {
      const [batch, heads, tokens, size] = shape.map((each, axis) => each ?? `${name}/${axis}`);
      return makeValueInfo(name, dtype!, [batch!, tokens!, heads!, size!]);
    }),
  });
}

const SWAP = "0,2,1";

/**
 * Reduces `Transpose(f(Transpose(x)))` to `f(x)`, where `f` consists of elementwise operators, `Split` and `Concat`.
 * Exporters transpose to `[batch, channels, tokens]` and back around a convolution.
 *
 * @param wanted the outputs to keep.
 */
export function computeTokenMajor(graph: Graph, wanted: readonly string[]): Graph {
  const index = new GraphIndex(graph);
  /** For tensors whose last axis is the tokens: a tensor with the same elements, token-major. */
  const twins = new Map<string, string>();
  const nodes = graph.nodes.flatMap((node): Node[] => {
    const [input, output] = [node.inputs[0]!, node.outputs[0]!];
    if (node.opType === "Transpose" && intsAttribute(node, "perm")?.join() === SWAP) {
      const twin = twins.get(input);
      if (twin !== undefined) return [makeNode("Identity", [twin], [output])];
      twins.set(output, input);
      return [node];
    }
    const twin = findTwin(index, node, twins);
    if (twin === undefined) return [node];
    node.outputs.forEach((name, i) => twins.set(name, twin.outputs[i]!));
    return [node, twin];
  });
  return { ...graph, nodes: liveNodes(nodes, wanted) };
}

/**
 * Makes a node that computes the same as another, but token-major, from the token-major twins of its inputs;
 * `undefined` if that is not possible.
 */
function findTwin(
  { constants }: GraphIndex,
  node: Node,
  twins: ReadonlyMap<string, string>,
): Node | undefined {
  const isJoining = node.opType === "Split" || node.opType === "Concat";
  if (!isJoining && !(node.opType in ELEMENTWISE_RULES)) return undefined;
  if (!node.inputs.some((name) => twins.has(name))) return undefined;
  const inputs = node.inputs.map((name, i) => {
    const twin = twins.get(name);
    const constant = constants.get(name);
    const isSizes = node.opType === "Split" && i === 1;
    const isScalar = constant !== undefined && countElements(constant.shape) === 1 && !isJoining;
    return twin ?? (isSizes || isScalar ? name : undefined);
  });
  if (inputs.includes(undefined)) return undefined;
  const axis = intAttribute(node, "axis") ?? 0;
  if (isJoining && axis !== 1 && axis !== -2) return undefined;
  return {
    ...node,
    name: `${node.outputs[0]}/token_major`,
    inputs: inputs as string[],
    outputs: node.outputs.map((name) => `${name}/token_major`),
    attributes: isJoining
      ? [...node.attributes.filter(({ name }) => name !== "axis"), attribute("axis", 2)]
      : node.attributes,
  };
}
