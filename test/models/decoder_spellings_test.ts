/**
 * Decoders as exporters spell them compile on both devices, and give what ONNX Runtime gives over the whole graph:
 * alone, four at once with prompts of different lengths, and after a prefix from the cache.
 */
import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { compileForCpu, compileForGpu } from "../../src/cli/cut_report.ts";
import { EngineLoop } from "../../src/engine/loop.ts";
import { toDtypeCode } from "../../src/graph/file/tensor.ts";
import {
  attribute,
  makeNode,
  type Node,
  type Tensor,
  withGraph,
} from "../../src/graph/file/proto.ts";
import { readModel } from "../../src/graph/file/proto_read.ts";
import { makeValueInfo, writeModel } from "../../src/graph/file/proto_codec.ts";
import { cutGraph } from "../../src/graph/cut/cut_graph.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { loadDecoder } from "../../src/models/folder/decoder_load.ts";
import { generate, type Prompt } from "../fixtures/engine/generate.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { makeContext } from "../fixtures/engine/open_folder.ts";
import { constant } from "../fixtures/graphs/onnx_builder.ts";
import {
  type AddAttention,
  decoder,
  type DecoderBuilder,
  type DecoderOptions,
  inMemory,
  lengths,
  MASK,
  POSITIONS,
  projections,
  SIZES,
} from "../unit/graph/test_decoder.ts";
import {
  addFalconBias,
  additiveMask,
  addMptBias,
  addMptTable,
  bloomAttention,
  computeSlopes,
  joinSinks,
  spelledOut,
} from "../unit/graph/spelled_out.ts";
import { mamba2, shortConvolution } from "../unit/graph/state_layers.ts";
import { WholeGraph } from "../unit/graph/whole_graph.ts";

const MAX_POSITIONS = 96;
const PROMPTS = [2, 9, 30, 17].map((length, seed) =>
  Array.from({ length }, (_, i) => (seed * 5 + i * 11) % SIZES.vocab)
);
const MAX_TOKENS = 10;

/** How an exporter writes the parts of a decoder. */
interface Spelling {
  /** Absent in a decoder that has only states. */
  readonly attention?: AddAttention;
  readonly options?: DecoderOptions;
  /** The number of segments for which there are no kernels; 0 if absent. */
  readonly numRefused?: number;
  /** Changes the finished graph, which must still compute the same. */
  readonly change?: (model: Uint8Array) => Promise<Uint8Array>;
}

/** Cosines or sines of each token, `[1, tokens, half]`. */
function addAngles(
  graph: DecoderBuilder,
  of: (angle: number) => number,
  { name, half, by = "position_ids" }: {
    readonly name: string;
    readonly half: number;
    readonly by?: string;
  },
): string {
  const table = constant(
    `${name}_table`,
    [MAX_POSITIONS, half],
    Float32Array.from(
      { length: MAX_POSITIONS * half },
      (_, i) => of(Math.floor(i / half) / 40 ** ((i % half) / half)),
    ),
  );
  const rows = `${name}_rows`;
  return graph.nodes.some(({ outputs }) => outputs.includes(rows))
    ? rows
    : graph.add("Gather", [graph.constant(table), by], { outputs: [rows] });
}

/** Cosines or sines of each token like {@linkcode addAngles}, from a table in blocks of 4 bits. */
function addRoughAngles(
  graph: DecoderBuilder,
  of: (angle: number) => number,
  { name, half }: { readonly name: string; readonly half: number },
): string {
  const levels = new Uint8Array(MAX_POSITIONS * half / 2);
  for (let i = 0; i < MAX_POSITIONS * half; i++) {
    const level = Math.round(7 * of(Math.floor(i / half) / 40 ** ((i % half) / half)));
    levels[i >> 1]! |= (level & 15) << (4 * (i & 1));
  }
  const scales = new Float32Array(MAX_POSITIONS).fill(1 / 7);
  const inputs = [
    graph.constant(constant(`${name}_levels`, [MAX_POSITIONS, half], levels, "int4")),
    "position_ids",
    graph.constant(constant(`${name}_scales`, [MAX_POSITIONS, 1], scales)),
  ];
  return graph.add("GatherBlockQuantized", inputs, {
    domain: "com.microsoft",
    attributes: { block_size: 16, gather_axis: 0, quantize_axis: 1 },
  });
}

/** A constant of integers as a node, as model builders write it. */
function addInts(graph: DecoderBuilder, values: readonly number[]): string {
  return graph.add("Constant", [], { attributes: { value_ints: values } });
}

/** Rotates rows of heads, or the first elements of each head, by ONNX's own operator. */
function rotate(
  graph: DecoderBuilder,
  rows: string,
  heads: number,
  { size = graph.sizes.headDim, by = "position_ids" }: {
    readonly size?: number;
    readonly by?: string;
  } = {},
): string {
  const angles = [
    addAngles(graph, Math.cos, { name: `cos_${by}`, half: size / 2, by }),
    addAngles(graph, Math.sin, { name: `sin_${by}`, half: size / 2, by }),
  ];
  return graph.add("RotaryEmbedding", [rows, ...angles], {
    attributes: { num_heads: heads, rotary_embedding_dim: size },
  });
}

/** Normalises each head by ONNX's own operator, with factors from which the file has subtracted 1. */
function normalise(graph: DecoderBuilder, rows: string): string {
  const heads = graph.add("Reshape", [rows, addInts(graph, [0, 0, -1, graph.sizes.headDim])]);
  const factors = graph.add("Add", [graph.weights([graph.sizes.headDim]), graph.float(1)]);
  const epsilon = { epsilon: { float: 1e-5 } };
  const normed = graph.add("RMSNormalization", [heads, factors], { attributes: epsilon });
  return graph.add("Reshape", [normed, addInts(graph, [0, 0, -1])]);
}

