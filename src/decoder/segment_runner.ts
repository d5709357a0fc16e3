/**
 * Runs the segments of a cut graph one after the other, with its attentions in between.
 *
 * @module
 */
import type { Backend, Storage } from "../backend/backend.ts";
import type { CompiledSegments } from "../backend/compiled_segments.ts";
import { roomForRows } from "../../kernels/matvec_shape.ts";
import type { Lowering } from "../onnx/compile/program.ts";
import type { TensorPort } from "../onnx/graph_cut.ts";
import type { GraphSession, Tensor } from "../onnx/runtime/ort.ts";
import { type PlannedCut, planStorage, type StoragePlan } from "./storage_plan.ts";

/** Sizes of the axes that differ from run to run. */
export interface AxisSizes {
  readonly tokens: number;
  readonly rows: number;
}

/** What is run. */
interface SegmentRunnerOptions<Cut extends PlannedCut> {
  readonly backend: Backend;
  readonly cut: Cut;
  /** Of the cut's segments, where these run in ONNX Runtime alone; see {@linkcode SegmentRunner.use}. */
  readonly sessions?: readonly (GraphSession | undefined)[];
  /** The largest there will be: memory for what crosses between segments is allocated once. */
  readonly most: AxisSizes;
  /**
   * Runs an attention on tensors by name.
   *
   * @param run.output where the result goes; allocated where it is absent.
   */
  readonly attend: (
    site: Cut["attentions"][number],
    run: {
      readonly tensors: ReadonlyMap<string, Tensor>;
      readonly output: Tensor | undefined;
      readonly sizes: AxisSizes;
    },
  ) => Tensor | Promise<Tensor>;
  /** Runs a recurrence, likewise; absent for a cut without any. */
  readonly advance?: (
    index: number,
    run: { readonly tensors: ReadonlyMap<string, Tensor>; readonly output: Tensor | undefined },
  ) => Tensor;
  /** Whether each run's output is the caller's, and not memory that the next run writes to. */
  readonly callerOwnsOutput?: boolean;
}

/** What runs the segments; the runner owns it. */
export interface SegmentExecutors {
  /** Of the segments, in their order; none of one that kernels run in every lowering. */
  readonly sessions: readonly (GraphSession | undefined)[];
  readonly compiled?: CompiledSegments | undefined;
  /** The lowerings that kernels run where a segment compiles. */
  readonly kernels?: readonly Lowering[];
}

/** How a run is. */
interface RunOptions {
  /** That of the prompts if absent. */
  readonly lowering?: Lowering;
  /** Segments to run, from the first on; all if absent. */
  readonly numSegments?: number;
}

/** Most run sizes whose output tensors are kept. */
const MAX_KEPT_SIZES = 64;

export class SegmentRunner<Cut extends PlannedCut> {
  readonly #options: SegmentRunnerOptions<Cut>;
  readonly #plan: StoragePlan;
  /** Memory of the plan; none before it is needed, when the backend has a runtime. */
  #storages: readonly (Storage | undefined)[] | undefined;
  /** The attentions that run after each segment. */
  readonly #sitesAfter: readonly (readonly Cut["attentions"][number][])[];
  readonly #lastSegment: number;
  /** Tensors of the storage by the sizes of a run, and by name. */
  readonly #outputsBySizes = new Map<string, Map<string, Tensor | undefined>>();
  #executors: SegmentExecutors;

