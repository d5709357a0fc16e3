/**
 * Makes uploads and downloads of ONNX Runtime faster, by replacing its buffers.
 *
 * @module
 */

/**
 * Makes the device fill unlabelled upload buffers (mapped at creation, sources of copies) by `writeBuffer`.
 *
 * ONNX Runtime uploads every weight and every input through a buffer of its own that is mapped at creation. Deno's
 * `getMappedRange` first copies the content of the buffer, and a GPU's upload memory is slow to read: 33 ms per MiB on
 * an H200, where `writeBuffer` takes 0.1 ms. Here the mapped range is ordinary memory, which is written to the buffer
 * when it is unmapped.
 */
export function writeUploadBuffers(device: GPUDevice): void {
  const createBuffer = device.createBuffer.bind(device);
  device.createBuffer = (descriptor) => {
    if (!isUpload(descriptor)) return createBuffer(descriptor);
    const { size } = descriptor;
    const usage = GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const buffer = createBuffer({ size, usage });
    const mapped: { readonly offset: number; readonly bytes: ArrayBuffer }[] = [];
    return Object.assign(buffer, {
      getMappedRange: (offset = 0, length = size - offset) => {
        const bytes = new ArrayBuffer(length);
        mapped.push({ offset, bytes });
        return bytes;
      },
      unmap: () => {
        for (const { offset, bytes } of mapped.splice(0)) {
          device.queue.writeBuffer(buffer, offset, bytes);
          // Frees the memory now, rather than at the next garbage collection.
          bytes.transfer(0);
        }
      },
    });
  };
}

function isUpload({ label, usage, mappedAtCreation }: GPUBufferDescriptor): boolean {
  return !label && mappedAtCreation === true &&
    usage === (GPUBufferUsage.MAP_WRITE | GPUBufferUsage.COPY_SRC);
}

/**
 * Deno versions on which a mapped range may be taken before `mapAsync` resolves.
 *
 * Deno's `mapAsync` blocks until the GPU has finished, and then sleeps 10 ms before it resolves. The range is available
 * right after the call, but only if the buffer was mapped and awaited before: otherwise taking the range panics the
 * process. This is not in the WebGPU specification, so each version is verified before it is listed.
 */
const EARLY_RANGE_DENO_VERSIONS: ReadonlySet<string> = new Set(["2.9.6"]);

/** Whether this Deno gives a mapped range before `mapAsync` resolves. */
export function canTakeRangeEarly(denoVersion: string = Deno.version.deno): boolean {
  return EARLY_RANGE_DENO_VERSIONS.has(denoVersion);
}

/** Smallest size of a kept buffer. Sizes are powers of two. */
const MIN_BYTES = 2 ** 16;
/** Largest size of a kept buffer. Copying a larger one takes longer than the sleep. */
const MAX_BYTES = 2 ** 22;
/** Number of buffers that are kept per size. ONNX Runtime reads one tensor after the other. */
const KEPT_OF_A_SIZE = 2;

/**
 * Saves ONNX Runtime the 10 ms that Deno's `mapAsync` sleeps after the GPU has finished.
 *
 * ONNX Runtime creates a staging buffer for each tensor that it reads back, maps it, and destroys it. Here destroyed
 * staging buffers (unlabelled, and only read back) are kept, and returned when one is created again. Since a kept
 * buffer was mapped and awaited before, its range is available right after the call (see {@linkcode
 * canTakeRangeEarly}), and its `mapAsync` resolves at once.
 */
export function keepDownloadBuffers(
  device: GPUDevice,
  { takesRangeEarly = canTakeRangeEarly() }: { readonly takesRangeEarly?: boolean } = {},
): void {
  if (!takesRangeEarly) return;
  const createBuffer = device.createBuffer.bind(device);
  const kept = new Map<number, DownloadBuffer[]>();
  device.createBuffer = (descriptor) => {
    if (!isDownload(descriptor)) return createBuffer(descriptor);
    const size = Math.max(MIN_BYTES, 2 ** Math.ceil(Math.log2(descriptor.size)));
    const free = kept.get(size) ?? [];
    kept.set(size, free);
    const buffer = free.pop() ?? new DownloadBuffer(createBuffer({ ...descriptor, size }), {
      keep: (buffer) => free.length < KEPT_OF_A_SIZE && free.push(buffer) > 0,
    });
    return buffer.lend(descriptor.size);
  };
}

function isDownload({ label, size, usage, mappedAtCreation }: GPUBufferDescriptor): boolean {
  return !label && !mappedAtCreation && size <= MAX_BYTES &&
    usage === (GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST);
}

/** Replaces methods of a buffer, rather than wrapping it, because commands that copy to it need a GPUBuffer. */
class DownloadBuffer {
  readonly #buffer: GPUBuffer;
  readonly #native: Pick<GPUBuffer, "mapAsync" | "getMappedRange" | "unmap" | "destroy">;
  readonly #keep: (buffer: DownloadBuffer) => boolean;
  /** The requested size, which may be smaller than the buffer. */
  #size = 0;
  #isLent = false;
  /** Whether the buffer was ever mapped and awaited. Taking its range before that panics the process. */
  #wasMapped = false;
  #mapped: { readonly offset: number; readonly bytes: ArrayBuffer } | undefined;

  /** @param options.keep is called when the buffer is destroyed, and returns whether to keep it. */
  constructor(buffer: GPUBuffer, options: { readonly keep: (buffer: DownloadBuffer) => boolean }) {
    this.#buffer = buffer;
    this.#keep = options.keep;
    this.#native = {
      mapAsync: buffer.mapAsync.bind(buffer),
      getMappedRange: buffer.getMappedRange.bind(buffer),
      unmap: buffer.unmap.bind(buffer),
      destroy: buffer.destroy.bind(buffer),
    };
    Object.assign(buffer, {
      mapAsync: this.#mapAsync.bind(this),
      getMappedRange: this.#getMappedRange.bind(this),
      unmap: this.#unmap.bind(this),
      destroy: this.#destroy.bind(this),
    });
  }

  lend(size: number): GPUBuffer {
    this.#size = size;
    this.#isLent = true;
    return this.#buffer;
  }

  /** Maps the buffer and takes its range. Resolves when the range was taken. */
  async #mapAsync(mode: number, offset = 0, size = this.#size - offset): Promise<void> {
    const mapping = this.#native.mapAsync(mode, offset, size);
    const take = () => {
      this.#mapped = { offset, bytes: this.#native.getMappedRange(offset, size) };
    };
    if (this.#wasMapped) {
      // A rejection is ignored, because taking the range then fails too.
      mapping.catch(() => {});
      try {
        take();
        return;
      } catch {
        // The mapping below reports the reason.
      }
    }
    await mapping;
    take();
    this.#wasMapped = true;
  }

  #getMappedRange(offset?: number, size?: number): ArrayBuffer {
    if (this.#mapped === undefined) throw new DOMException("It is not mapped.", "OperationError");
    const { offset: first, bytes } = this.#mapped;
    const from = (offset ?? first) - first;
    const to = size === undefined ? bytes.byteLength : from + size;
    return from === 0 && to === bytes.byteLength ? bytes : bytes.slice(from, to);
  }

  #unmap(): void {
    this.#mapped = undefined;
    this.#native.unmap();
  }

  #destroy(): void {
    if (!this.#isLent) return;
    this.#isLent = false;
    if (this.#mapped !== undefined) this.#unmap();
    if (!this.#wasMapped || !this.#keep(this)) this.#native.destroy();
  }
}
