/**
 * How many slots there are for what sequences keep beside keys and values.
 *
 * @module
 */
import { stateSize } from "../device/sequence_states.ts";
import type { GraphCut } from "../graph/graph_cut.ts";

const MIB = 2 ** 20;
/** Memory for kept states, and bounds of their number. */
const SNAPSHOTS_MB = 256;
const [MIN_SNAPSHOTS, MAX_SNAPSHOTS] = [4, 128];

/**
 * A slot for each sequence of a step, and others for states that are kept for the prompts to come, as far as one of the
 * device's buffers holds a node's.
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

/** Bytes of so many slots of a cut. */
export function computeStateBytes({ states }: Pick<GraphCut, "states">, numSlots = 0): number {
  return states.reduce((sum, node) => sum + computeSlotBytes(node), 0) * numSlots;
}

function computeSlotBytes(node: GraphCut["states"][number]): number {
  return Float32Array.BYTES_PER_ELEMENT * stateSize(node);
}
