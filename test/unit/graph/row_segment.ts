/** A segment of a decoder whose rows have 8 elements, and its parts. */
import { makeNode, type Node, type Tensor } from "../../../src/graph/file/proto.ts";
import type { Segment } from "../../../src/graph/graph_cut.ts";
import { constant } from "../../fixtures/graphs/onnx_builder.ts";

export const WIDTH = 8;
export const VECTOR = constant("vector", [WIDTH], new Float32Array(WIDTH));
export const GAMMA = constant("gamma", [WIDTH], new Float32Array(WIDTH).fill(1));
export const MATRIX = constant("matrix", [WIDTH, WIDTH], new Float32Array(WIDTH * WIDTH));

/** Makes a segment from `x` and `r`, rows of 8 elements, to `y`. */
export function makeSegment(nodes: readonly Node[], initializers: readonly Tensor[]): Segment {
  const port = (name: string) => ({ name, dtype: "float32", shape: [1, "tokens", WIDTH] }) as const;
  return {
    index: 0,
    model: {
      irVersion: 8,
      operatorSets: [{ domain: "", version: 17 }],
      graph: {
        ...{ name: "segment", nodes, initializers, inputs: [], outputs: [] },
        ...{ valueInfos: [], rest: [] },
      },
      rest: [],
    },
    inputs: [port("x"), port("r")],
    outputs: [port("y")],
  };
}

/** Makes the product of a tensor with a matrix of {@linkcode WIDTH} by {@linkcode WIDTH}. */
export const product = (input = "x", output = "p", matrix = "matrix"): Node =>
  makeNode("MatMul", [input, matrix], [output]);
