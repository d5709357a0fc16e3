/**
 * Lookups of rows by token id or position: takes the lookup of token embeddings out of a graph, and makes other lookups
 * read the graph's inputs directly. The embedding table is often the largest weight of a model, yet a step reads only
 * one row per token.
 *
 * @module
 */
import { type GraphCut, rebuildSegment, type Segment, type TensorPort } from "../graph_cut.ts";
import { countStoredBytes, sliceRows, type TensorType, toDtypeCode } from "../file/tensor.ts";
import { findLiveNodes, GraphIndex, isIndex } from "../graph_index.ts";
import {
  type Graph,
  hasSubgraph,
  int64Tensor,
  listRead,
  makeNode,
  type ModelProto,
  type Node,
  readIntAttribute,
  type Tensor,
  withGraph,
} from "../file/proto.ts";
import { makeValueInfo } from "../file/proto_codec.ts";
import { toValue } from "../evaluate/value.ts";

/** Types of packed tables: bytes that hold numbers of 1 to 8 bits (an attribute says which), or 4-bit types. */
const TABLE_DTYPES: ReadonlySet<TensorType> = new Set(["uint8", "int4", "uint4"]);
/** Widths of the numbers in packed tables. */
const TABLE_BITS = [1, 2, 4, 8] as const;

/** A lookup in a table, which is plain or quantised in blocks along its rows. */
export interface EmbeddingLookup {
  /** Token ids of the graph, int64. */
  readonly ids: string;
  /** The result, `[...ids, width]`. */
  readonly output: string;
  /** Type of the result. If it is float32, the table may still be float16. */
  readonly dtype: "float32" | "float16";
  readonly numRows: number;
  readonly width: number;
  /** `[numRows, width]`, or packed. */
  readonly values: Tensor;
  readonly quantized?: {
    readonly bits: typeof TABLE_BITS[number];
    readonly blockSize: number;
    /** `[numRows, blocks]` */
    readonly scales: Tensor;
    /** Packed like the values. If absent, they are `2 ** (bits - 1)` for values in bytes, and 0 for 4-bit types. */
    readonly zeroPoints?: Tensor | undefined;
  };
}

/** A graph without its lookup, and the lookup. */
interface TakenLookup {
  readonly lookup: EmbeddingLookup;
  /** The remaining graph, with the result of the lookup as an input of the same name. It may have no nodes left. */
  readonly rest: ModelProto;
}

function toLookup(node: Node, constants: ReadonlyMap<string, Tensor>): EmbeddingLookup | undefined {
  const [values, , scales, zeroPoints] = node.inputs.map((name) => constants.get(name));
  const [numRows, packedWidth] = values?.shape ?? [];
  if (values === undefined || packedWidth === undefined || values.shape.length !== 2) return;
  const common = { ids: node.inputs[1]!, output: node.outputs[0]!, numRows: numRows!, values };
  if (node.opType === "Gather" && (readIntAttribute(node, "axis") ?? 0) === 0) {
    return isFloat(values.dtype)
      ? { ...common, dtype: values.dtype, width: packedWidth }
      : undefined;
  }
  if (node.opType !== "GatherBlockQuantized" || !TABLE_DTYPES.has(values.dtype)) return;
  const isPacked = values.dtype === "uint8";
  const storedBits = isPacked ? readIntAttribute(node, "bits") ?? 4 : 4;
  const bits = TABLE_BITS.find((each) => each === storedBits);
  const blockSize = readIntAttribute(node, "block_size") ?? 128;
  const isByRow = (readIntAttribute(node, "gather_axis") ?? 0) === 0 &&
    [1, -1].includes(readIntAttribute(node, "quantize_axis") ?? 1);
  if (!isByRow || bits === undefined || !scales || !isFloat(scales.dtype)) return;
  if (node.inputs[3] && zeroPoints?.dtype !== values.dtype) return;
  return {
    ...common,
    dtype: scales.dtype,
    width: isPacked ? packedWidth * 8 / bits : packedWidth,
    quantized: { bits, blockSize, scales, zeroPoints },
  };
}

function isFloat(dtype: TensorType): dtype is "float32" | "float16" {
  return dtype === "float32" || dtype === "float16";
}

/** The node that casts the result of a float16 lookup to float32, if nothing else reads the result. */
function findCast(graph: Graph, { output, dtype }: EmbeddingLookup): Node | undefined {
  const only = dtype === "float16" ? new GraphIndex(graph).onlyConsumer(output) : undefined;
  const isCast = only?.opType === "Cast" && readIntAttribute(only, "to") === toDtypeCode("float32");
  return isCast ? only : undefined;
}

/**
 * Takes the lookup of token embeddings out of a graph.
 *
 * @param tokens name of the input for token ids; if absent, the input that the only lookup of the graph reads.
 * @returns `undefined` if the graph has no such lookup or several, or if other nodes read the token ids.
 */