/**
 * Attends over rows by ONNX's own operator. It is causal by itself; the mask only hides padding.
 */
function attend(
  graph: DecoderBuilder,
  [q, k, v]: readonly string[],
  layer: Parameters<AddAttention>[1],
): string {
  const { heads, kvHeads } = graph.sizes;
  const isToken = graph.add("Cast", ["attention_mask"], { attributes: { to: 9 } });
  const sizes = ([["input_ids", 0], ["input_ids", 1], ["attention_mask", 1]] as const).map(
    ([tensor, axis]) =>
      graph.add("Shape", [tensor], { attributes: { start: axis, end: axis + 1 } }),
  );
  const square = graph.add("Expand", [
    graph.add("Unsqueeze", [isToken, addInts(graph, [1])]),
    graph.add("Concat", sizes, { attributes: { axis: 0 } }),
  ]);
  const mask = graph.add("Unsqueeze", [square, addInts(graph, [1])]);
  return graph.add("Attention", [q!, k!, v!, mask, layer.pastKey, layer.pastValue], {
    outputs: [`attended_${layer.index}`, layer.presentKey, layer.presentValue],
    attributes: { q_num_heads: heads, kv_num_heads: kvHeads, is_causal: 1 },
  });
}

/** Queries, keys and values from one product, in which those of each head are side by side. */
function projectByHead(graph: DecoderBuilder, input: string): string[] {
  const { hidden, heads, headDim } = graph.sizes;
  const product = graph.add("MatMul", [input, graph.weights([hidden, 3 * heads * headDim])]);
  const rows = graph.add("Add", [product, graph.weights([3 * heads * headDim])]);
  const byHead = graph.add("Reshape", [rows, graph.ints([0, 0, heads, 3 * headDim])]);
  return [0, 1, 2].map((part) => {
    const [from, to] = [part, part + 1].map((at) => graph.ints([at * headDim]));
    const heads = graph.add("Slice", [byHead, from!, to!, graph.ints([3])]);
    return graph.add("Reshape", [heads, graph.ints([0, 0, graph.sizes.heads * headDim])]);
  });
}

const OPTIONS: DecoderOptions = { opset: 23, inputs: [MASK, POSITIONS] };

/** Norms, if any, before or after the rotation. */
function spell(norms: "before" | "after" | "none", byHead = false): AddAttention {
  return (graph, layer) => {
    const { heads, kvHeads } = graph.sizes;
    const [q, k, v] = byHead ? projectByHead(graph, layer.input) : projections(graph, layer);
    const [queries, keys] = [[q!, heads], [k!, kvHeads]].map(([rows, count]) => {
      const before = norms === "before" ? normalise(graph, rows as string) : rows as string;
      const rotated = rotate(graph, before, count as number);
      return norms === "after" ? normalise(graph, rotated) : rotated;
    });
    return attend(graph, [queries!, keys!, v!], layer);
  };
}

/** Rotates the first elements of each head. */
function rotateFirst(size: number): AddAttention {
  return (graph, layer) => {
    const { heads, kvHeads } = graph.sizes;
    const [q, k, v] = projections(graph, layer);
    const [queries, keys] = [
      rotate(graph, q, heads, { size }),
      rotate(graph, k, kvHeads, { size }),
    ];
    return attend(graph, [queries, keys, v], layer);
  };
}

/** Rotates the halves of heads in products of their own, and joins them, as in gpt-oss. */
function rotateHalves(graph: DecoderBuilder, rows: string, count: number): string {
  const half = graph.sizes.headDim / 2;
  const [cos, sin] = ([["cos", Math.cos], ["sin", Math.sin]] as const).map(([name, of]) =>
    graph.add("Unsqueeze", [addAngles(graph, of, { name, half }), graph.ints([2])])
  );
  const heads = graph.add("Reshape", [rows, graph.ints([0, 0, count, 2 * half])]);
  const [first, second] = [`${heads}/first`, `${heads}/second`] as const;
  graph.add("Split", [heads], {
    outputs: [first, second],
    attributes: { axis: 3, num_outputs: 2 },
  });
  const rotated = graph.add("Concat", [
    graph.add("Sub", [graph.add("Mul", [first, cos!]), graph.add("Mul", [second, sin!])]),
    graph.add("Add", [graph.add("Mul", [second, cos!]), graph.add("Mul", [first, sin!])]),
  ], { attributes: { axis: -1 } });
  return graph.add("Reshape", [rotated, graph.ints([0, 0, count * 2 * half])]);
}

/**
 * Falcon's attention: queries, the key and the value are heads of one product, taken by coordinates, and products read
 * the only head of keys without repeating it. The result has no axis for the batch.
 */
const attendToOneHead: AddAttention = (graph, layer) => {
  const { hidden, heads, headDim } = graph.sizes;
  const total = heads + 2;
  const product = graph.add("MatMul", [layer.input, graph.weights([hidden, total * headDim])]);
  const all = graph.add("Reshape", [product, graph.ints([1, -1, total, headDim])]);
  const turn = (name: string, perm: readonly number[]) =>
    graph.add("Transpose", [name], { attributes: { perm } });
  const bounds = [0, -2, 2].map((each) => graph.ints([each]));
  const q = turn(graph.add("Slice", [all, ...bounds]), [0, 2, 1, 3]);
  const byHead = turn(all, [2, 0, 1, 3]);
  const [k, v] = ([[-2, "pastKey", "presentKey"], [-1, "pastValue", "presentValue"]] as const).map(
    ([at, past, present]) => {
      const taken = graph.add("GatherND", [byHead, graph.ints([at], [1, 1])]);
      return graph.add("Concat", [layer[past], turn(taken, [1, 0, 2, 3])], {
        attributes: { axis: -2 },
        outputs: [layer[present]],
      });
    },
  ) as [string, string];
  const scores = graph.add("MatMul", [q, turn(k, [0, 1, 3, 2])]);
  const scaled = graph.add("Mul", [scores, graph.float(headDim ** -0.5)]);
  const weights = graph.add("Softmax", [graph.add("Add", [scaled, additiveMask(graph)])]);
  const attended = turn(graph.add("MatMul", [weights, v]), [0, 2, 1, 3]);
  const rows = graph.add("Reshape", [attended, graph.ints([-1, heads * headDim])]);
  const mixed = graph.add("MatMul", [rows, graph.weights([heads * headDim, heads * headDim])]);
  return graph.add("Reshape", [mixed, graph.ints([1, -1, heads * headDim])]);
};

