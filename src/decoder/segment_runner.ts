/**
 * Runs the segments of a cut graph one after the other, and between them what its attentions do.
 *
 * @module
 */
import type { Backend, Storage } from "../backend/backend.ts";
import type { TensorPort } from "../onnx/graph_cut.ts";
import type { Session, Tensor } from "../onnx/ort.ts";
import { type PlannedCut, planStorage, type StoragePlan } from "./storage_plan.ts";

/** Sizes of the axes that differ from run to run. */
export interface AxisSizes {
  readonly tokens: number;
  readonly rows: number;
}

/** What is run. */
export interface SegmentRunnerOptions<Cut extends PlannedCut> {
  readonly backend: Backend;
  readonly cut: Cut;
  /** Of the cut's segments, in their order; the runner owns them. */
  readonly sessions: readonly Session[];
  /** The largest there will be: memory for what crosses between segments is allocated once. */
  readonly most: AxisSizes;
  /**
   * Runs an attention on tensors by name.
   *
   * @param place where the result goes; allocated where it is absent.
   */
  readonly attend: (
    site: Cut["attentions"][number],
    run: {
      readonly tensors: ReadonlyMap<string, Tensor>;
      readonly place: Tensor | undefined;
      readonly sizes: AxisSizes;
    },
  ) => Tensor | Promise<Tensor>;
  /** Whether each run's output is the caller's, and not memory that the next run writes to. */
  readonly handsOut?: boolean;
}

/** See the module. */
export class SegmentRunner<Cut extends PlannedCut> {
  readonly #options: SegmentRunnerOptions<Cut>;
  readonly #plan: StoragePlan;
  readonly #pieces: readonly (Storage | undefined)[];
  /** The attentions that run after each segment. */
  readonly #sitesAfter: readonly (readonly Cut["attentions"][number][])[];

  constructor(options: SegmentRunnerOptions<Cut>) {
    const { backend, cut, most } = options;
    this.#options = options;
    this.#plan = planStorage(cut, (port) => bytesOf(port, most));
    this.#pieces = this.#plan.pieces.map((numBytes) => backend.allocate(numBytes));
    this.#sitesAfter = cut.segments.map(({ index }) =>
      cut.attentions.filter(({ afterSegment }) => afterSegment === index)
    );
  }

  /**
   * Runs the first `numSegments` segments, all if absent, and the attentions after each.
   *
   * @param tensors the cut's inputs by name; what is computed is added.
   */
  async run(
    tensors: Map<string, Tensor>,
    sizes: AxisSizes,
    numSegments = this.#options.sessions.length,
  ): Promise<void> {
    const { cut, sessions, attend } = this.#options;
    for (let index = 0; index < numSegments; index++) {
      const { inputs, outputs } = cut.segments[index]!;
      const feeds = Object.fromEntries(inputs.map(({ name }) => [name, tensors.get(name)!]));
      const results = await sessions[index]!.run(feeds, this.#places(outputs, sizes));
      for (const [name, tensor] of Object.entries(results)) tensors.set(name, tensor);
      for (const site of this.#sitesAfter[index]!) {
        const place = this.#place(site.output, sizes);
        tensors.set(site.output.name, await attend(site, { tensors, place, sizes }));
      }
    }
  }

  /** Frees memory and sessions. */
  async dispose(): Promise<void> {
    for (const piece of this.#pieces) piece?.dispose();
    for (const session of this.#options.sessions) await session.release();
  }

  /** Where outputs go; `null` for those that ONNX Runtime allocates, `undefined` where that is all. */
  #places(
    outputs: readonly TensorPort[],
    sizes: AxisSizes,
  ): Readonly<Record<string, Tensor | null>> | undefined {
    if (this.#pieces.includes(undefined)) return undefined;
    const places: Record<string, Tensor | null> = {};
    for (const port of outputs) places[port.name] = this.#place(port, sizes) ?? null;
    return places;
  }

  #place(port: TensorPort, sizes: AxisSizes): Tensor | undefined {
    const { cut, handsOut } = this.#options;
    if (handsOut && port.name === cut.output.name) return undefined;
    const piece = this.#pieces[this.#plan.pieceOf.get(port.name)!];
    return piece?.tensor(port.dtype as "float32" | "float16", dimsOf(port, sizes));
  }
}

/** Dimensions of a tensor in a run of these sizes. */
export function dimsOf({ shape }: TensorPort, sizes: AxisSizes): number[] {
  return shape.map((dim) => typeof dim === "number" ? dim : sizes[dim]);
}

/** Bytes of a tensor in a run of these sizes. */
export function bytesOf(port: TensorPort, sizes: AxisSizes): number {
  const count = dimsOf(port, sizes).reduce((product, size) => product * size, 1);
  return count * (port.dtype === "float16" ? 2 : port.dtype === "int64" ? 8 : 4);
}
