/**
 * Runs programs on the CPU, in WebAssembly. The kernels read weights in their own layout.
 *
 * @module
 */
import type { KernelThreads } from "../../../kernels/cpu/kernel_threads.ts";
import { SimdRows } from "../../../kernels/cpu/row_simd.ts";
import type { Program } from "../../program/program.ts";
import { MemoryPlan, OpenProgram } from "./program.ts";
import type { KernelExecutor, KernelsOptions, KernelStep } from "../kernel_executor.ts";
import { packWeights } from "./pack_weights.ts";

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
