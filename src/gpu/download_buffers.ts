/**
 * Spares ONNX Runtime the 10 ms that Deno's `mapAsync` sleeps after the GPU has finished.
 *
 * ONNX Runtime creates a staging buffer for each tensor that it reads back, maps it, awaits that, and destroys it. Here
 * such buffers are kept and lent again: on one that was mapped and awaited before, the range is there right after the
 * call (see {@linkcode canTakeRangeEarly}), so that its `mapAsync` resolves at once.
 *
 * @module
 */
import { canTakeRangeEarly } from "./early_range.ts";

/** Smallest size; sizes are powers of two. Copying a larger buffer takes longer than the sleep. */
const MIN_BYTES = 2 ** 16;
const MAX_BYTES = 2 ** 22;
/** Buffers kept per size; ONNX Runtime reads one tensor after the other. */
const KEPT_OF_A_SIZE = 2;

/**
 * Makes the device reuse buffers: whoever creates an unlabelled buffer that is only read back gets one that was kept.
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

/** A buffer whose methods are replaced: it must be a GPUBuffer itself where commands copy to it. */
class DownloadBuffer {
  readonly #buffer: GPUBuffer;
  readonly #native: Pick<GPUBuffer, "mapAsync" | "getMappedRange" | "unmap" | "destroy">;
  readonly #keep: (buffer: DownloadBuffer) => boolean;
  /** The requested size, which may be smaller than the buffer. */
  #size = 0;
  #isLent = false;
  /** Whether it was ever mapped and awaited. Taking the range before that panics the process. */
  #wasMapped = false;
  #mapped: { readonly offset: number; readonly bytes: ArrayBuffer } | undefined;

  /** @param options.keep returns whether the buffer is kept when it is given back. */
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

  /** Maps the buffer and takes its range. Resolves only once the range was taken. */
  async #mapAsync(mode: number, offset = 0, size = this.#size - offset): Promise<void> {
    const mapping = this.#native.mapAsync(mode, offset, size);
    const take = () => {
      this.#mapped = { offset, bytes: this.#native.getMappedRange(offset, size) };
    };
    if (this.#wasMapped) {
      // // Ignored, because taking the range has already failed.
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