/** Embeddings of tokens and of positions in 8 bits, as in GPT-2 and BioGPT; the ids are reshaped first. */
function embedWithPositions(graph: DecoderBuilder): string {
  const { hidden } = graph.sizes;
  const rows = embedLevels(graph, graph.add("Reshape", ["input_ids", graph.ints([1, -1])]));
  const numRows = MAX_POSITIONS + 2;
  const levels = Uint8Array.from({ length: numRows * hidden }, (_, i) => (i * 53) % 256);
  const [table, scale, zero] = [
    constant("places", [numRows, hidden], levels),
    constant("places/scale", [], Float32Array.of(0.004)),
    constant("places/zero", [], Uint8Array.of(131)),
  ].map((each) => graph.constant(each)) as [string, string, string];
  const taken = graph.add("Gather", [table, graph.add("Add", ["position_ids", graph.ints([2])])]);
  const places = graph.add("DequantizeLinear", [taken, scale, zero]);
  return graph.add("Add", [graph.add("Reshape", [rows, graph.ints([1, -1, hidden])]), places]);
}

/** Embeddings of tokens, and of positions that are counted from 2 (OPT). */
function embedFromTwo(graph: DecoderBuilder): string {
  const { vocab, hidden } = graph.sizes;
  const rows = graph.add("Gather", [graph.weights([vocab, hidden], 1), "input_ids"]);
  const at = graph.add("Add", ["position_ids", graph.ints([2])]);
  const places = graph.add("Gather", [graph.weights([MAX_POSITIONS + 2, hidden], 1), at]);
  return graph.add("Add", [rows, places]);
}

/** Rotates heads the other way, as nanochat does: the first halves are negated, rather than the second ones. */
function rotateBack(graph: DecoderBuilder, rows: string, count: number): string {
  const half = graph.sizes.headDim / 2;
  const [cos, sin] = ([["cos", Math.cos], ["sin", Math.sin]] as const).map(([name, of]) => {
    const angles = addAngles(graph, of, { name, half });
    const row = graph.add("Concat", [angles, angles], { attributes: { axis: -1 } });
    return graph.add("Unsqueeze", [row, graph.ints([1])]);
  });
  const heads = graph.add("Transpose", [
    graph.add("Reshape", [rows, graph.ints([0, 0, count, 2 * half])]),
  ], { attributes: { perm: [0, 2, 1, 3] } });
  const [first, second] = [[0, half], [half, 2 * half]].map((bounds) =>
    graph.add("Slice", [heads, ...[...bounds, 3].map((each) => graph.ints([each]))])
  ) as [string, string];
  const turned = graph.add("Concat", [second, graph.add("Neg", [first])], {
    attributes: { axis: -1 },
  });
  const sum = graph.add("Add", [
    graph.add("Mul", [heads, cos!]),
    graph.add("Mul", [turned, sin!]),
  ]);
  const back = graph.add("Transpose", [sum], { attributes: { perm: [0, 2, 1, 3] } });
  return graph.add("Reshape", [back, graph.ints([0, 0, count * 2 * half])]);
}

/** A norm of rows without epsilon, which PyTorch's exporter leaves out if it is tiny (Helium), and a product. */
function normaliseExactly(graph: DecoderBuilder, rows: string): string {
  const { hidden } = graph.sizes;
  const square = graph.add("Pow", [rows, graph.float(2)]);
  const mean = graph.add("ReduceMean", [square, addInts(graph, [-1])]);
  const inverse = graph.add("Reciprocal", [graph.add("Sqrt", [mean])]);
  const factors = graph.weights([hidden]);
  const normed = graph.add("Mul", [factors, graph.add("Mul", [rows, inverse])]);
  return graph.add("MatMul", [normed, graph.weights([hidden, hidden])]);
}

/** A layer norm without factors, in basic operators (OLMo), and a product. */
function centre(graph: DecoderBuilder, rows: string): string {
  const { hidden } = graph.sizes;
  const average = (name: string) => graph.add("ReduceMean", [name, addInts(graph, [-1])]);
  const centred = graph.add("Sub", [rows, average(rows)]);
  const variance = average(graph.add("Pow", [centred, graph.float(2)]));
  const deviation = graph.add("Sqrt", [graph.add("Add", [variance, graph.float(1e-5)])]);
  const normed = graph.add("Div", [centred, deviation]);
  return graph.add("MatMul", [normed, graph.weights([hidden, hidden])]);
}

/** Multiplies rotated queries by a factor that grows with their position, as in Ministral 3 and Llama 4. */
function scaleByPosition(graph: DecoderBuilder, queries: string): string {
  const positions = graph.add("Cast", ["position_ids"], { attributes: { to: 1 } });
  const steps = graph.add("Floor", [graph.add("Div", [positions, graph.float(8)])]);
  const logarithm = graph.add("Log", [graph.add("Add", [steps, graph.float(1)])]);
  const factor = graph.add("Add", [
    graph.add("Mul", [logarithm, graph.float(0.5)]),
    graph.float(1),
  ]);
  return graph.add("Mul", [queries, graph.add("Unsqueeze", [factor, graph.ints([-1])])]);
}

