/**
 * Adapts a cut graph to the kernels of a device.
 *
 * @module
 */
import { lookUpInputs, takeEmbedding } from "../graph/cut/embedding_lookup.ts";
import { type GraphCut, mapModels } from "../graph/graph_cut.ts";
import { splitRowsForHeads } from "../graph/rewrite/head_parts.ts";
import { type MergeOptions, mergeProducts } from "./merge_products.ts";
import { divideLargeProducts, padProducts, readTiedTable } from "../graph/rewrite/fit_products.ts";
import { widenTensor } from "../graph/file/stored_range.ts";
import { toDtypeCode } from "../graph/file/tensor.ts";
import {
  getOpset,
  int64Tensor,
  makeNode,
  type ModelProto,
  type Node,
  readIntAttribute,
  readIntsAttribute,
  withGraph,
} from "../graph/file/proto.ts";
import { findLiveNodes, GraphIndex, readIntegers, readVector } from "../graph/graph_index.ts";
import { widenCut } from "../graph/rewrite/widen_cut.ts";

/**
 * Adapts a cut to a GPU. It removes nodes that do nothing, makes lookups read token ids and positions directly, takes
 * the embedding table out of the graph, and makes a tied vocabulary projection read that table. It also joins products
 * of the same rows, and pads or divides weights that kernels cannot read unchanged.
 *
 * @param maxBufferBytes maximum number of bytes of a buffer that a kernel reads.
 */
export function cutForGpu(cut: GraphCut, maxBufferBytes: number): GraphCut {
  const read = readTiedTable(takeEmbedding(lookUpInputs(mapModels(cut, dropIdleNodes))));
  const options = { maxBytes: maxBufferBytes, outputsMultiple: 4 };
  const joined = mapModels(mergeCutProducts(read, options), padProducts);
  return divideLargeProducts(joined, maxBufferBytes);
}

/** Maximum number of outputs that a CPU kernel computes at a time: 8 for weights in f32, 4 for weights of 4 bits. */
const OUTPUTS_AT_ONCE = 8;

/**
 * Adapts a cut to the CPU: makes lookups read token ids and positions directly, widens f16, and takes a packed
 * embedding table out of the graph, because no kernel reads rows of such a table.
 */
export function adaptForCpu(cut: GraphCut): GraphCut {
  return takeEmbedding(widenCut(lookUpInputs(cut)), { isPacked: true });
}

/**
 * Adapts a cut further, to be compiled to Hearth's kernels on the CPU: joins products of the same rows, pads quantised
 * matrices, and replaces f16 tables by f32 ones. ONNX Runtime runs the cut before these changes, because it maps the
 * weights in the model's file unchanged.
 */
export function cutForCpu(cut: GraphCut): GraphCut {
  const options = { maxBytes: Infinity, outputsMultiple: OUTPUTS_AT_ONCE };
  const joined = mergeCutProducts(mapModels(cut, widenTables), options);
  return mapModels(joined, (model) => padProducts(model, "MatMulNBits"));
}

/** Replaces f16 tables whose rows are cast to f32 by f32 tables, which are widened when they are read. */
function widenTables(model: ModelProto): ModelProto {
  const index = new GraphIndex(model.graph);
  const casts = new Map<Node, Node>();
  for (const node of model.graph.nodes) {
    const table = node.opType === "Gather" ? index.constants.get(node.inputs[0]!) : undefined;
    const cast = table?.dtype === "float16" ? index.onlyConsumer(node.outputs[0]!) : undefined;
    const isWide = cast?.opType === "Cast" &&
      readIntAttribute(cast, "to") === toDtypeCode("float32");
    if (isWide) casts.set(cast, node);
  }
  if (casts.size === 0) return model;
  const lookups = new Set(casts.values());
  const toName = (table: string) => `${table}/float32`;
  const nodes = model.graph.nodes.flatMap((node) => {
    if (lookups.has(node)) return [];
    const lookup = casts.get(node);
    if (lookup === undefined) return [node];
    const [table, numbers] = lookup.inputs as [string, string];
    return [{ ...lookup, inputs: [toName(table), numbers], outputs: node.outputs }];
  });
  const tables = new Set([...lookups].map(({ inputs }) => inputs[0]!));
  const widened = model.graph.initializers.filter(({ name }) => tables.has(name))
    .map((source) => ({ ...widenTensor(source), name: toName(source.name) }));
  const initializers = [...model.graph.initializers, ...widened];
  return withGraph(model, { nodes, initializers });
}

/**
 * Joins products of the same rows in each segment. Slices and splits of their results that would prevent this are
 * replaced first; see {@linkcode mergeProducts}, {@linkcode slicesToSplits} and {@linkcode splitRowsForHeads}.
 */
export function mergeCutProducts(cut: GraphCut, options: MergeOptions): GraphCut {
  const sizes = new Set(cut.attentions.flatMap(({ headDim, vHeadDim }) => [headDim, vHeadDim]));
  return mapModels(
    cut,
    (model) => mergeProducts(slicesToSplits(splitRowsForHeads(model, sizes)), options),
  );
}

/**
 * Reduces `Transpose(Cast(Transpose(x)))` to `Cast(x)` if one transpose undoes the other, and `Identity` of a constant
 * to the constant.
 */
function dropIdleNodes(model: ModelProto): ModelProto {
  return cancelTransposes(readConstants(model));
}

