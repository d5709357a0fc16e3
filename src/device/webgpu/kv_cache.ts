/**
 * The buffers of a paged KV cache on a GPU, which can be replaced by larger or smaller ones.
 *
 * @module
 */
import { createStorage, type GpuContext, queueDone } from "../../gpu/device.ts";

/** The cache of one attention layer. The buffers change when the cache is resized. */
export interface LayerCache {
  keys: GPUBuffer;
  values: GPUBuffer;
}

/** Memory that is left for everything else when the cache grows: activations of long prompts, encoders. */
const HEADROOM_BYTES = 256 * 2 ** 20;
/**
 * Replaced buffers are freed when the device is done with them. Once this many bytes wait to be freed, Hearth waits for
 * the device.
 */
const WAIT_BYTES = 2 ** 30;

export class WebGpuKvCache {
  readonly layers: readonly LayerCache[];
  readonly #gpu: GpuContext;
  /** Bytes per block of each layer's keys; its values take the same. */
  readonly #blockBytes: readonly number[];
  #numBlocks: number;

  /** @param blockBytes bytes per block of each layer's keys; its values take the same. */
  constructor(gpu: GpuContext, blockBytes: readonly number[], numBlocks: number) {
    this.#gpu = gpu;
    this.#blockBytes = blockBytes;
    this.#numBlocks = numBlocks;
    this.layers = blockBytes.map((bytes) => this.#allocate(bytes * numBlocks));
  }

  /**
   * Replaces all buffers by larger or smaller ones, layer by layer, and copies the content of blocks that remain.
   *
   * @returns false if the device has no memory for it, in which case all blocks are unchanged.
   */
  async resize(numBlocks: number): Promise<boolean> {
    if (numBlocks > this.#numBlocks && !await this.#hasRoom(numBlocks)) return false;
    // Recorded commands still use the buffers.
    this.#gpu.commands.submit();
    const kept = Math.min(numBlocks, this.#numBlocks);
    let pendingBytes = 0;
    for (const [index, layer] of this.layers.entries()) {
      const bytes = this.#blockBytes[index]!;
      const made = await this.#tryAllocate(() => this.#allocate(bytes * numBlocks));
      // Layers that have already grown stay larger, but the additional blocks are not used.
      if (made === undefined) return false;
      const encoder = this.#gpu.device.createCommandEncoder();
      for (const name of ["keys", "values"] as const) {
        encoder.copyBufferToBuffer(layer[name], 0, made[name], 0, bytes * kept);
      }
      this.#gpu.device.queue.submit([encoder.finish()]);
      layer.keys.destroy();
      layer.values.destroy();
      Object.assign(layer, made);
      pendingBytes += 2 * bytes * kept;
      if (pendingBytes < WAIT_BYTES) continue;
      await queueDone(this.#gpu.device);
      pendingBytes = 0;
    }
    this.#numBlocks = numBlocks;
    return true;
  }

  dispose(): void {
    for (const { keys, values } of this.layers) {
      keys.destroy();
      values.destroy();
    }
  }

  /** Whether the device has the memory that growth needs, including a layer's old buffers next to its new ones. */
  async #hasRoom(numBlocks: number): Promise<boolean> {
    const total = this.#blockBytes.reduce((sum, bytes) => sum + 2 * bytes, 0);
    const largest = Math.max(0, ...this.#blockBytes);
    const most = Math.min(
      this.#gpu.limits.maxBufferSize,
      this.#gpu.limits.maxStorageBufferBindingSize,
    );
    if (largest * numBlocks > most) return false;
    let needed = total * (numBlocks - this.#numBlocks) + 2 * largest * numBlocks + HEADROOM_BYTES;
    const probes: GPUBuffer[] = [];
    try {
      for (; needed > 0; needed -= most) {
        const probe = await this.#tryAllocate(() => this.#createBuffer(Math.min(needed, most)));
        if (probe === undefined) return false;
        probes.push(probe);
      }
      return true;
    } finally {
      for (const probe of probes) probe.destroy();
      await queueDone(this.#gpu.device);
    }
  }

  /** Allocates memory. @returns `undefined` if the device has none. */
  async #tryAllocate<T>(allocate: () => T): Promise<T | undefined> {
    const { device } = this.#gpu;
    device.pushErrorScope("out-of-memory");
    const made = allocate();
    return await device.popErrorScope() === null ? made : undefined;
  }

  #allocate(bytes: number): LayerCache {
    return { keys: this.#createBuffer(bytes), values: this.#createBuffer(bytes) };
  }

  #createBuffer(bytes: number): GPUBuffer {
    return createStorage(this.#gpu, "keys or values", bytes);
  }
}
