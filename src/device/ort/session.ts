/**
 * The interface of a loaded graph.
 *
 * @module
 */
import { Tensor } from "onnxruntime-common";
import type { InferenceSession } from "onnxruntime-common";

/**
 * An ONNX tensor on the CPU or on the device. The class creates CPU tensors and wraps GPU buffers
 * (`Tensor.fromGpuBuffer`).
 */
export { Tensor };

/** Tensors by name. */
export type Tensors = Readonly<Record<string, Tensor>>;

/** Frees tensors. */
export function disposeTensors(tensors: Tensors): void {
  for (const tensor of Object.values(tensors)) tensor.dispose();
}

/** One input or output of a session. */
export interface ValueInfo {
  readonly name: string;
  /** Element type as ONNX Runtime names it: `float32`, `int64` … */
  readonly type: Tensor.Type;
  /** Sizes of the axes; symbolic sizes are strings. */
  readonly shape: readonly (number | string)[];
}

/** A loaded graph. */
export interface GraphSession {
  readonly inputs: readonly ValueInfo[];
  readonly outputs: readonly ValueInfo[];
  /**
   * Runs the graph. The caller owns the results, and disposes those on the device.
   *
   * @param fetches the wanted outputs (all if absent), each with its destination: a tensor over memory of at least the
   * output's size (on a GPU, a buffer), or `null` if ONNX Runtime is to allocate it.
   */
  run(feeds: Tensors, fetches?: Readonly<Record<string, Tensor | null>>): Promise<Tensors>;
  /** Frees the weights. */
  release(): Promise<void>;
}

/** Describes inputs or outputs. @throws {Error} when one is not a tensor. */
export function describeValues(values: readonly InferenceSession.ValueMetadata[]): ValueInfo[] {
  return values.map((value) => {
    if (!value.isTensor) throw new Error(`"${value.name}" is not a tensor.`);
    return { name: value.name, type: value.type, shape: value.shape };
  });
}

/**
 * Converts a run's results to Hearth's Tensor class, since each build of ONNX Runtime has its own.
 *
 * @param fetches the caller's preallocated outputs.
 */
export function toHearthTensors(
  results: Tensors,
  fetches: Readonly<Record<string, Tensor | null>> = {},
): Tensors {
  return Object.fromEntries(
    Object.entries(results).map(([name, tensor]) => [name, fetches[name] ?? ownTensor(tensor)]),
  );
}

function ownTensor(tensor: Tensor): Tensor {
  const { type, dims } = tensor;
  if (tensor.location === "cpu") {
    return new Tensor(type as "float32", tensor.data as Float32Array, dims);
  }
  return Tensor.fromGpuBuffer(tensor.gpuBuffer, {
    dataType: type as "float32",
    dims,
    download: () => tensor.getData() as Promise<Float32Array>,
    dispose: () => tensor.dispose(),
  });
}
