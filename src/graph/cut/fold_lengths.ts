/**
 * Folds the arithmetic on lengths in a graph whose attentions are kernel nodes. With one sequence per run, most values
 * that exporters compute from `Shape` are then constant, and those that they compute from masks and past lengths are
 * positions.
 *
 * @module
 */
import { isIndexDtype } from "../file/tensor.ts";
import { Evaluation } from "../evaluate/evaluation.ts";
import type { Value } from "../evaluate/value.ts";
import { COPYING, eitherInput, findLiveNodes, followBack, GraphIndex } from "../graph_index.ts";
import {
  type Graph,
  hasSubgraph,
  int64Tensor,
  makeNode,
  type Node,
  type Tensor,
} from "../file/proto.ts";
import { makeValueInfo } from "../file/proto_codec.ts";
import type { DecoderInputs, Probes } from "../probes.ts";
import { isKernelNode } from "../attention/replace_attentions.ts";

/** Name of the input for positions that is added to a graph without one. */
const POSITIONS = "position_ids";
/** Maximum number of elements of a tensor that is folded: larger ones are data, not lengths. */
const MAX_FOLDED = 64;

/** The names of the tensors that depend on any of the sources, except through a kernel node. */
export function findDependents(nodes: readonly Node[], sources: Iterable<string>): Set<string> {
  const reached = new Set(sources);
  for (const node of nodes) {
    if (isKernelNode(node) || !node.inputs.some((input) => reached.has(input))) continue;
    for (const output of node.outputs) if (output !== "") reached.add(output);
  }
  return reached;
}

/** Maximum number of elements of a vector that is computed from constants alone. */
const MAX_VECTOR = 4096;

/** Computes small vectors of floats that depend on constants alone, such as `-exp(A)` of linear attention. */
export function foldConstants(graph: Graph): Graph {
  const known = new Set(graph.initializers.map(({ name }) => name));
  const fixed = graph.nodes.filter((node) => {
    const isFixed = node.inputs.length > 0 && !hasSubgraph(node) &&
      node.inputs.every((name) => name === "" || known.has(name));
    if (isFixed) { for (const name of node.outputs) known.add(name); }
    return isFixed;
  });
  if (fixed.length === 0) return graph;
  const run = new Evaluation(new GraphIndex({ ...graph, nodes: fixed }), new Map());
  const folded = new Map(fixed.flatMap((node): [Node, Tensor][] => {
    const [output] = node.outputs as [string];
    const value = node.outputs.length === 1 ? run.value(output) : undefined;
    const isVector = value?.data !== undefined && value.data.length <= MAX_VECTOR &&
      (value.dtype === "float32" || value.dtype === "float16");
    return isVector ? [[node, toConstant(output, value)!]] : [];
  }));
  return {
    ...graph,
    nodes: graph.nodes.filter((node) => !folded.has(node)),
    initializers: [...graph.initializers, ...folded.values()],
  };
}

/** Operators whose results consist of elements of their first input. */
const SELECTING = new Set([...COPYING, "Slice", "Squeeze", "Unsqueeze", "Reshape"]);

/**
 * Removes products with elements of the mask, which set the states of padding to 0 (transformers' hybrid models). With
 * one sequence per run there is no padding: all elements are 1.
 */
export function dropMaskFactors(probes: Probes): Graph {
  const { index, inputs: { mask } } = probes;
  const { graph } = index;
  const isMask = (name: string) =>
    mask !== undefined && followBack(index, name, SELECTING) === mask.name;
  const nodes = graph.nodes.map((node) => {
    const factor = node.opType === "Mul"
      ? eitherInput(node, (name) => isMask(name) || undefined)
      : undefined;
    const keepsShape = factor !== undefined && probes.short().every((run) => {
      const shape = run.value(factor.other)?.shape;
      return shape !== undefined && shape.join() === run.value(node.outputs[0]!)?.shape.join();
    });
    return keepsShape ? makeNode("Identity", [factor.other], node.outputs) : node;
  });
  return nodes.every((node, i) => node === graph.nodes[i]) ? graph : { ...graph, nodes };
}

