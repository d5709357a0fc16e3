/**
 * Gathers rows of tensors in a new tensor, on the CPU and on a GPU.
 *
 * @module
 */
import { createStorage, type GpuContext } from "../gpu/device.ts";
import { Tensor } from "./ort/ort.ts";
import type { TensorRows } from "./backend.ts";

type Elements = Float32Array<ArrayBuffer> | Uint16Array<ArrayBuffer>;

/** See {@linkcode Backend.gatherRows}. */
export function gatherRowsOnCpu(parts: readonly TensorRows[]): Tensor {
  const { type, rest, rowSize, numRows } = describe(parts);
  const [first] = parts;
  const kind = (first!.tensor.data as Elements).constructor as new (size: number) => Elements;
  const data = new kind(numRows * rowSize);
  let at = 0;
  for (const { tensor, rows } of parts) {
    const source = tensor.data as Elements;
    for (const row of rows) {
      data.set(source.subarray(row * rowSize, (row + 1) * rowSize), at);
      at += rowSize;
    }
  }
  return new Tensor(type as "float32", data as Float32Array, [numRows, ...rest]);
}

/** See {@linkcode Backend.gatherRows}. Rows are a multiple of 4 bytes. */
export function gatherRowsOnGpu(gpu: GpuContext, parts: readonly TensorRows[]): Tensor {
  const { type, rest, rowSize, numRows } = describe(parts);
  const rowBytes = rowSize * (type === "float16" ? 2 : 4);
  const buffer = createStorage(gpu, "rows", numRows * rowBytes);
  const encoder = gpu.device.createCommandEncoder();
  let at = 0;
  for (const { tensor, rows } of parts) {
    const source = tensor.gpuBuffer as GPUBuffer;
    for (const row of rows) {
      encoder.copyBufferToBuffer(source, row * rowBytes, buffer, at, rowBytes);
      at += rowBytes;
    }
  }
  gpu.commands.submit(encoder);
  return Tensor.fromGpuBuffer(buffer, {
    dataType: type as "float32" | "float16",
    dims: [numRows, ...rest],
    dispose: () => buffer.destroy(),
  });
}

function describe(parts: readonly TensorRows[]) {
  const { type, dims: [, ...rest] } = parts[0]!.tensor;
  return {
    type,
    rest,
    rowSize: rest.reduce((product, size) => product * size, 1),
    numRows: parts.reduce((sum, { rows }) => sum + rows.length, 0),
  };
}
