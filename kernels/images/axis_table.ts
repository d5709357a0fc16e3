/**
 * The resampling weights of an axis in device memory.
 *
 * @module
 */
import { createStorage, type GpuContext } from "../../src/gpu/device.ts";
import type { Weights } from "../../src/media/resample_filter.ts";

const SPAN_WORDS = 2;

/** Two buffers, which grow to the longest axis so far. It owns them. */
export class AxisTable {
  readonly #gpu: GpuContext;
  readonly #label: string;
  #spans: GPUBuffer | undefined;
  #weights: GPUBuffer | undefined;

  constructor(gpu: GpuContext, label: string) {
    this.#gpu = gpu;
    this.#label = label;
  }

  /**
   * Uploads an axis, before any work that is submitted later.
   *
   * @returns `Span [outputs]` and `f32 [outputs, stride]`, valid until the next call.
   */
  write({ first, count, values }: Weights): { spans: GPUBuffer; weights: GPUBuffer } {
    const spans = new Uint32Array(SPAN_WORDS * first.length);
    for (let i = 0; i < first.length; i++) {
      spans[SPAN_WORDS * i] = first[i]!;
      spans[SPAN_WORDS * i + 1] = count[i]!;
    }
    this.#spans = this.#upload(this.#spans, spans);
    this.#weights = this.#upload(this.#weights, Float32Array.from(values));
    return { spans: this.#spans, weights: this.#weights };
  }

  /** Frees its buffers; work submitted before still runs. */
  dispose(): void {
    this.#spans?.destroy();
    this.#weights?.destroy();
  }

  #upload(
    buffer: GPUBuffer | undefined,
    data: Uint32Array<ArrayBuffer> | Float32Array<ArrayBuffer>,
  ): GPUBuffer {
    let fitting = buffer;
    if (fitting === undefined || fitting.size < data.byteLength) {
      fitting?.destroy();
      fitting = createStorage(this.#gpu, this.#label, data.byteLength);
    }
    this.#gpu.device.queue.writeBuffer(fitting, 0, data);
    return fitting;
  }
}
