/**
 * Runs the instructions of a step one after the other, with kernels and sessions of one device.
 *
 * @module
 */
import type { Backend, Storage } from "../device/backend.ts";
import type { KernelExecutor } from "../device/kernel_executor.ts";
import { roomForRows } from "../../kernels/matmul/matvec_shape.ts";
import { lowerCut } from "../program/lower_cut.ts";
import type { Instruction, Lowering, StepPrograms } from "../program/program.ts";
import type { TensorPort } from "../graph/graph_cut.ts";
import type { GraphSession, Tensor } from "../device/ort/ort.ts";
import { type PlannedCut, planStorage, type StoragePlan } from "./storage_plan.ts";

/** Sizes of the axes that differ from run to run. */
export interface AxisSizes {
  readonly tokens: number;
  readonly rows: number;
}

/** What is run. */
interface StepExecutorOptions<Cut extends PlannedCut> {
  readonly backend: Backend;
  readonly cut: Cut;
  /** Sessions of the cut's segments, where these run in ONNX Runtime alone; see {@linkcode StepExecutor.use}. */
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
  /** Runs a mixture of experts, likewise; absent for a cut without any. */
  readonly mix?: (
    index: number,
    run: {
      readonly tensors: ReadonlyMap<string, Tensor>;
      readonly output: Tensor | undefined;
      readonly numRows: number;
      readonly lowering: Lowering;
    },
  ) => Tensor;
  /** Whether each run's output is the caller's, and not memory that the next run writes to. */
  readonly callerOwnsOutput?: boolean;
}

/** What an executor runs, and with what; it owns sessions and kernels. */
export interface ExecutorParts {
  readonly programs: StepPrograms;
  /** Sessions of the segments that instructions run in ONNX Runtime, by their index. */
  readonly sessions: readonly (GraphSession | undefined)[];
  readonly kernels?: KernelExecutor | undefined;
}

/** A run in progress. */
interface Run {
  /** Tensors by name: the cut's inputs, and what was computed. */
  readonly tensors: Map<string, Tensor>;
  readonly sizes: AxisSizes;
  readonly lowering: Lowering;
}

/** Most run sizes whose output tensors are kept. */
const MAX_KEPT_SIZES = 64;

export class StepExecutor<Cut extends PlannedCut> {
  readonly #options: StepExecutorOptions<Cut>;
  readonly #plan: StoragePlan;
  /** Memory of the plan; none before it is needed, when the backend has a runtime. */
  #storages: readonly (Storage | undefined)[] | undefined;
  readonly #lastSegment: number;
  /** Tensors of the storage by the sizes of a run, and by name. */
  readonly #outputsBySizes = new Map<string, Map<string, Tensor | undefined>>();
  #parts: ExecutorParts;

  constructor(options: StepExecutorOptions<Cut>) {
    const { cut, most, sessions = [] } = options;
    this.#options = options;
    this.#parts = { programs: lowerCut(cut), sessions };
    const room = { tokens: roomForRows(most.tokens), rows: roomForRows(most.rows) };
    this.#plan = planStorage(cut, (port) => computeBytes(port, room));
    this.#lastSegment = cut.segments.length - 1;
  }