/** Values divided by their root mean square, spelled out and without factors: as a power in Gemma 4. */
function normaliseValues(graph: DecoderBuilder, rows: string, isPower = false): string {
  const { kvHeads, headDim } = graph.sizes;
  const heads = graph.add("Reshape", [rows, addInts(graph, [0, 0, kvHeads, headDim])]);
  const square = graph.add("Mul", [heads, heads]);
  const mean = graph.add("ReduceMean", [square, addInts(graph, [-1])]);
  const epsilon = graph.add("Constant", [], { attributes: { value_float: { float: 1e-5 } } });
  const sum = graph.add("Add", [mean, epsilon]);
  const normed = isPower
    ? graph.add("Mul", [heads, graph.add("Pow", [sum, graph.float(-0.5)])])
    : graph.add("Div", [heads, graph.add("Sqrt", [sum])]);
  return graph.add("Reshape", [normed, addInts(graph, [0, 0, -1])]);
}

/** Rotates queries and keys, and normalises values. */
function spellValues(isPower = false): AddAttention {
  return (graph, layer) => {
    const { heads, kvHeads } = graph.sizes;
    const [q, k, v] = projections(graph, layer);
    const rotated = [rotate(graph, q, heads), rotate(graph, k, kvHeads)];
    return attend(graph, [...rotated, normaliseValues(graph, v, isPower)], layer);
  };
}

/**
 * Multiplies heads by gates, as linear attention does. Each head of each token has a row of its
 * own, and nodes compute the constants.
 */
function gateByHead(graph: DecoderBuilder, rows: string): string {
  const { hidden, headDim, heads } = graph.sizes;
  const project = () => {
    const product = graph.add("MatMul", [rows, graph.weights([hidden, heads * headDim])]);
    const decay = graph.add("Neg", [graph.add("Exp", [graph.weights([heads * headDim])])]);
    const scaled = graph.add("Mul", [product, decay]);
    return graph.add("Reshape", [scaled, addInts(graph, [-1, headDim])]);
  };
  const [x, gate] = [project(), project()];
  const length = graph.add("Sqrt", [
    graph.add("ReduceSumSquare", [x, addInts(graph, [-1])], { attributes: { keepdims: 1 } }),
  ]);
  const gated = graph.add("Mul", [
    graph.add("Div", [x, length]),
    graph.add("Sigmoid", [gate]),
  ]);
  const sizes = ([0, 1] as const).map((axis) =>
    graph.add("Shape", [rows], { attributes: { start: axis, end: axis + 1 } })
  );
  const shape = graph.add("Concat", [...sizes, addInts(graph, [heads * headDim])], {
    attributes: { axis: 0 },
  });
  const joined = graph.add("Reshape", [gated, shape]);
  return graph.add("MatMul", [joined, graph.weights([heads * headDim, hidden])]);
}

/** Adds to a layer a function of its slice of the per-layer inputs, `[1, tokens, layers, 8]`. */
function addLayerInput(graph: DecoderBuilder, rows: string): string {
  const { layers, vocab, hidden } = graph.sizes;
  const width = 8;
  const name = "layer_inputs";
  if (!graph.nodes.some(({ outputs }) => outputs.includes(name))) {
    const table = graph.weights([vocab, layers * width]);
    const taken = graph.add("Gather", [table, "input_ids"]);
    graph.add("Reshape", [taken, addInts(graph, [0, 0, layers, width])], { outputs: [name] });
  }
  const layer = graph.nodes.filter(({ inputs }) => inputs[0] === name).length;
  const at = graph.add("Constant", [], { attributes: { value_int: layer } });
  const own = graph.add("Gather", [name, at], { attributes: { axis: 2 } });
  const gate = graph.add("MatMul", [rows, graph.weights([hidden, width])]);
  return graph.add("MatMul", [
    graph.add("Mul", [graph.add("Sigmoid", [gate]), own]),
    graph.weights([width, hidden]),
  ]);
}

/**
 * Embeddings in 8 bits: a node dequantizes the chosen rows, as ONNX Runtime's quantiser writes it.
 */
function embedLevels(graph: DecoderBuilder, ids = "input_ids"): string {
  const [table, ...ends] = addLevels(graph);
  return graph.add("DequantizeLinear", [graph.add("Gather", [table, ids]), ...ends]);
}

/** A vocabulary that is tied to embeddings in 8 bits. */
function projectLevels(graph: DecoderBuilder, rows: string): void {
  const [table, ...ends] = addLevels(graph);
  const turned = graph.add("Transpose", [table], { attributes: { perm: [1, 0] } });
  const weights = graph.add("DequantizeLinear", [turned, ...ends]);
  graph.add("MatMul", [rows, weights], { outputs: ["logits"] });
}

/** Embeddings in 8 bits, their scale and their zero point. */
function addLevels(graph: DecoderBuilder): [string, string, string] {
  const { vocab, hidden } = graph.sizes;
  const levels = Uint8Array.from({ length: vocab * hidden }, (_, i) => (i * 89 + (i >> 4)) % 256);
  const names = ["table", "table/scale", "table/zero"] as const;
  if (graph.initializers.some(({ name }) => name === names[0])) return [...names];
  const parts = [
    constant("table", [vocab, hidden], levels),
    constant("table/scale", [], Float32Array.of(0.011)),
    constant("table/zero", [], Uint8Array.of(121)),
  ];
  return parts.map((each) => graph.constant(each)) as [string, string, string];
}

