/**
 * Reads GPU buffers back to the host through persistent staging buffers.
 *
 * @module
 */
import type { BufferCopy } from "./commands.ts";
import { createBuffer, DeviceLostError, type GpuContext } from "./device.ts";
import { canTakeRangeEarly } from "./ort_buffers.ts";

/** The bytes `[offset, offset + size)` of a buffer. Both numbers are multiples of 4. */
export interface BufferRange {
  readonly buffer: GPUBuffer;
  readonly offset: number;
  readonly size: number;
}

/** Staging buffers. As many reads as there are buffers may be in flight; further ones wait. */
export class Readback {
  readonly maxBytes: number;
  readonly #gpu: GpuContext;
  readonly #takesRangeEarly: boolean;
  readonly #staging: readonly GPUBuffer[];
  readonly #free: GPUBuffer[];
  readonly #waiting: ((staging: GPUBuffer) => void)[] = [];
  #isLost = false;

  private constructor(
    gpu: GpuContext,
    staging: readonly GPUBuffer[],
    options: { maxBytes: number; takesRangeEarly: boolean },
  ) {
    this.#gpu = gpu;
    this.#staging = staging;
    this.#free = [...staging];
    this.maxBytes = options.maxBytes;
    this.#takesRangeEarly = options.takesRangeEarly;
    gpu.lost.then(() => this.#isLost = true);
  }

  /**
   * Allocates the staging buffers and maps each once.
   *
   * @param options.maxBytes maximum number of bytes of one read.
   * @param options.slots reads that can be in flight at once.
   * @param options.takesRangeEarly false follows the WebGPU specification.
   */
  static async create(
    gpu: GpuContext,
    options: { maxBytes: number; slots?: number; takesRangeEarly?: boolean },
  ): Promise<Readback> {
    const { slots = 2, takesRangeEarly = true } = options;
    const staging = Array.from({ length: slots }, (_, slot) =>
      createBuffer(gpu, {
        label: `readback ${slot}`,
        size: Math.ceil(options.maxBytes / 4) * 4,
        usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
      }));
    await Promise.all(staging.map(async (buffer) => {
      await buffer.mapAsync(GPUMapMode.READ);
      buffer.unmap();
    }));
    return new Readback(gpu, staging, {
      maxBytes: options.maxBytes,
      takesRangeEarly: takesRangeEarly && canTakeRangeEarly(),
    });
  }

  /**
   * Appends copies of `ranges` to `encoder`, finishes and submits it, and waits for the bytes. Work recorded before the
   * copies shares their submit. Blocks the thread while the GPU works.
   *
   * @returns the ranges' bytes, one after the other; the caller owns them.
   * @throws {RangeError} when the ranges together exceed `maxBytes`.
   * @throws {DeviceLostError} when the device is gone.
   */
  read(
    encoder: GPUCommandEncoder,
    ranges: readonly BufferRange[],
  ): Promise<Uint8Array<ArrayBuffer>> {
    return this.#read(ranges, (copies) => {
      for (const { from, fromOffset, to, toOffset, size } of copies) {
        encoder.copyBufferToBuffer(from, fromOffset, to, toOffset, size);
      }
      this.#gpu.commands.submit(encoder);
    });
  }

  /** Like {@linkcode read}, for the results of the recorded commands. */
  readRecorded(ranges: readonly BufferRange[]): Promise<Uint8Array<ArrayBuffer>> {
    return this.#read(ranges, (copies) => this.#gpu.commands.submitCopying(copies));
  }

  async #read(
    ranges: readonly BufferRange[],
    submit: (copies: readonly BufferCopy[]) => void,
  ): Promise<Uint8Array<ArrayBuffer>> {
    const size = ranges.reduce((sum, range) => sum + range.size, 0);
    if (size > this.maxBytes) {
      throw new RangeError(
        `A read-back of ${size} bytes exceeds the ${this.maxBytes} bytes its staging buffers hold.`,
      );
    }
    if (size === 0) {
      submit([]);
      return new Uint8Array();
    }
    const staging = await this.#take();
    try {
      let toOffset = 0;
      submit(ranges.map(({ buffer, offset, size }) => {
        const copy = { from: buffer, fromOffset: offset, to: staging, toOffset, size };
        toOffset += size;
        return copy;
      }));
      return await this.#map(staging, size);
    } catch (error) {
      throw await this.#explain(error);
    } finally {
      this.#giveBack(staging);
    }
  }

  /** Frees the staging buffers; reads in flight fail. */
  dispose(): void {
    for (const staging of this.#staging) staging.destroy();
  }

  async #map(staging: GPUBuffer, size: number): Promise<Uint8Array<ArrayBuffer>> {
    const mapped = staging.mapAsync(GPUMapMode.READ, 0, size);
    // A rejection is ignored, because taking the range below then fails too.
    if (this.#takesRangeEarly) mapped.catch(() => {});
    else await mapped;
    const bytes = new Uint8Array(staging.getMappedRange(0, size)).slice();
    staging.unmap();
    return bytes;
  }

  /**
   * Converts a failure to a {@linkcode DeviceLostError} if the device was lost, which becomes known only shortly
   * afterwards.
   */
  async #explain(error: unknown): Promise<unknown> {
    await new Promise((resolve) => setTimeout(resolve, 0));
    if (!this.#isLost) return error;
    return new DeviceLostError("The GPU device was lost while its results were read.", {
      cause: error,
    });
  }

  #take(): GPUBuffer | Promise<GPUBuffer> {
    return this.#free.pop() ?? new Promise((resolve) => this.#waiting.push(resolve));
  }

  #giveBack(staging: GPUBuffer): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free.push(staging);
    else next(staging);
  }
}
