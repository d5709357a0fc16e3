/**
 * Memory for tensors that pass between the segments of a run. Tensors that are not needed at the same time share
 * memory.
 *
 * @module
 */
import type { Backend, Storage } from "../device/backend.ts";
import type { Tensor } from "../device/ort/ort.ts";
import type { GraphCut, TensorPort } from "../graph/graph_cut.ts";
import { roomForRows } from "../../kernels/matmul/matvec_params.ts";

/** Maximum number of run sizes whose output tensors are cached. */
const MAX_KEPT_SIZES = 64;

/** Sizes of the axes that differ from run to run. */
export interface AxisSizes {
  readonly tokens: number;
  readonly rows: number;
}

/** Plans the memory for runs of at most these sizes. */
export function planActivations(cut: PlannedCut, most: AxisSizes): StoragePlan {
  const room = { tokens: roomForRows(most.tokens), rows: roomForRows(most.rows) };
  return planStorage(cut, (port) => computeBytes(port, room));
}

/** Tensors that pass between segments. Runs that use the same instance must not overlap. */
export class Activations {
  readonly #backend: Backend;
  readonly #plan: StoragePlan;
  /** Allocated at first use; `undefined` for a chunk that ONNX Runtime has to allocate itself. */
  #storages: readonly (Storage | undefined)[] | undefined;
  /** Tensors in this memory, by the sizes of a run and by name. */
  readonly #outputsBySizes = new Map<string, Map<string, Tensor | undefined>>();

  constructor(backend: Backend, cut: PlannedCut, most: AxisSizes) {
    this.#backend = backend;
    this.#plan = planActivations(cut, most);
  }

  get #chunks(): readonly (Storage | undefined)[] {
    return this.#storages ??= this.#plan.chunks.map((bytes) => this.#backend.allocate(bytes));
  }

  /** Whether ONNX Runtime has to allocate its outputs itself. */
  get isMissing(): boolean {
    return this.#chunks.includes(undefined);
  }

  /** Returns a tensor in this memory, for a run of these sizes; `undefined` if ONNX Runtime allocates it. */
  get(port: TensorPort, sizes: AxisSizes): Tensor | undefined {
    const key = `${sizes.tokens} ${sizes.rows}`;
    let outputs = this.#outputsBySizes.get(key);
    if (outputs === undefined) {
      if (this.#outputsBySizes.size === MAX_KEPT_SIZES) this.#outputsBySizes.clear();
      this.#outputsBySizes.set(key, outputs = new Map());
    }
    let output = outputs.get(port.name);
    if (output === undefined) {
      const chunk = this.#chunks[this.#plan.chunkByTensor.get(port.name)!];
      output = chunk?.tensor(port.dtype as "float32" | "float16", resolveDims(port, sizes));
      outputs.set(port.name, output);
    }
    return output;
  }

  dispose(): void {
    for (const chunk of this.#storages ?? []) chunk?.dispose();
  }
}

/** The dimensions of a tensor in a run of these sizes. */
export function resolveDims({ shape }: TensorPort, sizes: AxisSizes): number[] {
  return shape.map((dim) => typeof dim === "number" ? dim : sizes[dim]);
}

/** The bytes of a tensor in a run of these sizes. */
export function computeBytes(port: TensorPort, sizes: AxisSizes): number {
  const count = resolveDims(port, sizes).reduce((product, size) => product * size, 1);
  return count * (port.dtype === "float16" ? 2 : port.dtype === "int64" ? 8 : 4);
}

/** The parts of a decoder's or an encoder's cut that the plan depends on. */
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
interface StoragePlan {
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
 * @param countBytes returns the maximum number of bytes of a tensor.
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
