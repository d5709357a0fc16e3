/**
 * Decides how many slots for recurrent states there are.
 *
 * @module
 */
import { stateSize } from "../device/sequence_states.ts";
import type { GraphCut } from "../graph/graph_cut.ts";

const MIB = 2 ** 20;
/** Memory for saved states, and bounds on their number. */
const SNAPSHOTS_MB = 256;
const [MIN_SNAPSHOTS, MAX_SNAPSHOTS] = [4, 128];

/**
 * One slot for each sequence of a step, and further ones for states that are saved for later prompts, as far as they
 * fit in one device buffer per node.
 *
 * @returns `undefined` for a cut without states.
 */
export function chooseStateSlots(
  { states }: Pick<GraphCut, "states">,
  { maxSequences, maxBufferBytes }: {
    readonly maxSequences: number;
    readonly maxBufferBytes: number;
  },
): number | undefined {
  if (states.length === 0) return undefined;
  const sizes = states.map(computeSlotBytes);
  const slotBytes = sizes.reduce((sum, bytes) => sum + bytes, 0);
  const affordable = Math.floor(SNAPSHOTS_MB * MIB / slotBytes);
  const numSnapshots = Math.max(MIN_SNAPSHOTS, Math.min(affordable, MAX_SNAPSHOTS));
  return Math.min(
    maxSequences + numSnapshots,
    Math.floor(maxBufferBytes / Math.max(...sizes, 1)),
  );
}

/** Bytes that a number of slots takes. */
export function computeStateBytes({ states }: Pick<GraphCut, "states">, numSlots = 0): number {
  return states.reduce((sum, node) => sum + computeSlotBytes(node), 0) * numSlots;
}

function computeSlotBytes(node: GraphCut["states"][number]): number {
  return Float32Array.BYTES_PER_ELEMENT * stateSize(node);
}
