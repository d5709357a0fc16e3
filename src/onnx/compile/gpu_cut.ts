/**
 * Adapts a cut graph to a GPU.
 *
 * @module
 */
import { mergeCutProducts } from "./compile_cut.ts";
import { takeEmbedding } from "../cut/embedding_lookup.ts";
import type { GraphCut } from "../graph_cut.ts";
import { dropIdleNodes } from "../rewrite/idle_nodes.ts";
import { lookUpInputs } from "../rewrite/input_lookups.ts";
import { divideLargeProducts, readTiedTable } from "../rewrite/large_products.ts";
import { padProducts } from "../rewrite/pad_products.ts";

/** Limits of the device. */
interface GpuCutOptions {
  /** Most bytes of one buffer that a kernel reads. */
  readonly maxBufferBytes: number;
  /** Whether to merge products of the same rows into one, whose parts an attention can read. */
  readonly joinsProducts: boolean;
}

/**
 * Leaves the embeddings' table in its file, has the vocabulary projection read it there, has tables of positions read by
 * the positions, removes nodes that do nothing, joins products, and divides weights that are larger than the
 * device's buffers.
 */
export function cutForGpu(
  cut: GraphCut,
  { maxBufferBytes, joinsProducts }: GpuCutOptions,
): GraphCut {
  const read = readTiedTable(takeEmbedding(lookUpInputs(dropIdleNodes(cut))));
  const options = { maxBytes: maxBufferBytes, outputsMultipleOf: 4 };
  const joined = joinsProducts ? padProducts(mergeCutProducts(read, options)) : read;
  return divideLargeProducts(joined, maxBufferBytes);
}
