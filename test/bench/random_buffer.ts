/**
 * Buffers of random numbers.
 *
 * @module
 */
import type { GpuContext } from "../../src/gpu/device.ts";
import { type Elem, elemBytes } from "../../src/gpu/kernel.ts";

/** A storage buffer of numbers between -0.5 and 0.5. */
export function createRandom(gpu: GpuContext, length: number, elem: Elem): GPUBuffer {
  const size = Math.max(16, Math.ceil(length * elemBytes(elem) / 4) * 4);
  const buffer = gpu.device.createBuffer({
    size,
    usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST,
  });
  const Elements = elem === "f16" ? Float16Array : Float32Array;
  const values = new Elements(size / elemBytes(elem));
  for (let i = 0; i < values.length; i++) values[i] = (i * 2654435761 >>> 8 & 0xffff) / 65536 - 0.5;
  // Not mapped at creation: a card's upload memory is slow to read, and Deno reads it first.
  gpu.device.queue.writeBuffer(buffer, 0, values);
  return buffer;
}