  get #pieces(): readonly (Storage | undefined)[] {
    const { backend } = this.#options;
    return this.#storages ??= this.#plan.pieces.map((numBytes) => backend.allocate(numBytes));
  }

  /** Buffers of the tensors that cross between segments, on a GPU. */
  get buffers(): Map<string, GPUBuffer> {
    const sizes = { tokens: 1, rows: 1 };
    const { segments, attentions, states = [], experts = [] } = this.#options.cut;
    const ports = [
      ...segments.flatMap(({ outputs }) => outputs),
      ...[...attentions, ...states, ...experts].map(({ output }) => output),
    ];
    return new Map(ports.flatMap((port) => {
      const output = this.#allocateOutput(port, sizes);
      return output?.location === "gpu-buffer" ? [[port.name, output.gpuBuffer as GPUBuffer]] : [];
    }));
  }

  /** Sets what is run, before the first run. */
  use(parts: ExecutorParts): void {
    this.#parts = parts;
  }

  /**
   * Runs a step. Where no rows are wanted, the last segment is left out: keys and values are all that is needed.
   *
   * @param tensors the cut's inputs by name; what is computed is added.
   * @param lowering that of the prompts if absent.
   */
  async run(
    tensors: Map<string, Tensor>,
    sizes: AxisSizes,
    lowering: Lowering = "many",
  ): Promise<void> {
    for (const instruction of this.#parts.programs[lowering]) {
      const isLast = "segment" in instruction && instruction.segment === this.#lastSegment;
      if (isLast && sizes.rows === 0) return;
      const running = this.#execute(instruction, { tensors, sizes, lowering });
      if (running !== undefined) await running;
    }
  }

  /** Frees memory, kernels and sessions. */
  async dispose(): Promise<void> {
    const { sessions, kernels } = this.#parts;
    kernels?.dispose();
    for (const piece of this.#storages ?? []) piece?.dispose();
    for (const session of sessions) await session?.release();
  }

  #execute(instruction: Instruction, run: Run): void | Promise<void> {
    switch (instruction.kind) {
      case "kernels":
        return this.#runKernels(instruction, run);
      case "ort":
        return this.#runSession(instruction, run);
      case "attention":
        return this.#attend(instruction, run);
      case "state_update":
        return this.#updateState(instruction, run);
      case "experts":
        return this.#mix(instruction, run);
    }
  }

  #runKernels(
    { segment, program }: Instruction & { kind: "kernels" },
    { tensors, sizes }: Run,
  ): void {
    const numRows = segment === this.#lastSegment ? sizes.rows : sizes.tokens;
    for (const port of this.#options.cut.segments[segment]!.outputs) {
      tensors.set(port.name, this.#allocateOutput(port, sizes)!);
    }
    this.#parts.kernels!.run(program, { numRows, tensors });
  }

  async #runSession(
    { segment }: Instruction & { kind: "ort" },
    { tensors, sizes }: Run,
  ): Promise<void> {
    const { inputs, outputs } = this.#options.cut.segments[segment]!;
    const feeds = Object.fromEntries(inputs.map(({ name }) => [name, tensors.get(name)!]));
    const session = this.#parts.sessions[segment]!;
    const results = await session.run(feeds, this.#getOutputs(outputs, sizes));
    for (const [name, tensor] of Object.entries(results)) tensors.set(name, tensor);
  }

  #attend(
    { site: index, form }: Instruction & { kind: "attention" },
    { tensors, sizes }: Run,
  ): void | Promise<void> {
    const { cut, attend } = this.#options;
    const site = cut.attentions[index]!;
    const output = this.#allocateOutput(site.output, sizes);
    const keep = (result: Tensor) => void tensors.set(site.output.name, result);
    if (form !== undefined) {
      this.#parts.kernels!.attend(form);
      return keep(output!);
    }
    const result = attend(site, { tensors, output, sizes });
    return result instanceof Promise ? result.then(keep) : keep(result);
  }

  #updateState({ state }: Instruction & { kind: "state_update" }, { tensors, sizes }: Run): void {
    const { cut, advance } = this.#options;
    const { output: port } = cut.states![state]!;
    tensors.set(port.name, advance!(state, { tensors, output: this.#allocateOutput(port, sizes) }));
  }

  #mix(
    { site }: Instruction & { kind: "experts" },
    { tensors, sizes, lowering }: Run,
  ): void {
    const { cut, mix } = this.#options;
    const { output: port } = cut.experts![site]!;
    const output = this.#allocateOutput(port, sizes);
    tensors.set(port.name, mix!(site, { tensors, output, numRows: sizes.tokens, lowering }));
  }

  /** Where outputs go; `null` for those that ONNX Runtime allocates, `undefined` where that is all. */
  #getOutputs(
    outputs: readonly TensorPort[],
    sizes: AxisSizes,
  ): Readonly<Record<string, Tensor | null>> | undefined {
    if (this.#pieces.includes(undefined)) return undefined;
    const tensors: Record<string, Tensor | null> = {};
    for (const port of outputs) tensors[port.name] = this.#allocateOutput(port, sizes) ?? null;
    return tensors;
  }

  #allocateOutput(port: TensorPort, sizes: AxisSizes): Tensor | undefined {
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
      const piece = this.#pieces[this.#plan.pieceByTensor.get(port.name)!];
      output = piece?.tensor(port.dtype as "float32" | "float16", resolveDims(port, sizes));
      outputs.set(port.name, output);
    }
    return output;
  }
}

/** Dimensions of a tensor in a run of these sizes. */
export function resolveDims({ shape }: TensorPort, sizes: AxisSizes): number[] {
  return shape.map((dim) => typeof dim === "number" ? dim : sizes[dim]);
}

/** Bytes of a tensor in a run of these sizes. */
export function computeBytes(port: TensorPort, sizes: AxisSizes): number {
  const count = resolveDims(port, sizes).reduce((product, size) => product * size, 1);
  return count * (port.dtype === "float16" ? 2 : port.dtype === "int64" ? 8 : 4);
}
