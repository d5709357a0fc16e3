/**
 * Loads the segments of a cut one by one, so that never more than one segment's weights are held.
 *
 * @module
 */
import { type ModelFiles, readStored, storedBytes } from "./external_data.ts";
import type { GraphCut, Segment } from "./graph_cut.ts";

/** A segment with its weights, as ONNX Runtime takes them. */
export interface LoadedSegment {
  readonly segment: Segment;
  /** For the session's `externalData`; empty when the model holds all its weights. */
  readonly externalData: readonly { readonly path: string; readonly data: Uint8Array }[];
}

/** Reads the weights of one segment into one piece of memory. */
async function loadSegment(segment: Segment, files: ModelFiles): Promise<LoadedSegment> {
  if (segment.blobBytes === 0) return { segment, externalData: [] };
  const data = new Uint8Array(segment.blobBytes);
  for (const { tensor, blobOffset } of segment.blobParts) {
    const end = blobOffset + storedBytes(tensor);
    await readStored(tensor, files, data.subarray(blobOffset, end));
  }
  return { segment, externalData: [{ path: segment.externalPath, data }] };
}

/**
 * Yields the segments in order. Who consumes them should let go of each before asking for the next: then
 * at most the largest one's weights are in memory at any time.
 */
export async function* loadSegments(
  cut: Pick<GraphCut, "segments">,
  files: ModelFiles,
): AsyncGenerator<LoadedSegment> {
  for (const segment of cut.segments) yield await loadSegment(segment, files);
}