export function takeLookup(model: ModelProto, tokens?: string): TakenLookup | undefined {
  const { graph } = model;
  const constants = new Map(graph.initializers.map((tensor) => [tensor.name, tensor]));
  const found = graph.nodes.flatMap((node) => {
    const lookup = toLookup(node, constants);
    const isOfTokens = graph.inputs.some(({ name }) => name === lookup?.ids) &&
      lookup?.ids === (tokens ?? lookup?.ids);
    return lookup && isOfTokens ? [{ node, lookup }] : [];
  });
  const [only] = found;
  if (found.length !== 1) return undefined;
  const { node } = only!;
  const cast = findCast(graph, only!.lookup);
  const lookup: EmbeddingLookup = cast
    ? { ...only!.lookup, output: cast.outputs[0]!, dtype: "float32" }
    : only!.lookup;
  const nodes = graph.nodes.filter((other) => other !== node && other !== cast);
  if (nodes.some(({ inputs }) => inputs.includes(lookup.ids))) return undefined;
  const ids = graph.inputs.find(({ name }) => name === lookup.ids)!;
  const rows = makeValueInfo(lookup.output, lookup.dtype, [
    ...(ids.shape ?? ["batch", "tokens"]).map((size, axis) => size ?? `size_${axis}`),
    lookup.width,
  ]);
  return {
    lookup,
    rest: withGraph(model, {
      nodes,
      initializers: listRead(nodes, graph.initializers),
      inputs: [rows, ...graph.inputs.filter((input) => input !== ids)],
    }),
  };
}

/**
 * Splits an embeddings' graph with several lookups into graphs with one output each, which share no nodes. In Gemma 3n
 * and 4, a second lookup gives the inputs of all layers.
 *
 * @returns `[model]` if it cannot be split, or if no part would have a lookup to take.
 */
export function splitByLookup(model: ModelProto): readonly ModelProto[] {
  const { graph } = model;
  const parts = graph.outputs.map((output) => {
    const nodes = findLiveNodes(graph.nodes, [output.name]);
    const read = new Set(nodes.flatMap(({ inputs }) => inputs));
    return withGraph(model, {
      nodes,
      initializers: listRead(nodes, graph.initializers),
      inputs: graph.inputs.filter(({ name }) => read.has(name)),
      outputs: [output],
    });
  });
  const all = parts.flatMap((part) => part.graph.nodes);
  const isSplit = parts.length > 1 && !all.some(hasSubgraph) && new Set(all).size === all.length;
  return isSplit && parts.some((part) => takeLookup(part)) ? parts : [model];
}

/**
 * Moves the embedding lookup from the first segment into a graph of its own, `cut.embedding`. The cut then begins with
 * embeddings instead of token ids.
 *
 * @param options.isPacked whether to move only the lookup of a packed table.
 * @returns the cut itself if it has no such lookup, or if other nodes read the token ids.
 */
export function takeEmbedding(
  cut: GraphCut,
  { isPacked = false }: { readonly isPacked?: boolean } = {},
): GraphCut {
  const [first, ...others] = cut.segments;
  const { name, kind } = cut.tokens;
  if (kind !== "ids" || others.some(({ inputs }) => inputs.some((port) => port.name === name))) {
    return cut;
  }
  const taken = takeLookup(first!.model, name);
  if (taken === undefined || taken.rest.graph.nodes.length === 0) return cut;
  const { lookup, rest: { graph } } = taken;
  if (isPacked && lookup.quantized === undefined) return cut;
  const port: TensorPort = {
    name: lookup.output,
    dtype: lookup.dtype,
    shape: [1, "tokens", lookup.width],
  };
  // Later segments that read the embeddings find them among the inputs of the cut.
  const outputs = first!.outputs.filter((output) => output.name !== lookup.output);
  const model = withGraph(taken.rest, {
    outputs: graph.outputs.filter((output) => output.name !== lookup.output),
  });
  const segment = {
    ...first!,
    model,
    outputs,
    inputs: [port, ...first!.inputs.filter((input) => input.name !== name)],
  };
  return {
    ...cut,
    segments: [segment, ...others],
    tokens: { ...port, kind: "embeddings" },
    embedding: makeEmbeddingModel(first!.model, lookup),
  };
}

/** A model of only the lookup. */
function makeEmbeddingModel(
  model: ModelProto,
  { ids, output, dtype, width }: EmbeddingLookup,
): ModelProto {
  const { graph } = model;
  const nodes = findLiveNodes(graph.nodes, [output]);
  return withGraph(model, {
    name: "embedding",
    nodes,
    initializers: listRead(nodes, graph.initializers),
    inputs: graph.inputs.filter(({ name }) => name === ids),
    outputs: [makeValueInfo(output, dtype, [1, "tokens", width])],
  });
}

/**
 * Makes each `Gather` read token ids or positions directly, if its indices are one of these inputs, reshaped and with a
 * constant added. Instead of adding the constant, that many rows are removed from the beginning of the table.
 *
 * ONNX Runtime does int64 arithmetic on the CPU only, but reads plain indices on the GPU, as Hearth's kernels do. And a
 * table whose only indices are token ids can stay in its file.
 */