/** A product with codes that bitsandbytes' NF4 and 8 bits both hold exactly, activated by GELU as in Gemma. */
const activateCodes = (blockSize: number) => (graph: DecoderBuilder, rows: string): string => {
  const { hidden } = graph.sizes;
  const codes = Uint8Array.from({ length: hidden * hidden / 2 }, (_, i) => {
    const [first, second] = [i * 7, i * 5 + 1].map((at) => [0, 7, 15][at % 3]!);
    return first! | (second! << 4);
  });
  const largest = Float32Array.from(
    { length: hidden * hidden / blockSize },
    (_, block) => 0.05 + (block * 11) % 7 / 40,
  );
  const name = `${rows}/codes`;
  const x = graph.add("MatMulBnb4", [
    rows,
    graph.constant(constant(name, [codes.length], codes)),
    graph.constant(constant(`${name}/largest`, [largest.length], largest)),
  ], {
    domain: "com.microsoft",
    attributes: { K: hidden, N: hidden, block_size: blockSize, quant_type: 1 },
  });
  const cube = graph.add("Mul", [graph.float(0.044715), graph.add("Pow", [x, graph.float(3)])]);
  const inner = graph.add("Mul", [graph.float(0.7978846), graph.add("Add", [x, cube])]);
  const share = graph.add("Add", [graph.add("Tanh", [inner]), graph.float(1)]);
  const gelu = graph.add("Mul", [x, graph.add("Mul", [graph.float(0.5), share])]);
  return graph.add("MatMul", [gelu, graph.weights([hidden, hidden])]);
};

/** Adds to all but the first of several streams, and returns their sum: AltUp of Gemma 3n, as PyTorch exports it. */
function addToStreams(graph: DecoderBuilder, rows: string): string {
  const { hidden } = graph.sizes;
  const project = () => graph.add("MatMul", [rows, graph.weights([hidden, hidden])]);
  const [first, from, end] = [0, 1, 3].map((at) => graph.ints([at]));
  const streams = graph.add(
    "Concat",
    [rows, project(), project()].map((each) => graph.add("Unsqueeze", [each, first!])),
    { attributes: { axis: 0 } },
  );
  const others = graph.add("Slice", [streams, from!, end!, first!]);
  const count = graph.add("Gather", [graph.add("Shape", [streams]), graph.ints([0], [])]);
  const all = graph.add("Range", [graph.ints([0], []), count, graph.ints([1], [])]);
  const indices = graph.add("Unsqueeze", [
    graph.add("Slice", [all, from!, end!, first!]),
    graph.ints([-1]),
  ]);
  const sum = graph.add("Add", [others, project()]);
  const changed = graph.add("ScatterND", [streams, indices, sum]);
  const [a, b, c] = [0, 1, 2].map((at) =>
    graph.add("Gather", [changed, graph.ints([at], [])], { attributes: { axis: 0 } })
  );
  return graph.add("Add", [a!, graph.add("Mul", [b!, c!])]);
}

/** Chooses a class like a router of experts: a mask of the chosen class, and its score among zeros. */
function addChoice(graph: DecoderBuilder, rows: string): string {
  const { hidden } = graph.sizes;
  const numClasses = 4;
  const scores = graph.add("MatMul", [rows, graph.weights([hidden, numClasses])]);
  const outputs = [`${scores}/values`, `${scores}/indices`] as const;
  const [values, indices] = outputs;
  graph.add("TopK", [scores, graph.ints([1])], { outputs, attributes: { axis: -1 } });
  const ends = graph.constant(constant("off_on", [2], Float32Array.of(0, 1)));
  const choice = graph.add("OneHot", [indices, graph.ints([numClasses], []), ends], {
    attributes: { axis: -1 },
  });
  const mask = graph.add("ReduceSum", [choice, graph.ints([2])], { attributes: { keepdims: 0 } });
  const zeros = graph.add("Mul", [scores, graph.float(0)]);
  const placed = graph.add("ScatterElements", [zeros, indices, values], {
    attributes: { axis: -1 },
  });
  return graph.add("MatMul", [
    graph.add("Add", [mask, placed]),
    graph.weights([numClasses, hidden]),
  ]);
}

/** ALiBi as mobius writes it: a mask of negative distances times slopes, without an input for padding. */
function addDistances(graph: DecoderBuilder, layer: Parameters<AddAttention>[1]): string {
  const { heads } = graph.sizes;
  const name = "distances";
  if (!graph.nodes.some(({ outputs }) => outputs.includes(name))) {
    const length = (tensor: string, axis: number) =>
      graph.add("Shape", [tensor], { attributes: { start: axis, end: axis + 1 } });
    const [tokens, past] = [length("input_ids", 1), length(layer.pastKey, 2)];
    const range = (count: string) => {
      const end = graph.add("Squeeze", [count]);
      const places = graph.add("Range", [graph.ints([0], []), end, graph.ints([1], [])]);
      return graph.add("Cast", [places], { attributes: { to: 1 } });
    };
    const first = graph.add("Cast", [past], { attributes: { to: 1 } });
    const queries = graph.add("Unsqueeze", [
      graph.add("Add", [range(tokens), first]),
      graph.ints([1]),
    ]);
    const keys = graph.add("Unsqueeze", [range(graph.add("Add", [tokens, past])), graph.ints([0])]);
    const distances = graph.add("Neg", [graph.add("Abs", [graph.add("Sub", [queries, keys])])]);
    const slopes = constant("slopes", [heads, 1, 1], computeSlopes(heads));
    const bias = graph.add("Mul", [
      graph.constant(slopes),
      graph.add("Unsqueeze", [distances, graph.ints([0])]),
    ]);
    const sees = graph.add("GreaterOrEqual", [queries, keys]);
    const hidden = graph.add("Where", [sees, graph.float(0), graph.float(-3e38)]);
    graph.add("Unsqueeze", [graph.add("Add", [bias, hidden]), graph.ints([0])], {
      outputs: [name],
    });
  }
  return name;
}

