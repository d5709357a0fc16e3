/**
 * Runs the instructions of a step in order, with the kernels and sessions of one device.
 *
 * @module
 */
import type { Backend, KernelExecutor } from "../device/backend.ts";
import type { ExpertLayers, SequenceStates } from "../device/kernel_nodes.ts";
import type { Slices } from "../device/attention.ts";
import { lowerCut } from "../program/compile_cut.ts";
import type { Instruction, Lowering, StepPrograms } from "../program/program.ts";
import type { TensorPort } from "../graph/graph_cut.ts";
import { type GraphSession, Tensor } from "../device/ort/ort.ts";
import { Activations, type AxisSizes, type PlannedCut } from "./activations.ts";

/** Options of {@linkcode StepExecutor}. */
interface StepExecutorOptions<Cut extends PlannedCut> {
  readonly backend: Backend;
  readonly cut: Cut;
  /** Sessions of the cut's segments, for a cut that only ONNX Runtime runs; see {@linkcode StepExecutor.use}. */
  readonly sessions?: readonly (GraphSession | undefined)[];
  /** The largest run: memory for tensors between segments is allocated once for it. */
  readonly most: AxisSizes;
  /** The largest run of next tokens only, which has memory of its own; absent if there are no such runs. */
  readonly mostDecoding?: AxisSizes | undefined;
  /** Runs an attention node on tensors by name. @param run.output where the result goes; allocated if absent. */
  readonly attend: (
    node: Cut["attentions"][number],
    run: {
      readonly tensors: ReadonlyMap<string, Tensor>;
      readonly output: Tensor | undefined;
      readonly sizes: AxisSizes;
      readonly slices: Slices | undefined;
    },
  ) => Tensor | Promise<Tensor>;
  /** Runs recurrence nodes; absent for a cut without any. The caller owns it. */
  readonly states?: SequenceStates | undefined;
  /** Runs mixtures of experts; absent for a cut without any. The caller owns it. */
  readonly experts?: ExpertLayers | undefined;
  /**
   * Whether each run allocates its output, which the caller then owns. Otherwise the next run overwrites the output.
   */
  readonly callerOwnsOutput?: boolean;
}

/** The programs, sessions and kernels that an executor runs. The executor owns the sessions and kernels. */
export interface ExecutorParts {
  readonly programs: StepPrograms;
  /** Sessions of segments that run in ONNX Runtime, by index. */
  readonly sessions: readonly (GraphSession | undefined)[];
  readonly kernels?: KernelExecutor | undefined;
}

/** Options for running a step. */
interface RunOptions {
  /** The lowering to run; `many` if absent. */
  readonly lowering?: Lowering;
  /** Whether it is a decode step, which may run while another step is suspended. */
  readonly isDecoding?: boolean;
  /** Suspends the step between its parts; if absent, it runs to its end. */
  readonly slices?: Slices | undefined;
}

/** A run in progress. */
interface Run {
  /** Tensors by name: inputs of the cut, and results so far. */
  readonly tensors: Map<string, Tensor>;
  readonly sizes: AxisSizes;
  readonly lowering: Lowering;
  readonly activations: Activations;
  readonly slices: Slices | undefined;
}

/** Minimum number of rows that run at a time, because all weights are read each time. */
const LEAST_ROWS = 8;

export class StepExecutor<Cut extends PlannedCut> {
  readonly #options: StepExecutorOptions<Cut>;
  readonly #activations: Activations;
  readonly #decodingActivations: Activations;
  readonly #lastSegment: number;
  #parts: ExecutorParts;

  constructor(options: StepExecutorOptions<Cut>) {
    const { backend, cut, most, mostDecoding, sessions = [] } = options;
    this.#options = options;
    this.#parts = { programs: lowerCut(cut), sessions };
    this.#activations = new Activations(backend, cut, most);
    this.#decodingActivations = mostDecoding
      ? new Activations(backend, cut, mostDecoding)
      : this.#activations;
    this.#lastSegment = cut.segments.length - 1;
  }