/** Makes a constant of a value; `undefined` if its type is not supported here. */
function toConstant(name: string, { dtype, shape, data }: Value): Tensor | undefined {
  const elements = data!;
  let bytes: ArrayBufferView;
  if (dtype === "int64") return int64Tensor(name, shape, [...elements]);
  if (dtype === "int32") bytes = Int32Array.from(elements);
  else if (dtype === "bool") bytes = Uint8Array.from(elements);
  else if (dtype === "float32") bytes = Float32Array.from(elements);
  else if (dtype === "float16") bytes = Float16Array.from(elements);
  else return undefined;
  const { buffer, byteLength } = bytes;
  return {
    name,
    dtype,
    shape,
    data: { kind: "memory", bytes: new Uint8Array(buffer as ArrayBuffer, 0, byteLength) },
    rest: [],
  };
}

/** The value of a small tensor that is the same in every run; `undefined` for any other tensor. */
function findConstantValue(name: string, runs: readonly Evaluation[]): Value | undefined {
  const [first, ...others] = runs.map((run) => run.value(name));
  if (!first?.data || first.data.length > MAX_FOLDED || !first.data.every(Number.isFinite)) {
    return undefined;
  }
  const text = (value: Value | undefined) => value && `${value.shape}:${value.data?.join()}`;
  return others.every((value) => text(value) === text(first)) ? first : undefined;
}

/** The target sizes of a `Reshape`, with -1 for the tokens' axis; `undefined` if several sizes depend on the run. */
function reshapeTarget(output: string, runs: readonly Evaluation[]): number[] | undefined {
  const shapes = runs.map((run) => run.value(output)?.shape);
  const [first] = shapes;
  if (first === undefined || shapes.some((shape) => shape?.length !== first.length)) {
    return undefined;
  }
  const target = first.map((size, axis) =>
    shapes.every((shape) => shape![axis] === size) ? size : -1
  );
  return target.filter((size) => size === -1).length <= 1 && !target.includes(0)
    ? target
    : undefined;
}

/**
 * The target sizes of an `Expand`, with 1 for axes that keep their size; `undefined` if another size differs from run
 * to run.
 */
function expandTarget(
  { inputs, outputs }: Node,
  runs: readonly Evaluation[],
): number[] | undefined {
  const [before, after] = [inputs[0]!, outputs[0]!].map((name) =>
    runs.map((run) => run.value(name)?.shape ?? [])
  ) as [number[][], number[][]];
  const rank = after[0]!.length;
  if (rank === 0 || after.some(({ length }) => length !== rank)) return undefined;
  const target = after[0]!.map((size, axis) => {
    const isKept = after.every((shape, i) => before[i]!.at(axis - rank) === shape[axis]);
    return isKept ? 1 : after.every((shape) => shape[axis] === size) ? size : NaN;
  });
  return target.every(Number.isInteger) ? target : undefined;
}

/** Builds the nodes that replace folded ones. */
class Folder {
  readonly constants: Tensor[] = [];
  usesPositions = false;
  /** Whether the graph computes positions by testing ids for padding. */
  skipsPadding = false;
  readonly #index: GraphIndex;
  readonly #probes: Probes;
  readonly #runs: readonly Evaluation[];
  readonly #fromInputs: ReadonlySet<string>;
  /** Tensors that may hold positions: in a decoder those that depend on the past or the mask, in an encoder all. */
  readonly #mayBePositions: ReadonlySet<string>;
  readonly #folded = new Set<string>();
  /** Positions that are counted from ids, and tensors that are computed from them. */
  readonly #counted = new Set<string>();

