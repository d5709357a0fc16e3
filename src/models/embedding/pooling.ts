/**
 * Pooling: turns one vector per token into one per text. It runs inside the graph, so that only the result is read
 * back.
 *
 * All modes but `max` are weighted sums over the tokens, so one matrix product computes any number of them together.
 * Tokens of a prompt may be excluded (`include_prompt: false`).
 *
 * @see
 * https://www.sbert.net/docs/package_reference/sentence_transformer/models.html#sentence_transformers.models.Pooling
 * @module
 */
import type { EncoderTail, TensorPort } from "../../graph/graph_cut.ts";
import {
  getOpset,
  int64Tensor,
  makeNode,
  type ModelProto,
  type Node,
  withGraph,
} from "../../graph/file/proto.ts";
import { makeValueInfo } from "../../graph/file/proto_codec.ts";
import { keepOutput } from "../folder/graph_file.ts";

/** Pooling modes. `cls` takes the very first token, `first` the first token that counts. */
export type PoolingMode =
  | "cls"
  | "first"
  | "max"
  | "mean"
  | "mean_sqrt_len"
  | "weightedmean"
  | "lasttoken";

/** The input added for weighted sums: f32 `[batch, modes other than max, length]`. */
export const POOLING_INPUT = "pooling_weights";

/** The input added for `max`: f32 `[batch, length, 1]`, 0 at tokens that count and {@linkcode HIDDEN_BY_MAX} at others. */
export const POOLING_BIAS = "pooling_bias";

/**
 * The output of a pooled graph: f32 `[batch, modes, hidden]`, or `[batch, hidden]` if the graph's own output already
 * has one vector per text.
 */
export const POOLED_OUTPUT = "hearth_pooled";

/** Lower than any value of a model, but finite to avoid NaN. */
const HIDDEN_BY_MAX = -1e30;

/** The output of a graph from which the rows of texts are taken. */
export interface TextOutput {
  readonly name: string;
  /** The pooling of its values, one vector per token; absent if it already has one vector per text. */
  readonly pooling?: readonly PoolingMode[] | undefined;
}

/** Finds which token the modes pick: the very first or the last one of a text; `undefined` for all other modes. */
export function findPickedToken(modes: readonly PoolingMode[]): "first" | "last" | undefined {
  if (modes.length > 1) return undefined;
  return modes[0] === "cls" ? "first" : modes[0] === "lasttoken" ? "last" : undefined;
}

/**
 * Makes the nodes of weighted sums for packed texts. Each text has its own rows of weights, which are zero at the
 * tokens of other texts.
 *
 * @param hidden f32 `[1, tokens, size]`.
 */
