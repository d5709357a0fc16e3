/**
 * The sessions of a cut graph's segments.
 *
 * @module
 */
import type { Backend } from "../device/backend.ts";
import type { DeviceWeights } from "../device/device_weights.ts";
import type { ModelFiles } from "../graph/file/external_data.ts";
import { countWeightBytes, type GraphCut, type Segment } from "../graph/graph_cut.ts";
import type { GraphSession } from "../device/ort/ort.ts";

/** What to open, and on which backend. */
interface OpenSegmentsOptions {
  readonly backend: Backend;
  readonly files: ModelFiles;
  /** Whether a segment needs a session; all do if absent. */
  readonly isWanted?: ((segment: Segment) => boolean) | undefined;
  /** Where the segments read their large weights from; if absent, each session holds its own. */
  readonly weights?: DeviceWeights | undefined;
  /** Called after each segment with the fraction that is open, 0 to 1. */
  readonly onProgress?: ((fraction: number) => void) | undefined;
}

/**
 * Opens the segments one by one, so that only one segment's weights are held at a time: the largest first, since a
 * session that is being opened holds its weights twice. The caller owns the sessions.
 *
 * @returns the session of each segment that needs one.
 * @throws {Error} with ONNX Runtime's message when it refuses a segment; sessions opened before it are released.
 */
export async function openSegments(
  cut: Pick<GraphCut, "segments">,
  { backend, files, isWanted = () => true, weights, onProgress }: OpenSegmentsOptions,
): Promise<(GraphSession | undefined)[]> {
  const sessions: (GraphSession | undefined)[] = cut.segments.map(() => undefined);
  const wanted = cut.segments.map((segment, i) => ({
    segment,
    i,
    bytes: countWeightBytes(segment),
  }))
    .filter(({ segment }) => isWanted(segment))
    .toSorted((a, b) => b.bytes - a.bytes);
  try {
    for (const [numOpen, { segment, i }] of wanted.entries()) {
      sessions[i] = await backend.openModel(segment.model, files, { weights, keepsMemory: false });
      onProgress?.((numOpen + 1) / wanted.length);
    }
  } catch (error) {
    await releaseSessions(sessions);
    throw error;
  }
  return sessions;
}

export async function releaseSessions(
  sessions: readonly (GraphSession | undefined)[],
): Promise<void> {
  for (const session of sessions) await session?.release();
}
