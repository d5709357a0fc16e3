/**
 * Segments of a cut decoder on our kernels on the CPU. They read weights in a layout of their own.
 *
 * @module
 */
import type { KernelThreads } from "../../kernels/kernel_threads.ts";
import { SimdRows } from "../../kernels/row_simd.ts";
import type { CompiledSegment } from "../onnx/compile/compile_cut.ts";
import {
  type CompiledSegments,
  firstRefusal,
  type SegmentsOptions,
  type SegmentStep,
} from "./compiled_segments.ts";
import { MemoryPlan, OpenProgram, refusalOf } from "./cpu_program.ts";
import { packWeights } from "./pack_weights.ts";

interface OpenSegment {
  readonly few: OpenProgram;
  readonly many: OpenProgram;
}

/** A segment as our kernels run it on the CPU, or why they do not. */
export function compiledForCpu(segment: CompiledSegment): CompiledSegment {
  if ("refused" in segment) return segment;
  const refused = refusalOf(segment.few) ?? refusalOf(segment.many);
  return refused === undefined ? segment : { refused };
}

export class CpuSegments implements CompiledSegments {
  readonly refusal: string | undefined;
  readonly #rows: SimdRows;
  readonly #segments: readonly (OpenSegment | undefined)[];
  readonly #open: Disposable;

  private constructor(
    segments: readonly (OpenSegment | undefined)[],
    { rows, refusal, open }: {
      readonly rows: SimdRows;
      readonly refusal: string | undefined;
      readonly open: Disposable;
    },
  ) {
    this.#rows = rows;
    this.#segments = segments;
    this.refusal = refusal;
    this.#open = open;
  }

  /**
   * Reads the weights.
   *
   * @returns `undefined` if the kernels run no segment.
   * @throws {StartupError} when there is not enough memory.
   */
  static async open(
    options: SegmentsOptions,
    threads: KernelThreads,
  ): Promise<CpuSegments | undefined> {
    const segments = options.segments.map(compiledForCpu);
    const open = segments.flatMap((each) => "refused" in each ? [] : each);
    if (open.length === 0) return undefined;
    // They are there once the weights are, when steps are timed.
    threads.start();
    using opening = new DisposableStack();
    const plan = opening.use(new MemoryPlan());
    for (const { few, many } of open) {
      await plan.add(few, options);
      await plan.add(many, options);
    }
    const memory = plan.memory.allocate(threads.numThreads, options.spareBytes);
    const rows = new SimdRows(threads, memory);
    const matrices = [...plan.matrices.values()];
    await packWeights({ rows, memory, matrices, files: options.files });
    const opened = segments.map((each) =>
      "refused" in each ? undefined : {
        few: new OpenProgram(rows, each.few, plan),
        many: new OpenProgram(rows, each.many, plan),
      }
    );
    return new CpuSegments(opened, { rows, refusal: firstRefusal(segments), open: opening.move() });
  }

  get numCompiled(): number {
    return this.#segments.filter((segment) => segment !== undefined).length;
  }

  has(index: number): boolean {
    return this.#segments[index] !== undefined;
  }

  record(index: number, step: SegmentStep): void {
    this.#segments[index]![step.lowering].run(step);
  }

  attend(): boolean {
    return false;
  }

  dispose(): void {
    this.#rows.dispose();
    this.#open[Symbol.dispose]();
  }
}
