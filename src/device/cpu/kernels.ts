/**
 * Runs programs on the CPU, in WebAssembly. The kernels read weights in their own layout.
 *
 * @module
 */
import type { KernelThreads } from "../../../kernels/cpu/kernel_threads.ts";
import { chooseRowLevels, type RowKernel } from "../../../kernels/matmul/row_products.ts";
import { checkRowKernel, SimdRows } from "../../../kernels/cpu/row_simd.ts";
import type { MatvecParams } from "../../../kernels/matmul/matvec_params.ts";
import { RowFile } from "../../graph/file/stored_range.ts";
import { type Dispatch, listTensors, type Program } from "../../program/program.ts";
import type { KernelExecutor, KernelsOptions, KernelStep } from "../backend.ts";
import { isLarge, listWidths, MAX_ROWS, MemoryPlan, packWeights } from "./memory_plan.ts";

export class CpuKernels implements KernelExecutor {
  readonly #rows: SimdRows;
  readonly #programs: ReadonlyMap<Program, OpenProgram>;
  readonly #open: Disposable;

  private constructor(
    programs: ReadonlyMap<Program, OpenProgram>,
    { rows, open }: { readonly rows: SimdRows; readonly open: Disposable },
  ) {
    this.#rows = rows;
    this.#programs = programs;
    this.#open = open;
  }

  /**
   * Reads the weights.
   *
   * @throws {StartupError} when there is not enough memory.
   */
  static async open(options: KernelsOptions, threads: KernelThreads): Promise<CpuKernels> {
    const { programs, files, spareBytes } = options;
    threads.start();
    using opening = new DisposableStack();
    const plan = opening.use(new MemoryPlan());
    for (const program of programs) await plan.add(program, options);
    const memory = plan.memory.allocate(threads.numThreads, spareBytes);
    const rows = new SimdRows(threads, memory);
    await packWeights({ rows, memory, matrices: [...plan.matrices.values()], files });
    const opened = programs.map((program) =>
      [program, new OpenProgram(rows, program, plan)] as const
    );
    return new CpuKernels(new Map(opened), { rows, open: opening.move() });
  }

  run(program: Program, step: KernelStep): void {
    this.#programs.get(program)!.run(step);
  }

  /** Attention reads ordinary tensors on the CPU. */
  attend(): void {}

  dispose(): void {
    this.#rows.dispose();
    this.#open[Symbol.dispose]();
  }
}

/** Says why Hearth's kernels cannot run a program; `undefined` if they can. */
export function findRefusal({ dispatches, weights, scratch }: Program): string | undefined {
  const constants = new Map(weights.map((tensor) => [tensor.name, tensor]));
  try {
    for (const dispatch of dispatches) {
      if (dispatch.kind !== "take_rows") {
        checkRowKernel(dispatch);
        continue;
      }
      const { tensors: { table } } = dispatch;
      const constant = constants.get(table);
      if (constant && isLarge(constant) && !RowFile.canRead(constant)) {
        throw new RangeError("It reads a large table that is not stored as f32 in a file.");
      }
      if (scratch.has(table)) throw new RangeError("It takes rows of what it computes.");
    }
  } catch (error) {
    if (error instanceof RangeError) return error.message;
    throw error;
  }
  return undefined;
}

/** A range of rows of a step. */
interface RowRange {
  readonly first: number;
  readonly count: number;
}

/** The kernels of a program, in order, and its input and output tensors. */
class OpenProgram {
  readonly #rows: SimdRows;
  readonly #kernels: readonly ((tensors: KernelStep["tensors"], range: RowRange) => void)[];
  readonly #entering: readonly (readonly [name: string, at: number, width: number])[];
  readonly #leaving: readonly (readonly [name: string, at: number, width: number])[];

  constructor(rows: SimdRows, { dispatches, weights, scratch }: Program, plan: MemoryPlan) {
    this.#rows = rows;
    const inside = new Set([...scratch.keys(), ...weights.map(({ name }) => name)]);
    const entering = new Map<string, number>();
    const leaving = new Map<string, number>();
    for (const dispatch of dispatches) {
      const { out } = dispatch.tensors;
      for (const [name, width] of listWidths(dispatch)) {
        if (inside.has(name) || leaving.has(name)) continue;
        (name === out ? leaving : entering).set(name, width);
      }
    }
    const placed = (widths: ReadonlyMap<string, number>) =>
      Array.from(widths, ([name, width]) => [name, plan.getAddress(name), width] as const);
    this.#entering = placed(entering);
    this.#leaving = placed(leaving);
    this.#kernels = dispatches.map((dispatch, i) => this.#open(dispatch, dispatches[i - 1], plan));
  }

