/**
 * Records commands for the device, which are then submitted together, and encodes the commands of a repeated step ahead
 * of time.
 *
 * A submit costs the host as much as many dispatches, so all layers of a decoder's step are submitted at once. Submit
 * recorded commands before anything else is submitted, and before writing to a buffer that they read.
 *
 * @module
 */

/** Takes the dispatches of kernels: a compute pass of WebGPU, or {@linkcode Commands}. */
export interface ComputePass {
  setPipeline(pipeline: GPUComputePipeline): void;
  setBindGroup(index: 0, group: GPUBindGroup): void;
  dispatchWorkgroups(x: number, y?: number, z?: number): void;
}

/** A copy of `size` bytes from one buffer to another. */
export interface BufferCopy {
  readonly from: GPUBuffer;
  readonly fromOffset: number;
  readonly to: GPUBuffer;
  readonly toOffset: number;
  readonly size: number;
}

interface Dispatch {
  readonly pipeline: GPUComputePipeline;
  readonly group: GPUBindGroup;
  readonly x: number;
  readonly y: number;
  readonly z: number;
}

/** Dispatches, and copies of their results. */
interface Batch {
  readonly dispatches: readonly Dispatch[];
  readonly copies: readonly BufferCopy[];
}

export class Commands implements ComputePass {
  readonly #device: GPUDevice;
  #dispatches: Dispatch[] = [];
  #pipeline: GPUComputePipeline | undefined;
  #group: GPUBindGroup | undefined;
  #numSubmits = 0;
  #numReady = 0;
  /** The last batch with copies. */
  #last: Batch | undefined;
  /** The commands of the last batch, encoded once more if it was equal to the batch before. */
  #ready: GPUCommandBuffer | undefined;

  constructor(device: GPUDevice) {
    this.#device = device;
  }

  /** Number of submits so far. */
  get numSubmits(): number {
    return this.#numSubmits;
  }

  /** Number of submits whose commands had been encoded ahead. */
  get numReady(): number {
    return this.#numReady;
  }

  setPipeline(pipeline: GPUComputePipeline): void {
    this.#pipeline = pipeline;
  }

  setBindGroup(_index: 0, group: GPUBindGroup): void {
    this.#group = group;
  }

  dispatchWorkgroups(x: number, y = 1, z = 1): void {
    this.#dispatches.push({ pipeline: this.#pipeline!, group: this.#group!, x, y, z });
  }

  /** Submits the recorded commands, if any, and then `encoder`. */
  submit(encoder?: GPUCommandEncoder): void {
    const batch = this.#take([]);
    const recorded = batch.dispatches.length === 0 ? [] : [this.#encode(batch)];
    this.#submit([...recorded, ...encoder ? [encoder.finish()] : []]);
  }

  /**
   * Submits the recorded commands, followed by copies of their results.
   *
   * If the commands equal those of the last call, they are encoded once more for the next call while the device works.
   * The steps of a decoder are equal as long as its sequences stay the same, and encoding a step takes the host as long
   * as the GPU takes to run it.
   */
  submitCopying(copies: readonly BufferCopy[]): void {
    const batch = this.#take(copies);
    const isRepeated = this.#last !== undefined && areEqual(batch, this.#last);
    const ready = isRepeated ? this.#ready : undefined;
    this.#last = batch;
    this.#ready = undefined;
    if (ready !== undefined) this.#numReady++;
    this.#submit([ready ?? this.#encode(batch)]);
    if (isRepeated) this.#ready = this.#encode(batch);
  }

  #take(copies: readonly BufferCopy[]): Batch {
    const dispatches = this.#dispatches;
    this.#dispatches = [];
    return { dispatches, copies };
  }

  #encode({ dispatches, copies }: Batch): GPUCommandBuffer {
    const encoder = this.#device.createCommandEncoder();
    if (dispatches.length > 0) {
      const pass = encoder.beginComputePass();
      let last: GPUComputePipeline | undefined;
      for (const { pipeline, group, x, y, z } of dispatches) {
        if (pipeline !== last) pass.setPipeline(last = pipeline);
        pass.setBindGroup(0, group);
        pass.dispatchWorkgroups(x, y, z);
      }
      pass.end();
    }
    for (const { from, fromOffset, to, toOffset, size } of copies) {
      encoder.copyBufferToBuffer(from, fromOffset, to, toOffset, size);
    }
    return encoder.finish();
  }

  #submit(buffers: GPUCommandBuffer[]): void {
    if (buffers.length === 0) return;
    this.#numSubmits++;
    this.#device.queue.submit(buffers);
  }
}

function areEqual(a: Batch, b: Batch): boolean {
  if (a.dispatches.length !== b.dispatches.length || a.copies.length !== b.copies.length) {
    return false;
  }
  return a.dispatches.every((one, i) => {
    const { pipeline, group, x, y, z } = b.dispatches[i]!;
    return one.pipeline === pipeline && one.group === group && one.x === x && one.y === y &&
      one.z === z;
  }) && a.copies.every((one, i) => {
    const { from, fromOffset, to, toOffset, size } = b.copies[i]!;
    return one.from === from && one.fromOffset === fromOffset && one.to === to &&
      one.toOffset === toOffset && one.size === size;
  });
}
