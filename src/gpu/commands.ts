/**
 * Batches commands for the device into one submit.
 *
 * Each submit costs the host as much as many dispatches: a step of a decoder is recorded here, layer after layer.
 * Submit these before any other submit, and before writing to a buffer that recorded commands read.
 *
 * @module
 */

export class Commands {
  readonly #device: GPUDevice;
  #encoder: GPUCommandEncoder | undefined;
  #pass: GPUComputePassEncoder | undefined;
  #numSubmits = 0;

  constructor(device: GPUDevice) {
    this.#device = device;
  }

  /** Submits of this object so far. */
  get numSubmits(): number {
    return this.#numSubmits;
  }

  /** A pass to append dispatches to; the same until another command. The caller does not end it. */
  pass(): GPUComputePassEncoder {
    this.#encoder ??= this.#device.createCommandEncoder();
    return this.#pass ??= this.#encoder.beginComputePass();
  }

  /** Takes the recorded encoder, with its pass ended, for more to be appended; see {@linkcode submit}. */
  take(): GPUCommandEncoder {
    this.#pass?.end();
    const encoder = this.#encoder ?? this.#device.createCommandEncoder();
    this.#pass = undefined;
    this.#encoder = undefined;
    return encoder;
  }

  /** Submits the recorded commands, if any, and then `encoder`. */
  submit(encoder?: GPUCommandEncoder): void {
    const recorded = this.#encoder && this.take();
    const buffers = [recorded, encoder].flatMap((each) => each?.finish() ?? []);
    if (buffers.length === 0) return;
    this.#numSubmits++;
    this.#device.queue.submit(buffers);
  }
}