export function makePoolingTail(hidden: TensorPort): EncoderTail {
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

/** Changes the graph so that {@linkcode POOLED_OUTPUT}, one float32 row per text, is its only output. */
export function poolTexts(model: ModelProto, { name, pooling }: TextOutput): ModelProto {
  if (pooling === undefined) return keepOutput(model, name, POOLED_OUTPUT);
  const { graph } = model;
  const added = addPooling(name, pooling, getOpset(model));
  return withGraph(model, {
    nodes: [...graph.nodes, ...added.nodes],
    initializers: [...graph.initializers, ...added.initializers],
    inputs: [...graph.inputs, ...added.inputs],
    outputs: added.outputs,
  });
}

type Added = Pick<ModelProto["graph"], "nodes" | "initializers" | "inputs" | "outputs">;

const WEIGHTS = makeValueInfo(POOLING_INPUT, "float32", ["batch", "rows", "columns"]);
const BIAS = makeValueInfo(POOLING_BIAS, "float32", ["batch", "columns", 1]);
const ROWS_BY_MODE = makeValueInfo(POOLED_OUTPUT, "float32", ["batch", "modes", "hidden"]);

function addPooling(hidden: string, modes: readonly PoolingMode[], opset: number): Added {
  if (findPickedToken(modes) === "first") return addFirstToken(hidden);
  const numMax = modes.filter((mode) => mode === "max").length;
  if (numMax === 0) return addWeightedSums(hidden);
  return numMax === modes.length
    ? addMaximum(hidden, opset)
    : addSumsAndMaximum(hidden, modes, opset);
}

function toFloat32(from: string, to: string): Node {
  return makeNode("Cast", [from], [to], { attributes: { to: 1 } });
}

function addFirstToken(hidden: string): Added {
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

function addWeightedSums(hidden: string, output = POOLED_OUTPUT): Added {
  const wide = `${hidden}/float32`;
  return {
    nodes: [toFloat32(hidden, wide), makeNode("MatMul", [POOLING_INPUT, wide], [output])],
    initializers: [],
    inputs: [WEIGHTS],
    outputs: [ROWS_BY_MODE],
  };
}

function addMaximum(hidden: string, opset: number, output = POOLED_OUTPUT): Added {
  const [wide, biased] = [`${hidden}/wide`, `${hidden}/biased`];
  // Since opset 18 the axes are an input.
  const axes = opset >= 18 ? [int64Tensor("pooling_axes", [1], [1])] : [];
  const reduced = [biased, ...axes.map(({ name }) => name)];
  const attributes = axes.length > 0 ? {} : { axes: [1] };
  return {
    nodes: [
      toFloat32(hidden, wide),
      makeNode("Add", [wide, POOLING_BIAS], [biased]),
      makeNode("ReduceMax", reduced, [output], { attributes }),
    ],
    initializers: axes,
    inputs: [BIAS],
    outputs: [ROWS_BY_MODE],
  };
}

/** Adds the nodes of sums and maximum, and puts their rows into the order of the modes. */
function addSumsAndMaximum(hidden: string, modes: readonly PoolingMode[], opset: number): Added {
  const [sums, most, rows] = [`${hidden}/sums`, `${hidden}/most`, `${hidden}/pooled_rows`];
  const parts = [addWeightedSums(hidden, sums), addMaximum(hidden, opset, most)] as const;
  const numSums = modes.filter((mode) => mode !== "max").length;
  let next = 0;
  const order = int64Tensor(
    "pooling_order",
    [modes.length],
    modes.map((mode) => mode === "max" ? numSums : next++),
  );
  return {
    nodes: [
      ...parts.flatMap(({ nodes }) => nodes),
      makeNode("Concat", [sums, most], [rows], { attributes: { axis: 1 } }),
      makeNode("Gather", [rows, order.name], [POOLED_OUTPUT], { attributes: { axis: 1 } }),
    ],
    initializers: [...parts.flatMap(({ initializers }) => initializers), order],
    inputs: parts.flatMap(({ inputs }) => inputs),
    outputs: [ROWS_BY_MODE],
  };
}

/**
 * Fills in {@linkcode POOLING_INPUT} for one text.
 *
 * @param into f32 `[modes other than max, length of the batch]`.
 * @param text.numTokens number of the text's tokens; the rest of a row is padding.
 * @param text.from index of the first token that counts; tokens before it belong to the prompt.
 * @example
 * ```ts
 * import { fillPooling } from "./pooling.ts";
 * import assert from "node:assert/strict";
 * const weights = new Float32Array(4);
 * fillPooling(["mean"], weights, { numTokens: 2 });
 * assert.deepEqual([...weights], [0.5, 0.5, 0, 0]);
 * ```
 */
export function fillPooling(
  modes: readonly PoolingMode[],
  into: Float32Array,
  text: { readonly numTokens: number; readonly from?: number | undefined },
): void {
  const summed = modes.filter((mode) => mode !== "max");
  const length = into.length / summed.length;
  summed.forEach((mode, row) => {
    fillRow(mode, into.subarray(row * length, (row + 1) * length), {
      numTokens: text.numTokens,
      from: text.from ?? 0,
    });
  });
}

/** Fills in {@linkcode POOLING_BIAS} for one text. @param into f32 `[length of the batch]`. */
export function fillPoolingBias(
  into: Float32Array,
  { numTokens, from = 0 }: { readonly numTokens: number; readonly from?: number | undefined },
): void {
  into.fill(HIDDEN_BY_MAX);
  into.fill(0, from, numTokens);
}

function fillRow(
  mode: PoolingMode,
  row: Float32Array,
  { numTokens, from }: { readonly numTokens: number; readonly from: number },
): void {
  row.fill(0);
  switch (mode) {
    case "cls":
      row[0] = 1;
      return;
    case "first":
      row[from] = 1;
      return;
    case "lasttoken":
      row[numTokens - 1] = 1;
      return;
    case "mean":
      row.fill(1 / (numTokens - from), from, numTokens);
      return;
    case "mean_sqrt_len":
      row.fill(1 / Math.sqrt(numTokens - from), from, numTokens);
      return;
    case "weightedmean": {
      // A token's weight is its position in the whole text, prompt included.
      const sum = (numTokens * (numTokens + 1) - from * (from + 1)) / 2;
      for (let token = from; token < numTokens; token++) row[token] = (token + 1) / sum;
    }
  }
}
