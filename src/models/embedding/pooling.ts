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
import { int64Tensor, makeNode, type ModelProto } from "../../onnx/file/proto.ts";
import { makeValueInfo } from "../../onnx/file/proto_write.ts";

/** Pooling modes. */
export type PoolingMode = "cls" | "max" | "mean" | "mean_sqrt_len" | "weightedmean" | "lasttoken";

/** Input that {@linkcode appendPooling} adds: f32 `[batch, modes, length]`; for `max` a bias, `[batch, length, 1]`. */
export const POOLING_INPUT = "pooling_weights";

/** Output that {@linkcode appendPooling} leaves as the only one: f32 `[batch, modes, hidden]`. */
export const POOLED_OUTPUT = "pooled";

/** Below any value of a model, and finite to avoid NaN. */
const HIDDEN_BY_MAX = -1e30;

/** Whether one matrix product computes this pooling. */
export function areWeightedSums(modes: readonly PoolingMode[]): boolean {
  return modes[0] !== "max";
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

/** Lets the graph pool its output `hidden`, `[batch, length, hidden]`; its other outputs are removed. */
export function appendPooling(
  model: ModelProto,
  hidden: string,
  modes: readonly PoolingMode[],
): ModelProto {
  const { graph } = model;
  const wide = `${hidden}/float32`;
  const nodes = [makeNode("Cast", [hidden], [wide], { attributes: { to: 1 } })];
  const initializers = [...graph.initializers];
  if (!areWeightedSums(modes)) {
    const biased = `${hidden}/biased`;
    nodes.push(makeNode("Add", [wide, POOLING_INPUT], [biased]));
    if (opsetOf(model) >= 18) {
      const axes = int64Tensor("pooling_axes", [1], [1]);
      initializers.push(axes);
      nodes.push(makeNode("ReduceMax", [biased, axes.name], [POOLED_OUTPUT]));
    } else {
      nodes.push(makeNode("ReduceMax", [biased], [POOLED_OUTPUT], { attributes: { axes: [1] } }));
    }
  } else {
    nodes.push(makeNode("MatMul", [POOLING_INPUT, wide], [POOLED_OUTPUT]));
  }
  return {
    ...model,
    graph: {
      ...graph,
      nodes: [...graph.nodes, ...nodes],
      initializers,
      inputs: [
        ...graph.inputs,
        makeValueInfo(POOLING_INPUT, "float32", ["batch", "pooling_rows", "pooling_columns"]),
      ],
      outputs: [makeValueInfo(POOLED_OUTPUT, "float32", ["batch", "modes", "hidden"])],
    },
  };
}

/** Lets the graph give the first token's row of its output `hidden` alone, f32 `[batch, hidden]`: its `cls` pooling. */
export function appendFirstToken(model: ModelProto, hidden: string): ModelProto {
  const { graph } = model;
  const first = int64Tensor(`${hidden}/first`, [], [0]);
  const picked = `${hidden}/picked`;
  return {
    ...model,
    graph: {
      ...graph,
      nodes: [
        ...graph.nodes,
        makeNode("Gather", [hidden, first.name], [picked], { attributes: { axis: 1 } }),
        makeNode("Cast", [picked], [POOLED_OUTPUT], { attributes: { to: 1 } }),
      ],
      initializers: [...graph.initializers, first],
      outputs: [makeValueInfo(POOLED_OUTPUT, "float32", ["batch", "hidden"])],
    },
  };
}

function opsetOf({ operatorSets }: ModelProto): number {
  return operatorSets.find(({ domain }) => domain === "" || domain === "ai.onnx")?.version ?? 0;
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