const attendByDistance: AddAttention = (graph, layer) => {
  const { heads, kvHeads } = graph.sizes;
  const mask = addDistances(graph, layer);
  const operands = [...projections(graph, layer), mask, layer.pastKey, layer.pastValue];
  return graph.add("Attention", operands, {
    outputs: [`attended_${layer.index}`, layer.presentKey, layer.presentValue],
    attributes: { q_num_heads: heads, kv_num_heads: kvHeads },
  });
};

/** `GroupQueryAttention` with a bias, a soft cap and a window of its own. */
function attendInGroups(
  addBias: (graph: DecoderBuilder, layer: Parameters<AddAttention>[1]) => string,
  window: number,
): AddAttention {
  return (graph, layer) => {
    const { heads, kvHeads } = graph.sizes;
    const bias = addBias(graph, layer);
    const operands = [...projections(graph, layer), layer.pastKey, layer.pastValue];
    return graph.add(
      "GroupQueryAttention",
      [...operands, ...lengths(graph), "", "", "", bias],
      {
        domain: "com.microsoft",
        outputs: [`attended_${layer.index}`, layer.presentKey, layer.presentValue],
        attributes: {
          ...{ num_heads: heads, kv_num_heads: kvHeads, local_window_size: window },
          softcap: { float: 0.7 },
        },
      },
    );
  };
}

/** Attention with heads of values that are smaller than those of keys, like DeepSeek's. */
const attendToSmallValues: AddAttention = (graph, layer) => {
  const { hidden, heads, kvHeads, headDim, keyDim } = graph.sizes;
  const [q, k, v] = [heads * keyDim!, kvHeads * keyDim!, kvHeads * headDim].map((width) =>
    graph.add("MatMul", [layer.input, graph.weights([hidden, width])])
  );
  return attend(graph, [q!, k!, v!], layer);
};

/** A product with the activation of Apertus, whose factors the graph computes from parameters. */
const activateXielu = (limit: number) => (graph: DecoderBuilder, rows: string): string => {
  const { hidden } = graph.sizes;
  const x = graph.add("MatMul", [rows, graph.weights([hidden, hidden])]);
  const beta = graph.float(0.5);
  const softplus = (parameter: number) => graph.add("Softplus", [graph.float(parameter)]);
  const linear = graph.add("Mul", [beta, x]);
  const squares = graph.add("Mul", [softplus(0.3), graph.add("Mul", [x, x])]);
  const limited = graph.add("Exp", [graph.add("Min", [x, graph.float(limit)])]);
  const curve = graph.add("Sub", [graph.add("Sub", [limited, graph.float(1)]), x]);
  const bent = graph.add("Mul", [curve, graph.add("Add", [softplus(-0.7), beta])]);
  return graph.add("Where", [
    graph.add("Greater", [x, graph.float(0)]),
    graph.add("Add", [squares, linear]),
    graph.add("Add", [bent, linear]),
  ]);
};

