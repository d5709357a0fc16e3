/**
 * The layout of tokens' rows: moves and removes transposes, divides rows so that kernels can read the parts in place,
 * and keeps the tokens on an axis of their own.
 *
 * @module
 */
import {
  attribute,
  type Graph,
  hasSubgraph,
  int64Tensor,
  makeNode,
  type ModelProto,
  type Node,
  readIntAttribute,
  readIntsAttribute,
  type Tensor,
  type ValueInfo,
  withGraph,
} from "../file/proto.ts";
import { makeValueInfo } from "../file/proto_codec.ts";
import { ELEMENTWISE_RULES } from "../evaluate/elementwise.ts";
import { countElements } from "../file/tensor.ts";
import { findLiveNodes, GraphIndex, readScalar } from "../graph_index.ts";
import { type Probes, SHORT_LENGTHS } from "../probes.ts";

/**
 * Moves transposes from `user`, a graph that runs often, to `maker`, which computes its inputs and runs once. An input
 * is transposed in `maker` if `user` only reads it through a transpose.
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
    if (readIntsAttribute(only!, "perm") !== undefined) hoisted.set(name, only!);
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
  const sizes = readIntsAttribute(transpose, "perm")!.map((axis) => shape[axis] ?? `size_${axis}`);
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
  /** Token-major tensors with the same elements, by the names of tensors whose last axis is the tokens. */
  const twins = new Map<string, string>();
  const nodes = graph.nodes.flatMap((node): Node[] => {
    const [input, output] = [node.inputs[0]!, node.outputs[0]!];
    if (node.opType === "Transpose" && readIntsAttribute(node, "perm")?.join() === SWAP) {
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
  return { ...graph, nodes: findLiveNodes(nodes, wanted) };
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
  const axis = readIntAttribute(node, "axis") ?? 0;
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

/**
 * Replaces lookups in the layers' axis of a tensor `[1, tokens, layers, width]` by one split of each token's row. The
 * tensor holds inputs of each layer in Gemma 3n and 4.
 */
export function splitLayerInputs(probes: Probes): Graph {
  const { index } = probes;
  const { graph } = index;
  const lookups = Map.groupBy(
    graph.nodes.filter((node) => isLookup(index, node)),
    (node) => node.inputs[0]!,
  );
  const replaced = new Map<Node, readonly Node[]>();
  const constants: Tensor[] = [];
  for (const [tensor, nodes] of lookups) {
    const shape = probes.at(SHORT_LENGTHS[0]).value(tensor)?.shape;
    if (shape?.length !== 4 || nodes.length < 2) continue;
    const [, , numLayers, width] = shape as [number, number, number, number];
    const ints = (name: string, values: readonly number[]) => {
      const constant = int64Tensor(`${tensor}/${name}`, [values.length], values);
      constants.push(constant);
      return constant.name;
    };
    const parts = Array.from({ length: numLayers }, (_, layer) => `${tensor}/layer_${layer}`);
    const row = `${tensor}/row`;
    const split = [
      makeNode("Reshape", [tensor, ints("row_shape", [0, 0, numLayers * width])], [row]),
      makeNode("Split", [row, ints("widths", parts.map(() => width))], parts, {
        attributes: { axis: -1 },
      }),
    ];
    nodes.forEach((node, i) => {
      const layer = readScalar(index, node.inputs[1])!;
      const part = parts[layer < 0 ? layer + numLayers : layer]!;
      const identity = makeNode("Identity", [part], node.outputs);
      replaced.set(node, i === 0 ? [...split, identity] : [identity]);
    });
  }
  if (replaced.size === 0) return graph;
  const nodes = graph.nodes.flatMap((node) => replaced.get(node) ?? [node]);
  return { ...graph, nodes, initializers: [...graph.initializers, ...constants] };
}

/** Whether a node takes the part of one layer, without the layers' axis. */
function isLookup(index: GraphIndex, node: Node): boolean {
  const [, layer] = node.inputs;
  const isOfLayers = node.opType === "Gather" && readIntAttribute(node, "axis") === 2;
  return isOfLayers && index.constants.get(layer!)?.shape.length === 0;
}

/** Operators that compute each element by itself, or each row along its last axis. */
const ROWWISE = new Set(
  ("Add Sub Mul Div Neg Cast Identity Sigmoid Tanh Softplus Exp Relu Gelu QuickGelu Silu Swish " +
    "RMSNormalization SimplifiedLayerNormalization LayerNormalization").split(" "),
);

/**
 * If a graph reshapes rows `[1, tokens, heads * size]` to `[tokens * heads, size]`, gives the heads an axis of their
 * own, so that tensors that are computed from them can cross between segments.
 */
export function keepTokenAxis(probes: Probes): Graph {
  const { index } = probes;
  const { graph } = index;
  const joins = graph.nodes.flatMap((node) => {
    const sizes = node.opType === "Reshape" ? readJoin(probes, node) : undefined;
    return sizes === undefined ? [] : [{ node, sizes }];
  });
  const reached = new Set(joins.flatMap(({ node }) => node.outputs));
  const isSmall = (name: string) => (index.constants.get(name)?.shape.length ?? 9) < 2;
  for (const { opType, inputs, outputs } of graph.nodes) {
    if (ROWWISE.has(opType) && inputs.some((name) => reached.has(name))) {
      for (const name of outputs) reached.add(name);
    }
  }
  const isKept = graph.nodes.every(({ opType, inputs }) => {
    if (!inputs.some((name) => reached.has(name))) return true;
    if (ROWWISE.has(opType)) return inputs.every((name) => reached.has(name) || isSmall(name));
    const target = probes.at(SHORT_LENGTHS[0]).value(inputs[1] ?? "")?.data;
    return opType === "Reshape" && target !== undefined && !target.includes(0);
  });
  if (joins.length === 0 || !isKept || graph.outputs.some(({ name }) => reached.has(name))) {
    return graph;
  }
  const constants = joins.map(({ node, sizes }) =>
    int64Tensor(`${node.outputs[0]}/heads`, [4], [0, 0, ...sizes])
  );
  const replaced = new Map(
    joins.map(({ node }, i) => [node, { ...node, inputs: [node.inputs[0]!, constants[i]!.name] }]),
  );
  return {
    ...graph,
    nodes: graph.nodes.map((node) => replaced.get(node) ?? node),
    initializers: [...graph.initializers, ...constants],
  };
}

/** Number and size of the heads that a `Reshape` joins with the tokens; `undefined` if it does something else. */
function readJoin(probes: Probes, node: Node): [heads: number, size: number] | undefined {
  const read = (name: string) => probes.short().map((run) => run.value(name)?.shape ?? []);
  const [from, to] = [read(node.inputs[0]!), read(node.outputs[0]!)];
  const [, , width = 0] = from[0]!;
  const size = to[0]![1] ?? 0;
  const heads = width / size;
  const isJoin = Number.isInteger(heads) && heads > 1 && from.every((shape, i) => {
    const { numTokens } = SHORT_LENGTHS[i]!;
    return shape.join() === [1, numTokens, width].join() &&
      to[i]!.join() === [numTokens * heads, size].join();
  });
  return isJoin ? [heads, size] : undefined;
}

/**
 * Removes nodes that keep their input's shape and move nothing: reshapes to the same sizes, and transpositions that
 * only swap axes of size 1 (Falcon).
 */
export function dropIdleMoves(probes: Probes): Graph {
  const { index } = probes;
  const { graph } = index;
  const originals = new Map<string, string>();
  const isIdle = (node: Node) => {
    const [[input], [output]] = [node.inputs, node.outputs] as [[string], [string]];
    const perm = node.opType === "Reshape" ? [] : readIntsAttribute(node, "perm");
    if ((node.opType !== "Reshape" && node.opType !== "Transpose") || perm === undefined) {
      return false;
    }
    return !index.isOutput(output) && !index.constants.has(input) && probes.short().every((run) => {
      const [before, after] = [input, output].map((name) => run.value(name)?.shape);
      const moved = perm.filter((axis) => before?.[axis] !== 1);
      return before !== undefined && before.join() === after?.join() &&
        moved.every((axis, i) => i === 0 || axis > moved[i - 1]!);
    });
  };
  // Nested graphs read tensors by name.
  if (graph.nodes.some(hasSubgraph)) return graph;
  const nodes = graph.nodes.flatMap((node) => {
    const read = { ...node, inputs: node.inputs.map((name) => originals.get(name) ?? name) };
    if (!isIdle(node)) return [read];
    originals.set(node.outputs[0]!, read.inputs[0]!);
    return [];
  });
  return originals.size === 0 ? graph : { ...graph, nodes };
}
