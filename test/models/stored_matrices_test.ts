/**
 * Matrices stored in another order than the kernels read: embedding tables that are also the last product's matrix,
 * weights that the graph dequantises, and tables that it slices.
 */
import { CONTEXT, testKernels } from "../fixtures/engine/test_kernels.ts";
import { constant } from "../fixtures/graphs/onnx_builder.ts";
import {
  decoder,
  type DecoderBuilder,
  lengths,
  projections,
  SIZES,
} from "../unit/graph/test_decoder.ts";

const SIZE = { ...SIZES, hidden: 64, vocab: 32 };
const { hidden: WIDTH, vocab: VOCAB } = SIZE;
const BLOCK = 32;
const BLOCKS = WIDTH / BLOCK;
/**
 * Tolerances. Kernels on the CPU multiply rows of 16 bits; ONNX Runtime rounds rows to 8 bits where it fuses
 * `DequantizeLinear`.
 */
const [ROUNDED_TO_16_BITS, ROUNDED_TO_8_BITS] = [2e-3, 0.08];

const fill = (length: number, make: (i: number) => number) =>
  Array.from({ length }, (_, i) => make(i));
const pseudoRandom = (i: number) => (i * 2654435761 >>> 0) / 2 ** 32;

interface Parts {
  /** Adds the lookup of a token's embedding. */
  readonly embed: (graph: DecoderBuilder) => string;
  readonly project: (graph: DecoderBuilder, hidden: string) => void;
}

function build({ embed, project }: Parts): Uint8Array<ArrayBuffer> {
  return decoder((graph, layer) => {
    return graph.add("GroupQueryAttention", [
      ...projections(graph, layer),
      ...[layer.pastKey, layer.pastValue, ...lengths(graph)],
    ], {
      domain: "com.microsoft",
      outputs: [`gqa_${layer.index}`, layer.presentKey, layer.presentValue],
      attributes: { num_heads: SIZE.heads, kv_num_heads: SIZE.kvHeads },
    });
  }, { sizes: SIZE, opset: 21, embed, project });
}

/** One f32 matrix `[width, vocab]`, transposed to look up its columns. */
const transposed: Parts = {
  embed: (graph) => {
    const values = fill(WIDTH * VOCAB, (i) => pseudoRandom(i) - 0.5);
    graph.constant(constant("head", [WIDTH, VOCAB], Float32Array.from(values)));
    const table = graph.add("Transpose", ["head"], { attributes: { perm: [1, 0] } });
    return graph.add("Gather", [table, "input_ids"]);
  },
  project: (graph, hidden) => {
    graph.add("MatMul", [hidden, "head"], { outputs: ["logits"] });
  },
};

/** Blocks `[vocab, blocks, bytes]`, in another shape to look up rows. */
const reshaped = (bits: 2 | 4, shape: readonly number[]): Parts => ({
  embed: (graph) => {
    const bytes = fill(VOCAB * WIDTH * bits / 8, (i) => 256 * pseudoRandom(i));
    const scales = fill(VOCAB * BLOCKS, (i) => (1 + pseudoRandom(i)) / 20);
    graph.constant(constant("head", [VOCAB, BLOCKS, BLOCK * bits / 8], Uint8Array.from(bytes)));
    graph.constant(constant("scales", [VOCAB, BLOCKS], Float32Array.from(scales)));
    const table = graph.add("Reshape", ["head", graph.ints(shape)]);
    return graph.add("GatherBlockQuantized", [table, "input_ids", "scales"], {
      domain: "com.microsoft",
      attributes: { bits, block_size: BLOCK, gather_axis: 0, quantize_axis: 1 },
    });
  },
  project: (graph, hidden) => {
    graph.add("MatMulNBits", [hidden, "head", "scales"], {
      domain: "com.microsoft",
      outputs: ["logits"],
      attributes: { K: WIDTH, N: VOCAB, bits, block_size: BLOCK },
    });
  },
});

/**
 * Rows of 4 bits with one scale each, as ONNX Runtime's quantiser writes them: zero points of two
 * rows share a byte.
 */