  constructor(probes: Probes, contextLength: number) {
    this.#probes = probes;
    this.#index = probes.index;
    const { nodes } = this.#index.graph;
    const { mask, caches } = probes.inputs;
    this.#fromInputs = findDependents(nodes, [
      ...this.#index.inputs.keys(),
      ...nodes.filter(isKernelNode).flatMap(({ outputs }) => outputs),
    ]);
    this.#mayBePositions = caches.size === 0
      ? this.#fromInputs
      : findDependents(nodes, mask ? [...caches, mask.name] : caches);
    this.#runs = [...probes.short(), probes.long(contextLength)];
  }

  /** The nodes that replace a node. */
  replace(node: Node): readonly Node[] {
    const [output, ...more] = node.outputs;
    if (isKernelNode(node) || more.length > 0 || !this.#fromInputs.has(output!)) return [node];
    const value = findConstantValue(output!, this.#runs);
    const constant = value && toConstant(output!, value);
    if (constant !== undefined) {
      this.constants.push(constant);
      this.#folded.add(output!);
      return [];
    }
    if (node.inputs.some((input) => this.#counted.has(input)) && this.#isIndex(output!)) {
      // These positions depend on padding, so nodes that compute with them stay.
      this.#counted.add(output!);
      return [node];
    }
    const offset = this.#findPositionOffset(output!);
    if (offset !== undefined) return this.#positions(output!, offset);
    return [
      node.opType === "Reshape"
        ? this.#resize(node, () => reshapeTarget(output!, this.#runs))
        : node.opType === "Expand"
        ? this.#resize(node, () => expandTarget(node, this.#runs))
        : node,
    ];
  }

  /** Makes the sizes of a `Reshape` or an `Expand` constant, if constant sizes have the same effect. */
  #resize(node: Node, find: () => number[] | undefined): Node {
    const [input, sizes] = node.inputs as [string, string];
    const isConstant = this.#index.constants.has(sizes) || this.#folded.has(sizes) ||
      !this.#fromInputs.has(sizes);
    const target = isConstant ? undefined : find();
    if (target === undefined) return node;
    const constant = int64Tensor(`${node.outputs[0]}/sizes`, [target.length], target);
    this.constants.push(constant);
    return makeNode(node.opType, [input, constant.name], node.outputs, { name: node.name });
  }

  /** The constant that a tensor adds to the positions; `undefined` if it does not hold positions. */
  #findPositionOffset(name: string): number | undefined {
    return this.#mayBePositions.has(name) && this.#isIndex(name)
      ? this.#probes.positionOffset(name)
      : undefined;
  }

  #isIndex(name: string): boolean {
    const value = this.#runs[0]!.value(name);
    return value !== undefined && isIndexDtype(value.dtype);
  }

  /** Whether a tensor depends on the ids. */
  #isFromIds(name: string): boolean {
    const { tokens, padTokenId } = this.#probes.inputs;
    const ids = this.#runs[0]!.value(tokens.name);
    if (padTokenId === undefined || ids === undefined) return false;
    const unknown = { ...ids, data: undefined };
    return this.#runs[0]!.valueWith(name, new Map([[tokens.name, unknown]]))?.data === undefined;
  }

  /** Converts the graph's positions input to the shape and type of a computed tensor of positions. */
  #positions(output: string, offset: number): Node[] {
    this.usesPositions = true;
    if (this.#isFromIds(output)) {
      this.skipsPadding = true;
      this.#counted.add(output);
    }
    const { dtype, shape } = this.#runs[0]!.value(output)!;
    const sizes = shape.map((size) => size === 1 ? 1 : -1);
    const constant = int64Tensor(`${output}/sizes`, [sizes.length], sizes);
    this.constants.push(constant);
    const input = this.#probes.inputs.positions?.name ?? POSITIONS;
    const steps = [{ opType: "Reshape", more: [constant.name], attributes: {} }];
    if (offset !== 0) {
      const added = int64Tensor(`${output}/offset`, [1], [offset]);
      this.constants.push(added);
      steps.push({ opType: "Add", more: [added.name], attributes: {} });
    }
    if (dtype !== "int64") steps.push({ opType: "Cast", more: [], attributes: { to: 6 } });
    return steps.map(({ opType, more, attributes }, i) => {
      const from = i === 0 ? input : `${output}/positions_${i - 1}`;
      const to = i === steps.length - 1 ? output : `${output}/positions_${i}`;
      return makeNode(opType, [from, ...more], [to], { attributes });
    });
  }
}

/** A graph without arithmetic on lengths, and its inputs, to which positions may have been added. */
interface FoldedGraph {
  readonly graph: Graph;
  readonly inputs: DecoderInputs;
}

/**
 * Folds tensors that are constant, gives `Reshape` and `Expand` constant sizes, and makes the graph read positions from
 * an input.
 *
 * @param probes of a graph whose attentions are kernel nodes.
 * @param wanted the outputs to keep.
 */
export function foldLengths(
  probes: Probes,
  contextLength: number,
  wanted: readonly string[],
): FoldedGraph {
  const { graph } = probes.index;
  const folder = new Folder(probes, contextLength);
  const nodes = graph.nodes.flatMap((node) => folder.replace(node));
  const needsInput = folder.usesPositions && probes.inputs.positions === undefined;
  const positions = needsInput
    ? makeValueInfo(POSITIONS, "int64", [1, "tokens"])
    : probes.inputs.positions;
  return {
    graph: {
      ...graph,
      nodes: findLiveNodes(nodes, wanted),
      initializers: [...graph.initializers, ...folder.constants],
      inputs: needsInput ? [...graph.inputs, positions!] : graph.inputs,
    },
    inputs: { ...probes.inputs, positions, skipsPadding: folder.skipsPadding },
  };
}
