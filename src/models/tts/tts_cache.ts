/**
 * The key-value cache of a speech decoder, passed from step to step.
 *
 * @module
 */
import { presentName } from "../../onnx/cache_names.ts";
import { Tensor, type Tensors } from "../../onnx/ort.ts";
import type { TtsGraph } from "./tts_graph.ts";

/** The empty cache: tensors by input name. */
export function emptyCache(inputs: TtsGraph["inputs"]): Tensors {
  return Object.fromEntries(inputs.map((input) => [input.name, nothingYet(input)]));
}

/** The outputs that continue cache inputs, by the inputs' names. */
export function pickCache(
  outputs: Tensors,
  inputNames: readonly string[],
): Record<string, Tensor> {
  return Object.fromEntries(
    inputNames.map((name) => [name, outputs[presentName(name)]!]),
  );
}

function nothingYet({ type, shape }: TtsGraph["inputs"][number]): Tensor {
  const dims = shape.map((size, axis) => axis === 0 ? 1 : typeof size === "number" ? size : 0);
  return type === "float16"
    ? new Tensor("float16", new Uint16Array(0), dims)
    : new Tensor("float32", new Float32Array(0), dims);
}