const rowsOf = (dtype: "int4" | "uint4", hasZeroPoints: boolean): Parts => ({
  embed: (graph) => {
    const pack = (name: string, shape: readonly [number, number]) => {
      const bytes = fill(shape[0] * shape[1] / 2, (i) => 256 * pseudoRandom(i + shape[1]));
      graph.constant(constant(name, shape, Uint8Array.from(bytes), dtype));
      return name;
    };
    const scales = fill(VOCAB, (i) => (1 + pseudoRandom(i)) / 20);
    graph.constant(constant("scales", [VOCAB, 1], Float32Array.from(scales)));
    const zeros = hasZeroPoints ? [pack("zeros", [VOCAB, 1])] : [];
    const inputs = [pack("table", [VOCAB, WIDTH]), "input_ids", "scales", ...zeros];
    return graph.add("GatherBlockQuantized", inputs, {
      domain: "com.microsoft",
      attributes: { block_size: WIDTH, gather_axis: 0, quantize_axis: 1 },
    });
  },
  project: (graph, hidden) => {
    graph.add("MatMul", [hidden, graph.weights([WIDTH, VOCAB])], { outputs: ["logits"] });
  },
});

/** Learned positions: the rows of the step's tokens are sliced from their table. */
const positioned: Parts = {
  embed: (graph) => {
    const rows = graph.add("Gather", [graph.weights([VOCAB, WIDTH]), "input_ids"]);
    const size = (tensor: string, axis: number) =>
      graph.add("Gather", [graph.add("Shape", [tensor]), graph.ints([axis])]);
    const past = size("past_key_values.0.key", 2);
    const total = graph.add("Add", [past, size("input_ids", 1)]);
    const bounds = [past, total, graph.ints([0]), graph.ints([1])];
    const positions = graph.add("Slice", [graph.weights([CONTEXT, WIDTH]), ...bounds]);
    return graph.add("Add", [rows, positions]);
  },
  project: (graph, hidden) => {
    graph.add("MatMul", [hidden, graph.weights([WIDTH, VOCAB])], { outputs: ["logits"] });
  },
};

interface Stored {
  readonly dtype: "int4" | "uint4";
  readonly hasZeroPoints: boolean;
  readonly isTransposed: boolean;
}

/** Weights in blocks along the rows of the matrix, dequantised before the product. */
function dequantized({ dtype, hasZeroPoints, isTransposed }: Stored): Parts {
  const shape = (rows: number) => isTransposed ? [VOCAB, rows] : [rows, VOCAB];
  const pack = (graph: DecoderBuilder, name: string, rows: number) => {
    const bytes = fill(rows * VOCAB / 2, (i) => 256 * pseudoRandom(i + rows));
    graph.constant(constant(name, shape(rows), Uint8Array.from(bytes), dtype));
    return name;
  };
  return {
    embed: (graph) => graph.add("Gather", [graph.weights([VOCAB, WIDTH]), "input_ids"]),
    project: (graph, hidden) => {
      const scales = fill(BLOCKS * VOCAB, (i) => (1 + pseudoRandom(i)) / 100);
      graph.constant(constant("scales", shape(BLOCKS), Float32Array.from(scales)));
      const zeros = hasZeroPoints ? [pack(graph, "zeros", BLOCKS)] : [];
      const weights = graph.add(
        "DequantizeLinear",
        [pack(graph, "head", WIDTH), "scales", ...zeros],
        { attributes: { axis: isTransposed ? 1 : 0, block_size: BLOCK } },
      );
      const matrix = isTransposed
        ? graph.add("Transpose", [weights], { attributes: { perm: [1, 0] } })
        : weights;
      graph.add("MatMul", [hidden, matrix], { outputs: ["logits"] });
    },
  };
}

testKernels("a matrix that is transposed for embedding lookup", {
  graph: build(transposed),
  sizes: SIZE,
});
testKernels("positions that are sliced from their table", {
  graph: build(positioned),
  sizes: SIZE,
});
for (const [bits, shape] of [[4, [VOCAB, WIDTH / 2]], [2, [VOCAB, -1]], [4, [0, -1]]] as const) {
  testKernels(`a matrix in blocks of ${bits} bits, looked up as [${shape}]`, {
    graph: build(reshaped(bits, shape)),
    sizes: SIZE,
    tolerance: ROUNDED_TO_16_BITS,
  });
}
for (const dtype of ["int4", "uint4"] as const) {
  for (const hasZeroPoints of [false, true]) {
    const zeros = hasZeroPoints ? " with zero points" : "";
    testKernels(`embeddings of ${dtype}${zeros}`, {
      graph: build(rowsOf(dtype, hasZeroPoints)),
      sizes: SIZE,
    });
  }
  for (const hasZeroPoints of [false, true]) {
    for (const isTransposed of [false, true]) {
      const name = `a dequantised matrix of ${dtype}${hasZeroPoints ? " with zero points" : ""}${
        isTransposed ? ", transposed" : ""
      }`;
      const graph = build(dequantized({ dtype, hasZeroPoints, isTransposed }));
      testKernels(name, { graph, sizes: SIZE, tolerance: ROUNDED_TO_8_BITS });
    }
  }
}
