/**
 * The two graphs of a decoder that Optimum merged: one projects an encoder's output to keys and values, the other runs
 * tokens with them.
 *
 * @module
 */
import { StartupError } from "../base/errors.ts";
import { type DecoderGraphs, divideMerged, presentName } from "../graph/cut/merged_decoder.ts";
import type { ModelProto } from "../graph/file/proto.ts";
import { type GraphSession, Tensor, type Tensors } from "../device/ort/ort.ts";

/** Returns the two graphs of a merged decoder. @throws {StartupError} when it is not merged of two graphs. */
export function requireMerged(model: ModelProto, path: string): DecoderGraphs {
  const graphs = divideMerged(model);
  if (graphs !== undefined) return graphs;
  throw new StartupError(`${path} is not merged of two decoders, as Optimum exports them.`);
}

/** The keys and values before the first token, by the inputs that take them. */
export function emptyCache(inputs: GraphSession["inputs"], numRows: number): Tensors {
  return Object.fromEntries(inputs.map(({ name, type, shape }) => {
    const dims = shape.map((size, axis) =>
      axis === 0 ? numRows : typeof size === "number" ? size : 0
    );
    const nothing = type === "float16"
      ? new Tensor("float16", new Uint16Array(0), dims)
      : new Tensor("float32", new Float32Array(0), dims);
    return [name, nothing];
  }));
}

/** The outputs that become the next cache inputs, by the names of these inputs. */
export function pickCache(
  outputs: Tensors,
  inputNames: readonly string[],
): Record<string, Tensor> {
  return Object.fromEntries(inputNames.map((name) => [name, outputs[presentName(name)]!]));
}
