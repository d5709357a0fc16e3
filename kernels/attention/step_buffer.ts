/**
 * The step's plan on the device.
 *
 * @module
 */
import { createStorage, type GpuContext } from "../../src/gpu/device.ts";
import {
  type AttentionShape,
  type AttentionTiling,
  checkShape,
  choosePagedTiling,
} from "./attention_shape.ts";
import { type PackedStep, type StepLimits, StepPlan } from "./step_plan.ts";

/**
 * The plan of a step for `kv_write` and `paged_attention`, on the device, for all layers of one shape. All memory is
 * allocated in the constructor.
 */
export class StepBuffer {
  readonly shape: AttentionShape;
  readonly tiling: AttentionTiling;
  readonly plan: StepPlan;
  /** u32: the plan's words. */
  readonly words: GPUBuffer;
  /** f32 `[maxSlots, kvHeads, decode.rows, headSize + 4]`: partial results of split decode items. */
  readonly partials: GPUBuffer;
  readonly #gpu: GpuContext;

  /**
   * @param tiling the best tiling for the device by default.
   * @throws {RangeError} when the kernels cannot run the shape.
   */
  constructor(
    gpu: GpuContext,
    shape: AttentionShape,
    limits: StepLimits,
    tiling: AttentionTiling = choosePagedTiling(gpu, shape),
  ) {
    checkShape(shape);
    this.#gpu = gpu;
    this.shape = shape;
    this.tiling = tiling;
    this.plan = new StepPlan(shape, this.tiling, limits);
    this.words = createStorage(gpu, "step", this.plan.words.byteLength);
    const rows = this.plan.maxSlots * shape.kvHeads * this.tiling.decode.rows;
    this.partials = createStorage(gpu, "attention partials", rows * (shape.headSize + 4) * 4);
  }

  /** Plans `step` and writes the plan to the device, before any work that is submitted later. */
  write(step: PackedStep): void {
    this.plan.build(step);
    this.#gpu.device.queue.writeBuffer(this.words, 0, this.plan.words, 0, this.plan.length);
  }

  dispose(): void {
    this.words.destroy();
    this.partials.destroy();
  }
}