export function lookUpInputs(cut: GraphCut): GraphCut {
  const { positions, tokens } = cut;
  let { segments } = cut;
  for (const port of [positions, tokens]) {
    const isRow = port !== undefined && port.dtype === "int64" && port.shape.length === 2;
    if (isRow) segments = segments.map((segment) => rewrite(segment, port.name));
  }
  return { ...cut, segments, tokens: withUse(tokens), positions: positions && withUse(positions) };

  function withUse<Port extends TensorPort>(port: Port): Port {
    const readers = segments.filter(({ inputs }) => inputs.some(({ name }) => name === port.name));
    const isRead = port.dtype === "int64" &&
      readers.every(({ model }) => isIndex(port.name, new GraphIndex(model.graph)));
    return isRead ? { ...port, isIndex: true } : port;
  }
}

function rewrite(segment: Segment, input: string): Segment {
  if (!segment.inputs.some(({ name }) => name === input)) return segment;
  const { graph } = segment.model;
  const index = new GraphIndex(graph);
  const constants = new Map(index.constants);
  const nodes = graph.nodes.flatMap((node) => {
    const [table, indices] = node.inputs.map((name) => index.constants.get(name));
    const isPacked = node.opType === "GatherBlockQuantized";
    const isLookup = (isPacked || node.opType === "Gather") && table?.shape.length === 2 &&
      !indices && !readIntAttribute(node, isPacked ? "gather_axis" : "axis");
    const offset = isLookup ? findOffset(index, node.inputs[1]!, input) : undefined;
    if (offset === undefined || node.inputs[1] === input) return [node];
    const rank = findRank(index, node.inputs[1]!, input);
    if (isPacked && (offset !== 0 || rank !== 2)) return [node];
    const rows = offset === 0 ? table! : dropRows(table!, offset);
    const [output] = node.outputs as [string];
    // The indices may have any shape, but there is one for each token.
    const shape = int64Tensor(`${output}/shape`, [2], [-1, table!.shape[1]!]);
    for (const tensor of [rows, shape]) constants.set(tensor.name, tensor);
    const found = `${output}/by_input`;
    const lookup: Node = {
      ...node,
      name: found,
      inputs: [rows.name, input, ...node.inputs.slice(2)],
      outputs: [rank === 2 ? output : found],
    };
    return rank === 2 ? [lookup] : [lookup, makeNode("Reshape", [found, shape.name], [output])];
  });
  const live = findLiveNodes(nodes, graph.outputs.map(({ name }) => name));
  return rebuildSegment(segment, live, [...constants.values()]);
}

/** A table without its first rows. */
function dropRows(table: Tensor, count: number): Tensor {
  const [numRows, width] = table.shape as [number, number];
  const sliced = sliceRows(table, { numRows, from: count, to: numRows });
  if (sliced !== undefined) return sliced;
  const rowBytes = countStoredBytes(table) / numRows;
  const length = rowBytes * (numRows - count);
  const parts = [{ source: table, from: rowBytes * count, length }];
  return {
    ...{ ...table, name: `${table.name}/rows from ${count}`, shape: [numRows - count, width] },
    data: { kind: "rows", numRows: 1, parts, length },
  };
}

/**
 * The constant that is added to an input to compute a tensor; `undefined` if the tensor is not a reshaped input plus a
 * constant, or has more than 2 axes.
 */
function findOffset(index: GraphIndex, name: string, input: string): number | undefined {
  if (name === input) return 0;
  const node = index.producers.get(name);
  const [source, operand] = node?.inputs ?? [];
  if (node === undefined || findRank(index, name, input) === undefined) return undefined;
  const offset = findOffset(index, source!, input);
  if (node.opType !== "Add") return offset;
  const added = readConstants(index, operand!);
  return offset === undefined || added?.length !== 1 ? undefined : offset + added[0]!;
}

/** The rank of a tensor that is a reshaped input, possibly plus a constant; `undefined` for any other tensor. */
function findRank(index: GraphIndex, name: string, input: string): number | undefined {
  if (name === input) return 2;
  const node = index.producers.get(name);
  if (node === undefined) return undefined;
  const [source, operand] = node.inputs as [string, string?];
  switch (node.opType) {
    case "Reshape": {
      const sizes = operand === undefined ? undefined : readConstants(index, operand);
      const isRow = sizes?.join() === "-1" || sizes?.join() === "1,-1";
      return isRow ? sizes.length : undefined;
    }
    case "Add":
      return readConstants(index, operand ?? "")?.length === 1
        ? findRank(index, source, input)
        : undefined;
    case "Cast":
      return findRank(index, source, input);
    default:
      return undefined;
  }
}

function readConstants(index: GraphIndex, name: string): readonly number[] | undefined {
  const tensor = index.constants.get(name);
  if (tensor?.data.kind !== "memory") return undefined;
  const { data } = toValue(tensor);
  return data && Array.from(data);
}
