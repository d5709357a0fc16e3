/**
 * Copies tensors to and from the device, for the tests of kernels.
 *
 * @module
 */
import { createBuffer, type GpuContext } from "../../src/gpu/device.ts";
import type { Elem } from "../../src/gpu/kernel.ts";
import { Readback } from "../../src/gpu/readback.ts";

/** Makes a buffer of `values` in the given type, for storage by default. */
export function upload(
  gpu: GpuContext,
  values: Float32Array,
  elem: Elem,
  usage: GPUBufferUsageFlags = GPUBufferUsage.STORAGE,
): GPUBuffer {
  const data = elem === "f16" ? new Float16Array(values) : values;
  // Padded like weights: some kernels read four elements at a time, to the end of the last four.
  const size = Math.max(16, Math.ceil(data.byteLength / 16) * 16);
  const buffer = createBuffer(gpu, {
    size,
    usage: usage | GPUBufferUsage.COPY_SRC,
    mappedAtCreation: true,
  });
  new Uint8Array(buffer.getMappedRange())
    .set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
  buffer.unmap();
  return buffer;
}

/** Joins a norm's factors and offsets as the kernels read them. */
export function makeAffine(
  { gamma, beta }: { gamma?: Float32Array | undefined; beta?: Float32Array | undefined },
): Float32Array | undefined {
  return gamma && beta ? Float32Array.from([...gamma, ...beta]) : gamma;
}

/** Runs the commands that `encode` appends to a pass, and reads `buffer` as float32. */
export async function runAndRead(
  gpu: GpuContext,
  encode: (pass: GPUComputePassEncoder) => void,
  { buffer, length, elem }: { buffer: GPUBuffer; length: number; elem: Elem },
): Promise<Float32Array> {
  const size = Math.ceil(length * (elem === "f16" ? 2 : 4) / 4) * 4;
  const readback = await Readback.create(gpu, { maxBytes: size, slots: 1 });
  const encoder = gpu.device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  encode(pass);
  pass.end();
  const bytes = await readback.read(encoder, [{ buffer, offset: 0, size }]);
  readback.dispose();
  const values = elem === "f16" ? new Float16Array(bytes.buffer) : new Float32Array(bytes.buffer);
  return new Float32Array(values.subarray(0, length));
}

/** Makes a storage buffer of bytes. */
export function uploadBytes(gpu: GpuContext, bytes: Uint8Array): GPUBuffer {
  const buffer = createBuffer(gpu, {
    size: Math.max(16, Math.ceil(bytes.length / 16) * 16),
    usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC,
    mappedAtCreation: true,
  });
  new Uint8Array(buffer.getMappedRange()).set(bytes);
  buffer.unmap();
  return buffer;
}