function readConstants(model: ModelProto): ModelProto {
  const { graph } = model;
  const index = new GraphIndex(graph);
  const originals = new Map(graph.nodes.flatMap(({ opType, inputs, outputs }) => {
    const isCopy = opType === "Identity" && index.constants.has(inputs[0]!) &&
      !index.isOutput(outputs[0]!);
    return isCopy ? [[outputs[0]!, inputs[0]!]] : [];
  }));
  if (originals.size === 0) return model;
  const nodes = graph.nodes.flatMap((node) =>
    originals.has(node.outputs[0]!)
      ? []
      : [{ ...node, inputs: node.inputs.map((name) => originals.get(name) ?? name) }]
  );
  return withGraph(model, { nodes });
}

function cancelTransposes(model: ModelProto): ModelProto {
  const { graph } = model;
  const index = new GraphIndex(graph);
  const replaced = new Map<Node, readonly Node[]>();
  for (const last of graph.nodes) {
    if (last.opType !== "Transpose") continue;
    const casts: Node[] = [];
    let node = index.producers.get(last.inputs[0]!);
    for (; node?.opType === "Cast"; node = index.producers.get(node.inputs[0]!)) {
      casts.unshift(node);
    }
    if (node?.opType !== "Transpose" || !undoes(node, last)) continue;
    const [input] = node.inputs as [string];
    const steps = casts.length > 0 ? casts : [makeNode("Identity", [], [])];
    replaced.set(
      last,
      steps.map((step, i) => ({
        ...step,
        name: `${last.name}/${i}`,
        inputs: [i === 0 ? input : `${last.outputs[0]}/step_${i - 1}`],
        outputs: [i === steps.length - 1 ? last.outputs[0]! : `${last.outputs[0]}/step_${i}`],
      })),
    );
  }
  if (replaced.size === 0) return model;
  const nodes = graph.nodes.flatMap((node) => replaced.get(node) ?? [node]);
  const live = findLiveNodes(nodes, graph.outputs.map(({ name }) => name));
  return withGraph(model, { nodes: live });
}

function undoes(first: Node, second: Node): boolean {
  const [one, other] = [first, second].map((node) => readIntsAttribute(node, "perm"));
  return one !== undefined && other?.length === one.length &&
    other.every((axis, i) => one[axis] === i);
}

/** From this opset on, `Split` takes its sizes as an input. */
const SPLIT_BY_INPUT = 13;

/** The outputs that a slice takes. */
interface Part {
  readonly node: Node;
  readonly from: number;
  readonly to: number;
}

/**
 * Replaces slices of a product's outputs (queries, keys and values of one matrix; gate and up) by one split, whose
 * parts kernels can read in place. Together the slices must take each output once.
 */
export function slicesToSplits(model: ModelProto): ModelProto {
  if (getOpset(model) < SPLIT_BY_INPUT) return model;
  const index = new GraphIndex(model.graph);
  const slices = model.graph.nodes.filter(({ opType }) => opType === "Slice");
  const replaced = new Map<Node, readonly Node[]>();
  const sizes: ReturnType<typeof int64Tensor>[] = [];
  for (const [input, nodes] of Map.groupBy(slices, ({ inputs }) => inputs[0]!)) {
    const width = countOutputs(index, input);
    if (width === undefined || nodes.length < 2) continue;
    const parts = nodes.flatMap((node) => readPart(index, node, width) ?? [])
      .sort((a, b) => a.from - b.from);
    const isWhole = parts.length === nodes.length && parts.at(-1)!.to === width &&
      parts.every(({ from }, i) => from === (parts[i - 1]?.to ?? 0));
    if (!isWhole) continue;
    const lengths = parts.map(({ from, to }) => to - from);
    const size = int64Tensor(`${input}/sizes`, [lengths.length], lengths);
    const outputs = parts.map(({ node }) => node.outputs[0]!);
    sizes.push(size);
    for (const node of nodes) replaced.set(node, []);
    replaced.set(nodes[0]!, [
      makeNode("Split", [input, size.name], outputs, { attributes: { axis: -1 } }),
    ]);
  }
  if (replaced.size === 0) return model;
  const { graph } = model;
  const nodes = graph.nodes.flatMap((node) => replaced.get(node) ?? [node]);
  return withGraph(model, { nodes, initializers: [...graph.initializers, ...sizes] });
}

/** The number of outputs of the product behind a tensor `[1, tokens, outputs]`, with or without a bias. */
function countOutputs(index: GraphIndex, name: string): number | undefined {
  const node = index.producers.get(name);
  if (node?.opType === "MatMulNBits") return readIntAttribute(node, "N");
  if (node?.opType === "MatMul") {
    const shape = index.constants.get(node.inputs[1]!)?.shape;
    return shape?.length === 2 ? shape[1] : undefined;
  }
  if (node?.opType !== "Add") return undefined;
  const product = node.inputs.find((input) => readVector(index, input) === undefined);
  return node.inputs.length === 2 && product ? countOutputs(index, product) : undefined;
}

/** The contiguous range of a row that a slice takes. */
function readPart(index: GraphIndex, node: Node, width: number): Part | undefined {
  const [starts, ends, axes, steps = [1]] = node.inputs.slice(1).map((name) =>
    readIntegers(index, name)
  );
  const isRow = axes?.length === 1 && (axes[0] === -1 || axes[0] === 2) && steps[0] === 1;
  const [from, end] = [starts?.[0], ends?.[0]];
  if (!isRow || from === undefined || end === undefined || from < 0 || end < 0) return undefined;
  const to = Math.min(end, width);
  return from < to ? { node, from, to } : undefined;
}
