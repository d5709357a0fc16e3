/**
 * Plans which tensors that pass between segments share one chunk of memory, because they are never needed at the same
 * time.
 *
 * @module
 */
import type { GraphCut, TensorPort } from "../graph/graph_cut.ts";

/** The parts of a decoder's or an encoder's cut that planning needs. */
export interface PlannedCut extends Pick<GraphCut, "segments"> {
  readonly attentions: readonly Pick<
    GraphCut["attentions"][number],
    "afterSegment" | "q" | "k" | "v" | "output"
  >[];
  readonly states?: readonly Pick<
    GraphCut["states"][number],
    "afterSegment" | "operands" | "output"
  >[];
  readonly experts?: readonly Pick<
    GraphCut["experts"][number],
    "afterSegment" | "operands" | "output"
  >[];
  readonly output: TensorPort;
}

/** The memory of each tensor that passes between segments. */
export interface StoragePlan {
  /** Bytes of each chunk of memory. */
  readonly chunks: readonly number[];
  /** The chunk of a tensor, by the tensor's name. */
  readonly chunkByTensor: ReadonlyMap<string, number>;
}

interface Lifetime {
  readonly port: TensorPort;
  readonly from: number;
  readonly to: number;
}

/**
 * Plans the memory of the logits and of tensors that pass between segments.
 *
 * A tensor is written at one moment and last read at another; of the chunks that are free in between, it takes the
 * smallest that fits.
 *
 * @param countBytes the most bytes that a tensor takes.
 */
export function planStorage(
  cut: PlannedCut,
  countBytes: (port: TensorPort) => number,
): StoragePlan {
  const chunks: { bytes: number; freeFrom: number }[] = [];
  const chunkByTensor = new Map<string, number>();
  for (const { port, from, to } of computeLifetimes(cut)) {
    const bytes = countBytes(port);
    let best = -1;
    chunks.forEach((chunk, index) => {
      if (chunk.freeFrom > from || chunk.bytes < bytes) return;
      if (best < 0 || chunk.bytes < chunks[best]!.bytes) best = index;
    });
    if (best < 0) best = chunks.push({ bytes, freeFrom: 0 }) - 1;
    chunks[best]!.freeFrom = to + 1;
    chunkByTensor.set(port.name, best);
  }
  return { chunks: chunks.map(({ bytes }) => bytes), chunkByTensor };
}

/**
 * Lists lifetimes in the order in which they begin. Segment `k` runs at moment `2k`, the attention after it at `2k +
 * 1`.
 */
function computeLifetimes(cut: PlannedCut): Lifetime[] {
  const lastRead = new Map<string, number>();
  const read = (name: string, moment: number) =>
    lastRead.set(name, Math.max(moment, lastRead.get(name) ?? 0));
  for (const { index, inputs } of cut.segments) {
    for (const { name } of inputs) read(name, 2 * index);
  }
  for (const { afterSegment, q, k, v } of cut.attentions) {
    for (const { tensor } of [q, k, v]) read(tensor, 2 * afterSegment + 1);
  }
  const { attentions, states = [], experts = [] } = cut;
  for (const { afterSegment, operands } of [...states, ...experts]) {
    for (const { tensor } of operands) read(tensor, 2 * afterSegment + 1);
  }
  read(cut.output.name, 2 * cut.segments.length);

  const born = [
    ...cut.segments.flatMap(({ index, outputs }) =>
      outputs.map((port) => ({ port, from: 2 * index }))
    ),
    ...[...attentions, ...states, ...experts].map(({ afterSegment, output }) => ({
      port: output,
      from: 2 * afterSegment + 1,
    })),
  ];
  return born
    .map(({ port, from }) => ({ port, from, to: lastRead.get(port.name) ?? from }))
    .sort((a, b) => a.from - b.from);
}
