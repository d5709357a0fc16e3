/**
 * The weights of a model in GPU memory. They are read from the model's files by ranges, once, for both ONNX Runtime's
 * segments and Hearth's own kernels.
 *
 * @module
 */
import { StartupError } from "../base/errors.ts";
import { formatBytes } from "../base/bytes.ts";
import { createStorage, type GpuContext, queueDone } from "../gpu/device.ts";
import { countStoredBytes, type StoredTensor, type TensorType } from "../graph/file/tensor.ts";
import type { ModelFiles } from "../graph/file/external_data.ts";
import { readRange } from "../graph/file/stored_range.ts";

/** Bytes held in JavaScript at a time, whatever the size of the tensors. */
const CHUNK_BYTES = 16 * 2 ** 20;
/** Bytes that may be queued before the device has taken them. */
const QUEUED_BYTES = 4 * CHUNK_BYTES;

/** A constant of a graph in GPU memory: bytes `[offset, offset + size)` of a buffer, unchanged from the file. */
export interface DeviceTensor {
  /** ONNX Runtime binds whole buffers, so each buffer holds one tensor. The bytes after the tensor are zero. */
  readonly buffer: GPUBuffer;
  readonly offset: number;
  readonly size: number;
  readonly dtype: TensorType;
  readonly dims: readonly number[];
}

/** Options for opening the weights. */
export interface DeviceWeightsOptions {
  /** Called with the number of bytes uploaded so far, over all calls. */
  readonly onProgress?: ((bytes: number) => void) | undefined;
}

/** Owns its buffers. */
export class DeviceWeights {
  readonly #gpu: GpuContext;
  readonly #files: ModelFiles;
  readonly #onProgress: (bytes: number) => void;
  readonly #tensors = new Map<string, DeviceTensor>();
  /** Buffers by file range: names with the same range share a buffer. */
  readonly #buffers = new Map<string, GPUBuffer>();
  #chunk = new Uint8Array(0);
  /** Memory for tensors that are concatenated from others. */
  readonly #scratch = { bytes: new Uint8Array(0) };
  #numBytes = 0;
  #queuedBytes = 0;

  /** @param files may be closed once all needed tensors are uploaded. */
  constructor(gpu: GpuContext, files: ModelFiles, { onProgress }: DeviceWeightsOptions = {}) {
    this.#gpu = gpu;
    this.#files = files;
    this.#onProgress = onProgress ?? (() => {});
  }

  /** Bytes in device memory. */
  get numBytes(): number {
    return this.#numBytes;
  }

  /** Returns a tensor by its name in the graph; `undefined` unless it was uploaded. */
  get(name: string): DeviceTensor | undefined {
    return this.#tensors.get(name);
  }

  /**
   * Uploads tensors that are not uploaded yet.
   *
   * @throws {StartupError} when a file is too short for a tensor, or the device is out of memory.
   */
  async upload(tensors: Iterable<StoredTensor>): Promise<void> {
    await this.#scoped(["out-of-memory"], "the upload", async () => {
      for (const tensor of tensors) await this.#upload(tensor);
      await this.#flush();
    });
    // The memory for reading is no longer needed.
    this.#chunk = new Uint8Array(0);
    this.#scratch.bytes = new Uint8Array(0);
  }

  /** Frees the buffers. Sessions that read them must have been released. */
  dispose(): void {
    for (const buffer of this.#buffers.values()) buffer.destroy();
    this.#buffers.clear();
    this.#tensors.clear();
    this.#numBytes = 0;
  }

  async #upload(tensor: StoredTensor): Promise<void> {
    const { name, dtype, shape, data } = tensor;
    if (this.#tensors.has(name)) return;
    const size = countStoredBytes(tensor);
    const key = data.kind === "file" ? `${data.offset}+${data.length} ${data.file}` : `= ${name}`;
    let buffer = this.#buffers.get(key);
    if (buffer === undefined) {
      buffer = await this.#allocate(name, size);
      try {
        await this.#fill(buffer, tensor);
      } catch (error) {
        buffer.destroy();
        throw error;
      }
      this.#buffers.set(key, buffer);
      this.#numBytes += size;
    }
    this.#tensors.set(name, { buffer, offset: 0, size, dtype, dims: shape });
  }

  async #fill(buffer: GPUBuffer, tensor: StoredTensor): Promise<void> {
    const files = this.#files;
    const size = countStoredBytes(tensor);
    for (let offset = 0; offset < size; offset += CHUNK_BYTES) {
      const chunk = this.#take(Math.min(CHUNK_BYTES, size - offset));
      await readRange(tensor, { files, offset, scratch: this.#scratch }, chunk);
      await this.#write(buffer, offset, chunk);
    }
  }

  /** Allocates a buffer. @throws {StartupError} with the sizes when the device has no memory for it. */
  #allocate(label: string, size: number): Promise<GPUBuffer> {
    // Writing to an invalid buffer would count as an error of the device.
    const what = `"${label}" of ${formatBytes(size)}`;
    return this.#scoped(
      ["out-of-memory", "validation"],
      what,
      () => createStorage(this.#gpu, label, size),
    );
  }

  /** Runs something on the device. @throws {StartupError} when the device reports an error of these kinds. */
  async #scoped<T>(
    kinds: readonly GPUErrorFilter[],
    what: string,
    run: () => T | Promise<T>,
  ): Promise<T> {
    const { device } = this.#gpu;
    for (const kind of kinds) device.pushErrorScope(kind);
    const running = Promise.try(run);
    await Promise.allSettled([running]);
    const errors: GPUError[] = [];
    for (const _ of kinds) {
      // The loss of the device is reported elsewhere.
      const error = await device.popErrorScope().catch(() => null);
      if (error !== null) errors.push(error);
    }
    if (errors.length === 0) return await running;
    throw new StartupError(
      `The GPU has no room for ${what}, besides ${formatBytes(this.#numBytes)} of weights that ` +
        `it has: ${errors[0]!.message}`,
    );
  }

  /** Returns the start of the shared read buffer, which grows to the largest chunk. */
  #take(numBytes: number): Uint8Array<ArrayBuffer> {
    if (this.#chunk.length < numBytes) this.#chunk = new Uint8Array(Math.ceil(numBytes / 4) * 4);
    return this.#chunk.subarray(0, numBytes);
  }

  /**
   * Writes a chunk.
   *
   * @param chunk may be reused afterwards. Its length is rounded up, because queues write multiples of 4 bytes.
   */
  async #write(buffer: GPUBuffer, offset: number, chunk: Uint8Array<ArrayBuffer>): Promise<void> {
    const { length } = chunk;
    const padded = Math.ceil(length / 4) * 4;
    this.#chunk.fill(0, length, padded);
    this.#gpu.device.queue.writeBuffer(buffer, offset, this.#chunk, 0, padded);
    this.#queuedBytes += padded;
    if (this.#queuedBytes >= QUEUED_BYTES) await this.#flush();
    this.#onProgress(this.#numBytes + offset + length);
  }

  /** Waits for the queue, because each write holds a copy until it is done. */
  async #flush(): Promise<void> {
    if (this.#queuedBytes === 0) return;
    this.#queuedBytes = 0;
    await queueDone(this.#gpu.device);
  }
}