  constructor(options: SegmentRunnerOptions<Cut>) {
    const { cut, most, sessions = [] } = options;
    this.#options = options;
    this.#executors = { sessions };
    const room = { tokens: roomForRows(most.tokens), rows: roomForRows(most.rows) };
    this.#plan = planStorage(cut, (port) => bytesOf(port, room));
    this.#lastSegment = cut.segments.length - 1;
    this.#sitesAfter = cut.segments.map(({ index }) =>
      cut.attentions.filter(({ afterSegment }) => afterSegment === index)
    );
  }

  get #pieces(): readonly (Storage | undefined)[] {
    const { backend } = this.#options;
    return this.#storages ??= this.#plan.pieces.map((numBytes) => backend.allocate(numBytes));
  }

  /** Buffers of the tensors that cross between segments, on a GPU. */
  get buffers(): Map<string, GPUBuffer> {
    const sizes = { tokens: 1, rows: 1 };
    const { segments, attentions, states = [] } = this.#options.cut;
    const ports = [
      ...segments.flatMap(({ outputs }) => outputs),
      ...[...attentions, ...states].map(({ output }) => output),
    ];
    return new Map(ports.flatMap((port) => {
      const output = this.#outputOf(port, sizes);
      return output?.location === "gpu-buffer" ? [[port.name, output.gpuBuffer as GPUBuffer]] : [];
    }));
  }

  /** Sets what runs the segments, before the first run. */
  use(executors: SegmentExecutors): void {
    this.#executors = executors;
  }

  /**
   * Runs segments and the attentions after each.
   *
   * @param tensors the cut's inputs by name; what is computed is added.
   */
  async run(
    tensors: Map<string, Tensor>,
    sizes: AxisSizes,
    { lowering = "many", numSegments = this.#lastSegment + 1 }: RunOptions = {},
  ): Promise<void> {
    const { cut, attend, advance } = this.#options;
    const { sessions, kernels = [] } = this.#executors;
    for (let index = 0; index < numSegments; index++) {
      const { inputs, outputs } = cut.segments[index]!;
      const numRows = index === this.#lastSegment ? sizes.rows : sizes.tokens;
      const isCompiled = kernels.includes(lowering) && this.#executors.compiled?.has(index);
      const compiled = isCompiled ? this.#executors.compiled : undefined;
      if (compiled) {
        for (const port of outputs) tensors.set(port.name, this.#outputOf(port, sizes)!);
        compiled.record(index, { numRows, lowering, tensors });
      } else {
        const feeds = Object.fromEntries(inputs.map(({ name }) => [name, tensors.get(name)!]));
        const results = await sessions[index]!.run(feeds, this.#outputsOf(outputs, sizes));
        for (const [name, tensor] of Object.entries(results)) tensors.set(name, tensor);
      }
      for (const site of this.#sitesAfter[index]!) {
        const output = this.#outputOf(site.output, sizes);
        const isDone = compiled?.attend(index, lowering, site.output.name);
        tensors.set(
          site.output.name,
          isDone ? output! : await attend(site, { tensors, output, sizes }),
        );
      }
      for (const [state, { afterSegment, output: port }] of (cut.states ?? []).entries()) {
        if (afterSegment !== index) continue;
        const output = this.#outputOf(port, sizes);
        tensors.set(port.name, advance!(state, { tensors, output }));
      }
    }
  }

  /** Frees memory, kernels and sessions. */
  async dispose(): Promise<void> {
    const { sessions, compiled } = this.#executors;
    compiled?.dispose();
    for (const piece of this.#storages ?? []) piece?.dispose();
    for (const session of sessions) await session?.release();
  }

  /** Where outputs go; `null` for those that ONNX Runtime allocates, `undefined` where that is all. */
  #outputsOf(
    outputs: readonly TensorPort[],
    sizes: AxisSizes,
  ): Readonly<Record<string, Tensor | null>> | undefined {
    if (this.#pieces.includes(undefined)) return undefined;
    const tensors: Record<string, Tensor | null> = {};
    for (const port of outputs) tensors[port.name] = this.#outputOf(port, sizes) ?? null;
    return tensors;
  }

  #outputOf(port: TensorPort, sizes: AxisSizes): Tensor | undefined {
    const { cut, callerOwnsOutput } = this.#options;
    if (callerOwnsOutput && port.name === cut.output.name) return undefined;
    const key = `${sizes.tokens} ${sizes.rows}`;
    let outputs = this.#outputsBySizes.get(key);
    if (outputs === undefined) {
      if (this.#outputsBySizes.size === MAX_KEPT_SIZES) this.#outputsBySizes.clear();
      this.#outputsBySizes.set(key, outputs = new Map());
    }
    let output = outputs.get(port.name);
    if (output === undefined) {
      const piece = this.#pieces[this.#plan.pieceOf.get(port.name)!];
      output = piece?.tensor(port.dtype as "float32" | "float16", dimsOf(port, sizes));
      outputs.set(port.name, output);
    }
    return output;
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
