/**
 * Memory for rows in 8 bits, between the kernel that rounds them and the product that reads them.
 *
 * @module
 */
import { createBuffer, type GpuContext } from "../../src/gpu/device.ts";
import { BLOCK } from "./int8_shape.ts";

/** Rows that lie together; see int8_rows.wgsl. */
const GROUP = 64;

const buffers = new WeakMap<GpuContext, GPUBuffer>();

/**
 * One buffer for all products of a device, which run one after the other. It grows to what the largest needs; what was
 * recorded with a smaller one keeps that.
 */
export function roundedRows(gpu: GpuContext, k: number, numRows: number): GPUBuffer {
  const groups = 2 ** Math.ceil(Math.log2(Math.ceil(numRows / GROUP)));
  const size = groups * groupBytes(k);
  let buffer = buffers.get(gpu);
  if (buffer === undefined || buffer.size < size) {
    const usage = GPUBufferUsage.STORAGE;
    buffers.set(gpu, buffer = createBuffer(gpu, { label: "rounded rows", size, usage }));
  }
  return buffer;
}

/** Words of the elements, a pair of words for each block, and one for each row. */
function groupBytes(k: number): number {
  return GROUP * (k + k / BLOCK * 8 + 4);
}