  /** Buffers of the tensors that pass between segments, on a GPU: for prompts, and for next tokens only. */
  get buffers(): Readonly<Record<Lowering, Map<string, GPUBuffer>>> {
    return {
      few: this.#listBuffers(this.#decodingActivations),
      many: this.#listBuffers(this.#activations),
    };
  }

  #listBuffers(activations: Activations): Map<string, GPUBuffer> {
    const sizes = { tokens: 1, rows: 1 };
    const { segments, attentions, states = [], experts = [] } = this.#options.cut;
    const ports = [
      ...segments.flatMap(({ outputs }) => outputs),
      ...[...attentions, ...states, ...experts].map(({ output }) => output),
    ];
    return new Map(ports.flatMap((port) => {
      const output = activations.get(port, sizes);
      return output?.location === "gpu-buffer" ? [[port.name, output.gpuBuffer as GPUBuffer]] : [];
    }));
  }

  /** Sets the programs, kernels and sessions to run. Call it before the first run. */
  use(parts: ExecutorParts): void {
    this.#parts = parts;
  }

  /**
   * Runs a step. If no rows are wanted, the last segment is left out, since only keys and values are needed.
   *
   * @param tensors the inputs of the cut by name; results are added.
   */
  async run(
    tensors: Map<string, Tensor>,
    sizes: AxisSizes,
    { lowering = "many", isDecoding = false, slices }: RunOptions = {},
  ): Promise<void> {
    const activations = isDecoding ? this.#decodingActivations : this.#activations;
    const run = { tensors, sizes, lowering, activations, slices };
    for (const instruction of this.#parts.programs[lowering]) {
      const isLast = "segment" in instruction && instruction.segment === this.#lastSegment;
      if (isLast && sizes.rows === 0) return;
      const running = this.#execute(instruction, run);
      if (running !== undefined) await running;
      const pausing = slices?.pause();
      if (pausing !== undefined) await pausing;
    }
  }

  /** Frees memory, kernels and sessions. */
  async dispose(): Promise<void> {
    const { sessions, kernels } = this.#parts;
    kernels?.dispose();
    this.#activations.dispose();
    if (this.#decodingActivations !== this.#activations) this.#decodingActivations.dispose();
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
    instruction: Instruction & { kind: "kernels" },
    { tensors, sizes, activations, slices }: Run,
  ): void | Promise<void> {
    const { segment, program } = instruction;
    const isLast = segment === this.#lastSegment;
    for (const port of this.#options.cut.segments[segment]!.outputs) {
      tensors.set(port.name, activations.get(port, sizes)!);
    }
    const runRows = (firstRow: number, end: number) =>
      this.#parts.kernels!.run(program, { firstRow, numRows: end - firstRow, tensors });
    if (isLast || !slices?.divides) return runRows(0, isLast ? sizes.rows : sizes.tokens);
    return slices.divide({ key: instruction, length: sizes.tokens, least: LEAST_ROWS }, runRows);
  }

  async #runSession(
    instruction: Instruction & { kind: "ort" },
    { tensors, sizes, activations, slices }: Run,
  ): Promise<void> {
    const { inputs, outputs } = this.#options.cut.segments[instruction.segment]!;
    const session = this.#parts.sessions[instruction.segment]!;
    const feeds = Object.fromEntries(inputs.map(({ name }) => [name, tensors.get(name)!]));
    const fetches = this.#getOutputs(outputs, { sizes, activations });
    const isDivisible = instruction.segment !== this.#lastSegment && fetches !== undefined &&
      [...inputs, ...outputs].every(hasRows);
    if (!slices?.divides || !isDivisible) {
      const results = await session.run(feeds, fetches);
      for (const [name, tensor] of Object.entries(results)) tensors.set(name, tensor);
      return;
    }
    const work = { key: instruction, length: sizes.tokens, least: LEAST_ROWS };
    await slices.divide(work, async (first, end) => {
      const takeRows = (
        ports: readonly TensorPort[],
        all: Readonly<Record<string, Tensor | null>>,
      ) =>
        Object.fromEntries(
          ports.map((port) => [port.name, sliceRows(all[port.name]!, port, first, end)]),
        );
      await session.run(takeRows(inputs, feeds), takeRows(outputs, fetches));
    });
    for (const [name, tensor] of Object.entries(fetches)) tensors.set(name, tensor!);
  }

  #attend(
    { node: index, layout }: Instruction & { kind: "attention" },
    { tensors, sizes, activations, slices }: Run,
  ): void | Promise<void> {
    const { cut, attend } = this.#options;
    const node = cut.attentions[index]!;
    const output = this.#allocateOutput(node.output, { sizes, activations });
    const keep = (result: Tensor) => void tensors.set(node.output.name, result);
    if (layout !== undefined) {
      this.#parts.kernels!.attend(layout);
      return keep(output!);
    }
    const result = attend(node, { tensors, output, sizes, slices });
    return result instanceof Promise ? result.then(keep) : keep(result);
  }

  #updateState({ state }: Instruction & { kind: "state_update" }, run: Run): void {
    const { cut, states } = this.#options;
    const { tensors } = run;
    const { output: port } = cut.states![state]!;
    const output = this.#allocateOutput(port, run);
    tensors.set(port.name, states!.run(state, tensors, output));
  }

  #mix(instruction: Instruction & { kind: "experts" }, run: Run): void | Promise<void> {
    const { cut, experts } = this.#options;
    const { tensors, sizes, lowering, slices } = run;
    const { output: port } = cut.experts![instruction.node]!;
    const output = this.#allocateOutput(port, run);
    const runRows = (firstRow: number, end: number) => {
      const rows = { firstRow, numRows: end - firstRow };
      const result = experts!.run(instruction.node, { tensors, output, ...rows, lowering });
      tensors.set(port.name, result);
    };
    if (!slices?.divides || output === undefined) return runRows(0, sizes.tokens);
    return slices.divide({ key: instruction, length: sizes.tokens, least: LEAST_ROWS }, runRows);
  }

  /** The memory for outputs: `null` for those that ONNX Runtime allocates, `undefined` if it allocates all of them. */
  #getOutputs(
    outputs: readonly TensorPort[],
    run: Pick<Run, "sizes" | "activations">,
  ): Readonly<Record<string, Tensor | null>> | undefined {
    if (run.activations.isMissing) return undefined;
    const tensors: Record<string, Tensor | null> = {};
    for (const port of outputs) tensors[port.name] = this.#allocateOutput(port, run) ?? null;
    return tensors;
  }

  #allocateOutput(
    port: TensorPort,
    { sizes, activations }: Pick<Run, "sizes" | "activations">,
  ): Tensor | undefined {
    const { cut, callerOwnsOutput } = this.#options;
    if (callerOwnsOutput && port.name === cut.output.name) return undefined;
    return activations.get(port, sizes);
  }
}

/** Whether a tensor has one contiguous row per token. */
function hasRows({ shape }: TensorPort): boolean {
  const axis = shape.indexOf("tokens");
  return axis >= 0 && shape.slice(0, axis).every((dim) => dim === 1);
}

/** The rows `first` to `end` of a tensor in host memory; see {@linkcode hasRows}. */
function sliceRows(
  { type, data, dims }: Tensor,
  { shape }: TensorPort,
  first: number,
  end: number,
): Tensor {
  const axis = shape.indexOf("tokens");
  const width = data.length / dims[axis]!;
  const part = (data as Float32Array).subarray(first * width, end * width);
  return new Tensor(type as "float32", part, dims.with(axis, end - first));
}
