/**
 * Memory for tensors that pass between the segments of a run.
 *
 * @module
 */
import type { Backend, Storage } from "../device/backend.ts";
import type { Tensor } from "../device/ort/ort.ts";
import type { TensorPort } from "../graph/graph_cut.ts";
import { roomForRows } from "../../kernels/matmul/matvec_shape.ts";
import { type PlannedCut, planStorage, type StoragePlan } from "./storage_plan.ts";

/** Most run sizes whose output tensors are cached. */
const MAX_KEPT_SIZES = 64;

/** Sizes of the axes that differ from run to run. */
export interface AxisSizes {
  readonly tokens: number;
  readonly rows: number;
}

/** Plans the memory of tensors for runs of at most these sizes. */
export function planActivations(cut: PlannedCut, most: AxisSizes): StoragePlan {
  const room = { tokens: roomForRows(most.tokens), rows: roomForRows(most.rows) };
  return planStorage(cut, (port) => computeBytes(port, room));
}

/** Tensors that pass between segments. Runs that use the same instance must not overlap. */
export class Activations {
  readonly #backend: Backend;
  readonly #plan: StoragePlan;
  /** Allocated on demand if the backend has ONNX Runtime, which may need no memory of ours. */
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

  /** The memory of a tensor in a run of these sizes. */
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