  /** Runs as many rows at a time as the tensors have room for. */
  run({ firstRow = 0, numRows, tensors }: KernelStep): void {
    const end = firstRow + numRows;
    for (let first = firstRow; first < end; first += MAX_ROWS) {
      this.#runRows(tensors, { first, count: Math.min(MAX_ROWS, end - first) });
    }
  }

  #runRows(tensors: KernelStep["tensors"], range: RowRange): void {
    const { first, count } = range;
    const viewRows = (name: string, width: number) =>
      (tensors.get(name)!.data as Float32Array).subarray(first * width, (first + count) * width);
    for (const [name, at, width] of this.#entering) {
      this.#rows.floats(at, count * width).set(viewRows(name, width));
    }
    for (const kernel of this.#kernels) kernel(tensors, range);
    for (const [name, at, width] of this.#leaving) {
      viewRows(name, width).set(this.#rows.floats(at, count * width));
    }
  }

  #open(dispatch: Dispatch, before: Dispatch | undefined, plan: MemoryPlan) {
    const { kind } = dispatch;
    if (kind === "take_rows") return this.#takeRows(dispatch, plan);
    if (kind === "rotate") return this.#rotate(dispatch, plan);
    const at = Object.fromEntries(
      // Scales and zero points are packed with the levels.
      listTensors(dispatch).filter(([role]) => role !== "scales" && role !== "zeroPoints")
        .map(([role, name]) => [role, plan.getAddress(name)]),
    );
    const kernel: RowKernel = kind === "matvec"
      ? this.#rows.product(dispatch.params, at, sharesRows(dispatch, before))
      : kind === "norm"
      ? this.#rows.norm(dispatch.params, at)
      : this.#rows.pointwise(dispatch.params, at);
    return (_: KernelStep["tensors"], { count }: RowRange) => kernel(count);
  }

  #rotate({ params, tensors: names }: Extract<Dispatch, { kind: "rotate" }>, plan: MemoryPlan) {
    const { positions: _, ...placed } = names;
    const at = Object.fromEntries(
      Object.entries(placed).map(([role, name]) => [role, plan.getAddress(name)]),
    );
    const rotate = this.#rows.rotate(params, at);
    return (tensors: KernelStep["tensors"], { first, count }: RowRange) => {
      const positions = tensors.get(names.positions)!;
      // There is one row of positions, or one for each section.
      const numTokens = positions.dims.at(-1)!;
      const data = positions.data as BigInt64Array;
      rotate(
        Array.from({ length: data.length / numTokens }, (_, section) => {
          const start = section * numTokens + first;
          return data.subarray(start, start + count);
        }),
      );
    };
  }

  /**
   * Looks up rows of a constant, or of an input tensor. An input tensor is not copied, because it may have more rows
   * than the step.
   */
  #takeRows(
    { params: { rowBytes, tableRows }, tensors: names }: Extract<Dispatch, { kind: "take_rows" }>,
    plan: MemoryPlan,
  ) {
    const width = rowBytes / 4;
    const out = plan.getAddress(names.out);
    const constant = plan.tables.get(names.table);
    const placed = typeof constant === "number"
      ? this.#rows.floats(constant, tableRows * width)
      : undefined;
    const file = constant instanceof RowFile ? constant : undefined;
    return (tensors: KernelStep["tensors"], { first, count }: RowRange) => {
      const table = placed ?? tensors.get(names.table)?.data as Float32Array;
      const numbers = tensors.get(names.numbers)!.data as BigInt64Array;
      for (let row = 0; row < count; row++) {
        const number = Math.min(Number(numbers[first + row]!), tableRows - 1);
        const elements = file?.read(number) ?? table.subarray(number * width, (number + 1) * width);
        this.#rows.floats(out + row * rowBytes, width).set(elements);
      }
    };
  }
}

/** Whether a product reads the same rows, with the same norm, as the product before it. */
function sharesRows(
  { params, tensors }: Dispatch & { kind: "matvec" },
  before?: Dispatch,
): boolean {
  if (before?.kind !== "matvec" || before.tensors.out === tensors.x) return false;
  const { params: first, tensors: read } = before;
  if (!haveSameLevels(first, params)) return false;
  const isSame = read.x === tensors.x && read.affine === tensors.affine;
  return isSame && first.k === params.k && first.x.stride === params.x.stride &&
    first.x.offset === params.x.offset && first.norm?.kind === params.norm?.kind &&
    first.norm?.epsilon === params.norm?.epsilon;
}

/** Whether two products quantise rows in the same way, or not at all. */
function haveSameLevels({ weights: a }: MatvecParams, { weights: b }: MatvecParams): boolean {
  if (a.kind !== "nbits" || b.kind !== "nbits") return a.kind !== "nbits" && b.kind !== "nbits";
  const [first, second] = [chooseRowLevels(a), chooseRowLevels(b)];
  return first.copies === second.copies && first.isPaired === second.isPaired;
}
