/**
 * Pooling: from one vector per token to one per text, inside the graph, so that only the result is read back.
 *
 * All but `max` are weighted sums over the tokens, so that one matrix product computes them, several side by side too.
 *
 * @see https://www.sbert.net/docs/package_reference/sentence_transformer/models.html#sentence_transformers.models.Pooling
 * @module
 */
import type { EncoderTail } from "../../onnx/cut/encoder_cut.ts";
import type { TensorPort } from "../../onnx/graph_cut.ts";
import {
  int64Tensor,
  makeNode,
  type ModelProto,
  type Node,
  opsetOf,
} from "../../onnx/file/proto.ts";
import { makeValueInfo } from "../../onnx/file/proto_write.ts";
import { keepOutput } from "../graph_ports.ts";

export type PoolingMode = "cls" | "max" | "mean" | "mean_sqrt_len" | "weightedmean" | "lasttoken";

/** Input that weighted sums and `max` add: f32 `[batch, modes, length]`; for `max` a bias, `[batch, length, 1]`. */
export const POOLING_INPUT = "pooling_weights";

/** Output of a pooled graph: f32 `[batch, modes, hidden]`, or `[batch, hidden]` of what has no modes. */
export const POOLED_OUTPUT = "hearth_pooled";

/** Below any value of a model, and finite to avoid NaN. */
const HIDDEN_BY_MAX = -1e30;

/** The output of a graph that becomes the texts' rows. */
export interface TextOutput {
  readonly name: string;
  /** Its values, one per token, are pooled so; absent if there is one per text already. */
  readonly pooling?: readonly PoolingMode[] | undefined;
}

/** The single token that pooling picks; `undefined` if more tokens count. */
export function pickedToken(modes: readonly PoolingMode[]): "first" | "last" | undefined {
  if (modes.length > 1) return undefined;
  return modes[0] === "cls" ? "first" : modes[0] === "lasttoken" ? "last" : undefined;
}

/**
 * The nodes of weighted sums, for packed texts: each text has its own rows of weights, zero at the tokens of others.
 *
 * @param hidden f32 `[1, tokens, size]`.
 */
export function poolingTail(hidden: TensorPort): EncoderTail {
  const input: TensorPort = {
    name: POOLING_INPUT,
    dtype: "float32",
    shape: [1, "rows", "tokens"],
  };
  return {
    nodes: [makeNode("MatMul", [POOLING_INPUT, hidden.name], [POOLED_OUTPUT])],
    input,
    output: { name: POOLED_OUTPUT, dtype: "float32", shape: [1, "rows", hidden.shape.at(-1)!] },
  };
}

/** The graph with {@linkcode POOLED_OUTPUT}, a row per text in float32, as its only output. */
export function poolTexts(model: ModelProto, { name, pooling }: TextOutput): ModelProto {
  if (pooling === undefined) return keepOutput(model, name, POOLED_OUTPUT);
  const { graph } = model;
  const added = pickedToken(pooling) === "first"
    ? firstToken(name)
    : pooling[0] === "max"
    ? maximum(name, opsetOf(model))
    : weightedSums(name);
  return {
    ...model,
    graph: {
      ...graph,
      nodes: [...graph.nodes, ...added.nodes],
      initializers: [...graph.initializers, ...added.initializers],
      inputs: [...graph.inputs, ...added.inputs],
      outputs: added.outputs,
    },
  };
}

type Added = Pick<ModelProto["graph"], "nodes" | "initializers" | "inputs" | "outputs">;

const WEIGHTS = makeValueInfo(POOLING_INPUT, "float32", ["batch", "rows", "columns"]);
const ROWS_BY_MODE = makeValueInfo(POOLED_OUTPUT, "float32", ["batch", "modes", "hidden"]);

function toFloat32(from: string, to: string): Node {
  return makeNode("Cast", [from], [to], { attributes: { to: 1 } });
}

function firstToken(hidden: string): Added {
  const first = int64Tensor(`${hidden}/first`, [], [0]);
  const picked = `${hidden}/picked`;
  return {
    nodes: [
      makeNode("Gather", [hidden, first.name], [picked], { attributes: { axis: 1 } }),
      toFloat32(picked, POOLED_OUTPUT),
    ],
    initializers: [first],
    inputs: [],
    outputs: [makeValueInfo(POOLED_OUTPUT, "float32", ["batch", "hidden"])],
  };
}

function weightedSums(hidden: string): Added {
  const wide = `${hidden}/float32`;
  const product = makeNode("MatMul", [POOLING_INPUT, wide], [POOLED_OUTPUT]);
  return {
    nodes: [toFloat32(hidden, wide), product],
    initializers: [],
    inputs: [WEIGHTS],
    outputs: [ROWS_BY_MODE],
  };
}

function maximum(hidden: string, opset: number): Added {
  const [wide, biased] = [`${hidden}/float32`, `${hidden}/biased`];
  // From version 18 of the operators on the axes are an input.
  const axes = opset >= 18 ? [int64Tensor("pooling_axes", [1], [1])] : [];
  const reduced = [biased, ...axes.map(({ name }) => name)];
  const attributes = axes.length > 0 ? {} : { axes: [1] };
  return {
    nodes: [
      toFloat32(hidden, wide),
      makeNode("Add", [wide, POOLING_INPUT], [biased]),
      makeNode("ReduceMax", reduced, [POOLED_OUTPUT], { attributes }),
    ],
    initializers: axes,
    inputs: [WEIGHTS],
    outputs: [ROWS_BY_MODE],
  };
}

/**
 * Fills in {@linkcode POOLING_INPUT} for one text.
 *
 * @param into f32 `[modes, length of the batch]`; `max` uses its one row.
 * @param numTokens the text's own; the rest of a row is padding.
 *
 * @example
 * ```ts
 * import { fillPooling } from "./pooling.ts";
 * import assert from "node:assert/strict";
 * const weights = new Float32Array(4);
 * fillPooling(["mean"], weights, 2);
 * assert.deepEqual([...weights], [0.5, 0.5, 0, 0]);
 * ```
 */
export function fillPooling(
  modes: readonly PoolingMode[],
  into: Float32Array,
  numTokens: number,
): void {
  const length = into.length / modes.length;
  modes.forEach((mode, row) => {
    fillRow(mode, into.subarray(row * length, (row + 1) * length), numTokens);
  });
}

function fillRow(mode: PoolingMode, row: Float32Array, numTokens: number): void {
  row.fill(0);
  switch (mode) {
    case "cls":
      row[0] = 1;
      return;
    case "lasttoken":
      row[numTokens - 1] = 1;
      return;
    case "mean":
      row.fill(1 / numTokens, 0, numTokens);
      return;
    case "mean_sqrt_len":
      row.fill(1 / Math.sqrt(numTokens), 0, numTokens);
      return;
    case "weightedmean": {
      const sum = numTokens * (numTokens + 1) / 2;
      for (let token = 0; token < numTokens; token++) row[token] = (token + 1) / sum;
      return;
    }
    case "max":
      row.fill(HIDDEN_BY_MAX, numTokens);
  }
}
