/**
 * Adapts a cut graph to Hearth's kernels on the CPU.
 *
 * @module
 */
import { takeEmbedding } from "../graph/cut/embedding_lookup.ts";
import { codeOfDtype } from "../graph/file/dtype.ts";
import { intAttribute, type ModelProto, type Node, withGraph } from "../graph/file/proto.ts";
import { storedBytes } from "../graph/file/stored_tensor.ts";
import type { GraphCut } from "../graph/graph_cut.ts";
import { GraphIndex } from "../graph/graph_index.ts";
import { widenCut } from "../graph/rewrite/widen_cut.ts";
import { mergeCutProducts } from "./compile_cut.ts";

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
  const segments = cut.segments.map((segment) => ({
    ...segment,
    model: widenTables(segment.model),
  }));
  const options = { maxBytes: Infinity, outputsMultiple: OUTPUTS_AT_ONCE };
  return mergeCutProducts({ ...cut, segments }, options);
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
