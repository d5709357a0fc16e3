/**
 * Takes the lookup of token embeddings out of a graph: the table may be the largest of a model's weights, and only one
 * row per token is read.
 *
 * @module
 */
import type { GraphCut, TensorPort } from "../graph_cut.ts";
import { type TensorType, toDtypeCode } from "../file/dtype.ts";
import { GraphIndex, liveNodes } from "../graph_index.ts";
import {
  type Graph,
  intAttribute,
  listRead,
  type ModelProto,
  type Node,
  type Tensor,
  withGraph,
} from "../file/proto.ts";
import { makeValueInfo } from "../file/proto_write.ts";

/** Types of packed tables: bytes of numbers whose width the node says, or numbers of 4 bits. */
const TABLE_DTYPES: ReadonlySet<TensorType> = new Set(["uint8", "int4", "uint4"]);
/** Widths of the numbers in packed tables. */
const TABLE_BITS = [1, 2, 4, 8] as const;

/** A table of rows in a file, plain or quantised in blocks along the row. */
export interface EmbeddingLookup {
  /** Token ids of the graph, int64. */
  readonly ids: string;
  /** The result, `[...ids, width]`. */
  readonly output: string;
  /** Type of the result; the table may be in float16 where this is float32. */
  readonly dtype: "float32" | "float16";
  readonly numRows: number;
  readonly width: number;
  /** `[numRows, width]`, or what it is packed in. */
  readonly values: Tensor;
  readonly quantized?: {
    readonly bits: typeof TABLE_BITS[number];
    readonly blockSize: number;
    /** `[numRows, blocks]` */
    readonly scales: Tensor;
    /** Like the values; if absent `2 ** (bits - 1)` everywhere in bytes, and 0 in other types. */
    readonly zeroPoints?: Tensor | undefined;
  };
}

/** A graph without its lookup, and the lookup. */
interface TakenLookup {
  readonly lookup: EmbeddingLookup;
  /** The graph that reads the rows as an input under the lookup's own name; it may have no nodes left. */
  readonly rest: ModelProto;
}

function toLookup(node: Node, constants: ReadonlyMap<string, Tensor>): EmbeddingLookup | undefined {
  const [values, , scales, zeroPoints] = node.inputs.map((name) => constants.get(name));
  const [numRows, packedWidth] = values?.shape ?? [];
  if (values === undefined || packedWidth === undefined || values.shape.length !== 2) return;
  const common = { ids: node.inputs[1]!, output: node.outputs[0]!, numRows: numRows!, values };
  if (node.opType === "Gather" && (intAttribute(node, "axis") ?? 0) === 0) {
    return isFloat(values.dtype)
      ? { ...common, dtype: values.dtype, width: packedWidth }
      : undefined;
  }
  if (node.opType !== "GatherBlockQuantized" || !TABLE_DTYPES.has(values.dtype)) return;
  const isPacked = values.dtype === "uint8";
  const storedBits = isPacked ? intAttribute(node, "bits") ?? 4 : 4;
  const bits = TABLE_BITS.find((each) => each === storedBits);
  const blockSize = intAttribute(node, "block_size") ?? 128;
  const isByRow = (intAttribute(node, "gather_axis") ?? 0) === 0 &&
    [1, -1].includes(intAttribute(node, "quantize_axis") ?? 1);
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

/** The only reader of a float16 lookup, if it casts it to float32. */
function findCast(graph: Graph, { output, dtype }: EmbeddingLookup): Node | undefined {
  const only = dtype === "float16" ? new GraphIndex(graph).onlyConsumer(output) : undefined;
  const isCast = only?.opType === "Cast" && intAttribute(only, "to") === toDtypeCode("float32");
  return isCast ? only : undefined;
}

/**
 * Takes the lookup out of a graph if nothing else reads the input of token ids.
 *
 * @param tokens name of that input; the lookup's own input if absent.
 * @returns `undefined` for any other graph.
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
 * Makes the lookup at the start of a cut a graph of its own, `cut.embedding`, so that the cut begins with embeddings
 * instead of token ids.
 *
 * @param options.isPacked whether a table of plain numbers stays where it is.
 * @returns the cut itself if anything else reads the token ids.
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
  // It may cross to later segments, which read it from the inputs of the cut.
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
    embedding: embeddingModel(first!.model, lookup),
  };
}

/** A model of the lookup alone. */
function embeddingModel(
  model: ModelProto,
  { ids, output, dtype, width }: EmbeddingLookup,
): ModelProto {
  const { graph } = model;
  const nodes = liveNodes(graph.nodes, [output]);
  return withGraph(model, {
    name: "embedding",
    nodes,
    initializers: listRead(nodes, graph.initializers),
    inputs: graph.inputs.filter(({ name }) => name === ids),
    outputs: [makeValueInfo(output, dtype, [1, "tokens", width])],
  });
}
