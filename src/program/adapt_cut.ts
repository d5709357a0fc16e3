/**
 * Adapts a cut graph to the kernels of a device.
 *
 * @module
 */
import { takeEmbedding } from "../graph/cut/embedding_lookup.ts";
import { type GraphCut, mapModels } from "../graph/graph_cut.ts";
import { splitRowsForHeads } from "../graph/rewrite/head_parts.ts";
import { slicesToSplits } from "../graph/rewrite/slices_to_splits.ts";
import { type MergeOptions, mergeProducts } from "./merge_products.ts";
import { dropIdleNodes } from "../graph/rewrite/idle_nodes.ts";
import { lookUpInputs } from "../graph/rewrite/input_lookups.ts";
import { divideLargeProducts, padProducts, readTiedTable } from "../graph/rewrite/fit_products.ts";
import { codeOfDtype } from "../graph/file/dtype.ts";
import { intAttribute, type ModelProto, type Node, withGraph } from "../graph/file/proto.ts";
import { storedBytes } from "../graph/file/stored_tensor.ts";
import { GraphIndex } from "../graph/graph_index.ts";
import { widenCut } from "../graph/rewrite/widen_cut.ts";

/**
 * Adapts a cut to a GPU: leaves the embeddings' table in its file, makes the vocabulary projection read it from there,
 * makes tables of positions be indexed by position, removes nodes that do nothing, joins products of the same rows
 * whose parts an attention node reads, and divides weights that are larger than the device's buffers.
 *
 * @param maxBufferBytes most bytes of a buffer that a kernel reads.
 */
export function cutForGpu(cut: GraphCut, maxBufferBytes: number): GraphCut {
  const read = readTiedTable(takeEmbedding(lookUpInputs(mapModels(cut, dropIdleNodes))));
  const options = { maxBytes: maxBufferBytes, outputsMultiple: 4 };
  const joined = mapModels(mergeCutProducts(read, options), padProducts);
  return divideLargeProducts(joined, maxBufferBytes);
}

/** Outputs that a kernel computes at a time: 8 for weights in f32, 4 for weights of 4 bits. */
const OUTPUTS_AT_ONCE = 8;

/** Widens f16, and leaves a packed table of embeddings in its file, of which no kernel takes rows. */
export function adaptForCpu(cut: GraphCut): GraphCut {
  return takeEmbedding(widenCut(cut), { isPacked: true });
}

/**
 * Joins products of the same rows, and converts rows of tables to f32 as they are read. Only for steps in Hearth's own
 * kernels: ONNX Runtime maps the model's file unchanged.
 */
export function cutForCpu(cut: GraphCut): GraphCut {
  const options = { maxBytes: Infinity, outputsMultiple: OUTPUTS_AT_ONCE };
  return mergeCutProducts(mapModels(cut, widenTables), options);
}

/** Replaces tables in f16 whose rows are cast by tables in f32. */
function widenTables(model: ModelProto): ModelProto {
  const index = new GraphIndex(model.graph);
  const casts = new Map<Node, Node>();
  for (const node of model.graph.nodes) {
    const table = node.opType === "Gather" ? index.constants.get(node.inputs[0]!) : undefined;
    const cast = table?.dtype === "float16" ? index.onlyConsumer(node.outputs[0]!) : undefined;
    const isWide = cast?.opType === "Cast" && intAttribute(cast, "to") === codeOfDtype("float32");
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
  const widened = model.graph.initializers.filter(({ name }) => tables.has(name)).map((source) => ({
    ...source,
    name: toName(source.name),
    dtype: "float32" as const,
    data: { kind: "widened" as const, source, length: 2 * storedBytes(source) },
  }));
  const initializers = [...model.graph.initializers, ...widened];
  return withGraph(model, { nodes, initializers });
}

/**
 * Returns the cut with products of the same rows joined, and with splits in place of slices of products and of splits
 * into heads; see {@linkcode mergeProducts}, {@linkcode slicesToSplits} and {@linkcode splitRowsForHeads}.
 */
export function mergeCutProducts(cut: GraphCut, options: MergeOptions): GraphCut {
  return mapModels(
    cut,
    (model) => mergeProducts(slicesToSplits(splitRowsForHeads(model)), options),
  );
}
