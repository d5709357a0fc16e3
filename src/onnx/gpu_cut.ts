/**
 * A cut graph as a GPU runs it.
 *
 * @module
 */
import { takeEmbedding } from "./embedding_lookup.ts";
import type { GraphCut } from "./graph_cut.ts";
import { divideLargeProducts, readTiedTable } from "./large_products.ts";

/** What limits the device. */
export interface GpuCutOptions {
  /** Most bytes of one buffer that a kernel reads. */
  readonly maxBufferBytes: number;
}

/**
 * Leaves the embeddings' table in its file, has the vocabulary projection read it as it lies there, and divides
 * weights that are larger than the device's buffers.
 */
export function cutForGpu(cut: GraphCut, { maxBufferBytes }: GpuCutOptions): GraphCut {
  return divideLargeProducts(readTiedTable(takeEmbedding(cut)), maxBufferBytes);
}