const SPELLINGS: Readonly<Record<string, Spelling>> = {
  "ONNX's own operators": { attention: spell("before") },
  "heads normalised after their rotation": { attention: spell("after") },
  "queries, keys and values head by head": {
    attention: spell("none", true),
    options: { sizes: { kvHeads: SIZES.heads } },
  },
  "values normalised without factors": { attention: spellValues() },
  "values normalised by a power": { attention: spellValues(true) },
  "halves of heads rotated in products of their own": {
    attention: (graph, layer) => {
      const { heads, kvHeads } = graph.sizes;
      const [q, k, v] = projections(graph, layer);
      const rotated = [rotateHalves(graph, q, heads), rotateHalves(graph, k, kvHeads)];
      return attend(graph, [...rotated, v], layer);
    },
  },
  "heads rotated the other way": {
    attention: (graph, layer) => {
      const { heads, kvHeads } = graph.sizes;
      const [q, k, v] = projections(graph, layer);
      return attend(graph, [rotateBack(graph, q, heads), rotateBack(graph, k, kvHeads), v], layer);
    },
  },
  "cosines in blocks of 4 bits": {
    attention: (graph, layer) => {
      const { heads, kvHeads, headDim } = graph.sizes;
      const [q, k, v] = projections(graph, layer);
      const angles = ([["cos", Math.cos], ["sin", Math.sin]] as const).map(([name, of]) =>
        addRoughAngles(graph, of, { name: `${name}_${layer.index}`, half: headDim / 2 })
      );
      const rotated = ([[q, heads], [k, kvHeads]] as const).map(([rows, count]) =>
        graph.add("RotaryEmbedding", [rows, ...angles], { attributes: { num_heads: count } })
      );
      return attend(graph, [...rotated, v], layer);
    },
  },
  "queries scaled by their position": {
    attention: (graph, layer) => {
      const { heads, kvHeads } = graph.sizes;
      const [q, k, v] = projections(graph, layer);
      const rotated = [scaleByPosition(graph, rotate(graph, q, heads)), rotate(graph, k, kvHeads)];
      return attend(graph, [...rotated, v], layer);
    },
  },
  "heads on the axis of tokens": {
    attention: spell("none"),
    options: { feedForward: gateByHead },
  },
  "inputs of each layer": { attention: spell("none"), options: { feedForward: addLayerInput } },
  "embeddings in 8 bits": { attention: spell("none"), options: { embed: embedLevels } },
  "embeddings in 8 bits that are also the vocabulary": {
    attention: spell("none"),
    options: { embed: embedLevels, project: projectLevels, sizes: { hidden: 32 } },
  },
  "ids and positions of 32 bits": {
    attention: spell("before"),
    change: toInt32,
  },
  "embeddings of positions in 8 bits": {
    attention: spell("none"),
    options: { embed: embedWithPositions, sizes: { hidden: 32 } },
  },
  "embeddings of positions from 2 on": {
    attention: spell("none"),
    options: { embed: embedFromTwo },
  },
  "one head of keys, which products do not repeat": {
    attention: attendToOneHead,
    options: { sizes: { kvHeads: 1 } },
  },
  "layer norms without factors": {
    attention: spell("none"),
    options: { feedForward: centre },
  },
  "norms without an epsilon": {
    attention: spell("none"),
    options: { feedForward: normaliseExactly },
  },
  "bitsandbytes' codes before an activation": {
    attention: spell("none"),
    options: { feedForward: activateCodes(16), sizes: { hidden: 32 } },
  },
  "bitsandbytes' blocks that reach into the next row": {
    attention: spell("none"),
    options: { feedForward: activateCodes(64), sizes: { hidden: 96 } },
  },
  "streams that are written in part": {
    attention: spell("none"),
    options: { feedForward: addToStreams },
    numRefused: 2,
  },
  "xIELU": { attention: spell("none"), options: { feedForward: activateXielu(-1e-6) } },
  "xIELU with another limit": {
    attention: spell("none"),
    options: { feedForward: activateXielu(-0.3) },
    numRefused: 2,
  },
  "small values": {
    attention: attendToSmallValues,
    options: { sizes: { keyDim: 24 } },
    numRefused: 3,
  },
  "choices among classes": {
    attention: spell("none"),
    options: { feedForward: addChoice },
    numRefused: 2,
  },
  "BLOOM's ALiBi": {
    attention: bloomAttention,
    options: { sizes: { kvHeads: SIZES.heads } },
  },
  "BLOOM's ALiBi and merged caches": {
    attention: (graph, layer) => bloomAttention(graph, layer, { hasMergedCaches: true }),
    options: { sizes: { kvHeads: SIZES.heads }, hasMergedCaches: true },
  },
  "Falcon-RW's ALiBi": { attention: spelledOut({ scores: addFalconBias }) },
  "MPT's ALiBi": { attention: spelledOut({ scores: addMptBias }) },
  "MPT's ALiBi in a table": { attention: spelledOut({ scores: addMptTable }) },
  "ALiBi in ONNX's own attention": { attention: attendByDistance },
  "ALiBi in the bias of GroupQueryAttention": { attention: attendInGroups(addDistances, 3) },
  "a window in the bias of GroupQueryAttention": {
    attention: attendInGroups((graph) => additiveMask(graph, { window: 9 }), -1),
  },
  "short convolutions as transformers pads them": {
    attention: spell("none"),
    options: { states: [0, 1].map((index) => shortConvolution(index, { isPadded: true })) },
  },
  "Mamba-2 in operators": {
    attention: spell("none"),
    options: { states: [mamba2(0), mamba2(1)] },
  },
  "Mamba-2 and no attention": { options: { states: [mamba2(0), mamba2(1)], inputs: [] } },
  "Mamba-2 with a bounded time step": {
    attention: spell("none"),
    options: { states: [mamba2(0, { bounds: [0.5] }), mamba2(1, { bounds: [0.4, 0.9] })] },
  },
  "sinks joined to the scores": { attention: spelledOut({ rotary: true, ...joinSinks("last") }) },
  "20 of 80 elements rotated": { attention: rotateFirst(20), options: { sizes: { headDim: 80 } } },
  "30 of 96 elements rotated": { attention: rotateFirst(30), options: { sizes: { headDim: 96 } } },
  "a second layer without kernels for its rotation": {
    attention: (graph, layer) => {
      const { heads, kvHeads } = graph.sizes;
      const [q, k, v] = projections(graph, layer);
      const turn = (rows: string, count: number) =>
        layer.index === 0 ? rows : rotate(graph, rows, count, { by: "input_ids" });
      return attend(graph, [turn(q, heads), turn(k, kvHeads), v], layer);
    },
    numRefused: 1,
  },
  "bfloat16": { attention: spell("before"), change: toBfloat16 },
};

/** Greedy answers of the whole graph. */
async function readGoldens(model: Uint8Array): Promise<number[][]> {
  await using whole = await WholeGraph.open(model);
  const answers: number[][] = [];
  for (const prompt of PROMPTS) {
    const tokens = [...prompt];
    while (tokens.length < prompt.length + MAX_TOKENS) {
      const logits = (await whole.run([tokens])).at(-1)!;
      tokens.push(logits.indexOf(Math.max(...logits)));
    }
    answers.push(tokens.slice(prompt.length));
  }
  return answers;
}

/**
 * A folder with the graph of a spelling. @returns also the graph in float32 that must give the
 * same.
 */
async function makeFolder({ attention, options, change }: Spelling) {
  const model = decoder(attention, { ...OPTIONS, ...options });
  const rounded = change === undefined ? model : await roundWeights(model);
  const path = await Deno.makeTempDir();
  await Deno.writeFile(`${path}/model.onnx`, await change?.(rounded) ?? rounded);
  const { layers, heads, kvHeads, headDim, hidden, vocab } = { ...SIZES, ...options?.sizes };
  const config = {
    ...{ model_type: "llama", architectures: ["LlamaForCausalLM"] },
    ...{ hidden_size: hidden, num_hidden_layers: layers, head_dim: headDim, vocab_size: vocab },
    ...{ num_attention_heads: heads, num_key_value_heads: kvHeads },
    max_position_embeddings: MAX_POSITIONS,
  };
  await Deno.writeTextFile(`${path}/config.json`, JSON.stringify(config));
  return { path, model: rounded };
}

