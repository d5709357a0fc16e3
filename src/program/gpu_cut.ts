/**
 * Adapts a cut graph to a GPU.
 *
 * @module
 */
import { mergeCutProducts } from "./compile_cut.ts";
import { takeEmbedding } from "../graph/cut/embedding_lookup.ts";
import type { GraphCut } from "../graph/graph_cut.ts";
import { dropIdleNodes } from "../graph/rewrite/idle_nodes.ts";
import { lookUpInputs } from "../graph/rewrite/input_lookups.ts";
import { divideLargeProducts, readTiedTable } from "../graph/rewrite/large_products.ts";
import { padProducts } from "../graph/rewrite/pad_products.ts";

/**
 * Adapts a cut to a GPU: leaves the embeddings' table in its file, makes the vocabulary projection read it from there,
 * makes tables of positions be indexed by position, removes nodes that do nothing, joins products of the same rows
 * whose parts an attention node reads, and divides weights that are larger than the device's buffers.
 *
 * @param maxBufferBytes most bytes of a buffer that a kernel reads.
 */
export function cutForGpu(cut: GraphCut, maxBufferBytes: number): GraphCut {
  const read = readTiedTable(takeEmbedding(lookUpInputs(dropIdleNodes(cut))));
  const options = { maxBytes: maxBufferBytes, outputsMultiple: 4 };
  const joined = padProducts(mergeCutProducts(read, options));
  return divideLargeProducts(joined, maxBufferBytes);
}