async function assertGolden(spelling: Spelling, backend: Backend): Promise<void> {
  const { path, model } = await makeFolder(spelling);
  const goldens = await readGoldens(model);
  const bytes = await Deno.readFile(`${path}/model.onnx`);
  const result = cutGraph(await readModel(inMemory(bytes), "model.onnx"), {
    contextLength: MAX_POSITIONS,
  });
  assert.ok("cut" in result, JSON.stringify(result));
  const compile = backend.kind === "webgpu" ? compileForGpu : compileForCpu;
  const refusals = compile(result.cut).flatMap((each) => "refused" in each ? each.refused : []);
  assert.equal(refusals.length, spelling.numRefused ?? 0, refusals.join());
  const options = { backend, engine: { prefixCache: true } };
  const { decoder } = await loadDecoder(makeContext(await openFolder(path), options));
  const engine = new EngineLoop(decoder, { prefixCache: true });
  const prompts: Prompt[] = PROMPTS.map((tokens) => ({ tokens, maxTokens: MAX_TOKENS }));
  const alone: number[][] = [];
  for (const prompt of prompts) alone.push([...(await generate(engine, prompt)).ids]);
  assert.deepEqual(alone, goldens);
  const together = await Promise.all(prompts.map((prompt) => generate(engine, prompt)));
  assert.deepEqual(together.map(({ ids }) => [...ids]), goldens, "in a batch of four");
  const [prompt, answer] = [PROMPTS[2]!, goldens[2]!];
  const again = await generate(engine, { tokens: [...prompt, ...answer], maxTokens: 1 });
  assert.ok(again.numCachedTokens >= 32, `${again.numCachedTokens} cached tokens`);
  await engine.close();
  await decoder.dispose();
  await Deno.remove(path, { recursive: true });
}

for (const [name, spelling] of Object.entries(SPELLINGS)) {
  Deno.test(`a decoder with ${name} gives the whole graph's tokens on the CPU`, async () => {
    const backend = await CpuBackend.open({ threads: 1 });
    await assertGolden(spelling, backend);
    await backend.dispose();
  });

  gpuTest(`a decoder with ${name} gives the whole graph's tokens on a GPU`, async (gpu) => {
    await assertGolden(spelling, await WebGpuBackend.create(gpu));
  });
}

/** Makes the graph take ids and positions of 32 bits. */
async function toInt32(bytes: Uint8Array): Promise<Uint8Array> {
  const model = await mapWeights(bytes, (tensor, bits) => ({
    ...tensor,
    data: { kind: "memory", bytes: new Uint8Array(bits.slice().buffer) },
  }));
  const names = ["input_ids", "position_ids"];
  const toWide = (name: string) => names.includes(name) ? `${name}/int64` : name;
  const inputs = model.graph.inputs.map((info) =>
    names.includes(info.name) ? makeValueInfo(info.name, "int32", ["batch", "tokens"]) : info
  );
  const casts = names.map((name) =>
    makeNode("Cast", [name], [toWide(name)], { attributes: { to: toDtypeCode("int64") } })
  );
  const nodes = model.graph.nodes.map((each) => ({ ...each, inputs: each.inputs.map(toWide) }));
  return writeModel(withGraph(model, { inputs, nodes: [...casts, ...nodes] }));
}

// For bfloat16, the weights are rounded first, so that the same model in float32 computes the same.

/** Changes each f32 constant. */
async function mapWeights(
  bytes: Uint8Array,
  map: (tensor: Tensor, bits: Uint16Array) => Tensor,
) {
  const model = await readModel(inMemory(bytes), "model.onnx");
  const initializers = model.graph.initializers.map((tensor) => {
    if (tensor.dtype !== "float32") return tensor;
    const { data } = tensor;
    const floats = data.kind === "memory"
      ? data.bytes
      : bytes.subarray((data as { offset: number }).offset).subarray(0, data.length);
    return map(tensor, new Uint16Array(floats.slice().buffer));
  });
  return withGraph(model, { initializers });
}

/** Sets the lower 16 bits of each weight to 0. */
async function roundWeights(bytes: Uint8Array): Promise<Uint8Array> {
  return writeModel(
    await mapWeights(bytes, (tensor, bits) => ({
      ...tensor,
      data: { kind: "memory", bytes: new Uint8Array(bits.map((x, i) => i % 2 ? x : 0).buffer) },
    })),
  );
}

/** The same model as exported for CUDA: weights, caches and computation in bfloat16. */
async function toBfloat16(bytes: Uint8Array): Promise<Uint8Array> {
  const model = await mapWeights(bytes, (tensor, bits) => ({
    ...tensor,
    dtype: "bfloat16",
    data: { kind: "memory", bytes: new Uint8Array(bits.filter((_, i) => i % 2 === 1).buffer) },
  }));
  const { graph } = model;
  const declare = (info: typeof graph.inputs[number]) =>
    info.dtype === "float32" && info.name !== "logits"
      ? makeValueInfo(info.name, "bfloat16", info.shape as (string | number)[])
      : info;
  const cast = { to: toDtypeCode("float32") };
  const nodes = graph.nodes.map((node): Node =>
    node.outputs[0] === "logits" ? { ...node, outputs: ["logits_bf16"] } : node
  );
  nodes.push({
    ...{ opType: "Cast", domain: "", name: "widen", inputs: ["logits_bf16"], outputs: ["logits"] },
    ...{ attributes: [attribute("to", cast.to)], rest: [] },
  });
  return writeModel(
    withGraph(model, {
      nodes,
      inputs: graph.inputs.map(declare),
      outputs: graph.outputs.map(declare),
    }),
  );
}
