/**
 * Separate rotation operators, with one or three positions per token (Qwen2-VL, Qwen3-VL, Qwen3.5), run in our kernels
 * and equal ONNX Runtime over the whole graph, on both devices.
 */
import { CONTEXT, testKernels } from "../../fixtures/engine/test_kernels.ts";
import { constant } from "../../fixtures/graphs/onnx_builder.ts";
import {
  decoder,
  type DecoderBuilder,
  lengths,
  MASK,
  projections,
  SIZES,
} from "../../unit/graph/test_decoder.ts";

const SIZE = { ...SIZES, hidden: 32, headDim: 16 };

/** A rotation. */
interface Layout {
  readonly operator: "MRotaryEmbedding" | "RotaryEmbedding";
  /** ONNX's own operator set if absent. */
  readonly domain?: "com.microsoft";
  /** Elements of a head that are rotated. */
  readonly turning: number;
  /** Whether the width of the tables determines the number of heads. */
  readonly countsHeads?: true;
  /** The sizes of sections, and whether they are interleaved. */
  readonly sections?: { readonly mrope_section: number[]; readonly mrope_layout: 0 | 1 };
}

const SECTIONED = { operator: "MRotaryEmbedding", domain: "com.microsoft" } as const;

const LAYOUTS: Readonly<Record<string, Layout>> = {
  "RotaryEmbedding of ONNX": { operator: "RotaryEmbedding", turning: 16 },
  "RotaryEmbedding of ONNX, a part of each head": { operator: "RotaryEmbedding", turning: 8 },
  "RotaryEmbedding without a number of heads": {
    ...{ operator: "RotaryEmbedding", domain: "com.microsoft", turning: 16, countsHeads: true },
  },
  "RotaryEmbedding": { operator: "RotaryEmbedding", domain: "com.microsoft", turning: 16 },
  "MRotaryEmbedding, sections one after the other": {
    ...{ ...SECTIONED, turning: 16, sections: { mrope_section: [2, 3, 3], mrope_layout: 0 } },
  },
  "MRotaryEmbedding, interleaved sections": {
    ...{ ...SECTIONED, turning: 16, sections: { mrope_section: [4, 2, 2], mrope_layout: 1 } },
  },
  "MRotaryEmbedding, interleaved sections, a part of each head": {
    ...{ ...SECTIONED, turning: 8, sections: { mrope_section: [2, 1, 1], mrope_layout: 1 } },
  },
};

function buildGraph(
  { operator, domain, turning, countsHeads, sections }: Layout,
): Uint8Array<ArrayBuffer> {
  const half = turning / 2;
  const makeTable = (graph: DecoderBuilder, compute: (angle: number) => number) =>
    graph.constant(constant(
      `${compute.name}_cache`,
      [CONTEXT, half],
      Float32Array.from(
        { length: CONTEXT * half },
        (_, i) => compute(Math.floor(i / half) * 50 ** (-(i % half) / half)),
      ),
    ));
  return decoder((graph, layer) => {
    const { heads, kvHeads } = graph.sizes;
    const [q, k, v] = projections(graph, layer);
    const tables = [makeTable(graph, Math.cos), makeTable(graph, Math.sin)];
    const rotate = (rows: string, count: number) =>
      graph.add(
        operator,
        domain ? [rows, "position_ids", ...tables] : [rows, ...tables, "position_ids"],
        {
          ...domain && { domain },
          attributes: countsHeads
            ? {}
            : { num_heads: count, rotary_embedding_dim: turning, ...sections },
        },
      );
    const parts = [rotate(q, heads), rotate(k, kvHeads), v];
    return graph.add(
      "GroupQueryAttention",
      [...parts, layer.pastKey, layer.pastValue, ...lengths(graph)],
      {
        domain: "com.microsoft",
        outputs: [`gqa_${layer.index}`, layer.presentKey, layer.presentValue],
        attributes: { num_heads: heads, kv_num_heads: kvHeads },
      },
    );
  }, {
    sizes: SIZE,
    opset: 23,
    inputs: [
      MASK,
      ["position_ids", "int64", [...sections ? [3] : [], "batch_size", "sequence_length"]],
    ],
  });
}

/** Rotations in single operations, whose tables are first cut to the sequence's length. */
function buildCutTables(shape: readonly number[]): Uint8Array<ArrayBuffer> {
  const { headDim } = SIZE;
  const half = headDim / 2;
  const axis = shape.indexOf(CONTEXT);
  const look = (graph: DecoderBuilder, compute: (angle: number) => number) => {
    const table = graph.constant(constant(
      `${compute.name}_cached`,
      shape,
      Float32Array.from(
        { length: CONTEXT * headDim },
        (_, i) => compute(Math.floor(i / headDim) * 50 ** (-(i % half) / half)),
      ),
    ));
    const total = graph.add("Gather", [graph.add("Shape", ["attention_mask"]), graph.ints([1])]);
    const bounds = [graph.ints([0]), total, graph.ints([axis]), graph.ints([1])];
    let rows = graph.add("Slice", [table, ...bounds]);
    for (let i = axis; i > 0; i--) rows = graph.add("Squeeze", [rows, graph.ints([i - 1])]);
    const cast = graph.add("Cast", [rows], { attributes: { to: 1 } });
    const ownRows = graph.add("Gather", [cast, "position_ids"]);
    return graph.add("Unsqueeze", [ownRows, graph.ints([1])]);
  };
  const swap = (graph: DecoderBuilder, x: string) =>
    graph.add("Transpose", [x], { attributes: { perm: [0, 2, 1, 3] } });
  const rotate = (graph: DecoderBuilder, rows: string, heads: number) => {
    const x = swap(graph, graph.add("Reshape", [rows, graph.ints([0, 0, heads, headDim])]));
    const part = (from: number, to: number) =>
      graph.add("Slice", [x, graph.ints([from]), graph.ints([to]), graph.ints([3])]);
    const turned = graph.add("Concat", [
      graph.add("Neg", [part(half, headDim)]),
      part(0, half),
    ], { attributes: { axis: -1 } });
    const sum = graph.add("Add", [
      graph.add("Mul", [x, look(graph, Math.cos)]),
      graph.add("Mul", [turned, look(graph, Math.sin)]),
    ]);
    return graph.add("Reshape", [swap(graph, sum), graph.ints([0, 0, heads * headDim])]);
  };
  return decoder((graph, layer) => {
    const { heads, kvHeads } = graph.sizes;
    const [q, k, v] = projections(graph, layer);
    const parts = [rotate(graph, q, heads), rotate(graph, k, kvHeads), v];
    return graph.add(
      "GroupQueryAttention",
      [...parts, layer.pastKey, layer.pastValue, ...lengths(graph)],
      {
        domain: "com.microsoft",
        outputs: [`gqa_${layer.index}`, layer.presentKey, layer.presentValue],
        attributes: { num_heads: heads, kv_num_heads: kvHeads },
      },
    );
  }, { sizes: SIZE, inputs: [MASK, ["position_ids", "int64", ["batch_size", "sequence_length"]]] });
}

for (const [name, layout] of Object.entries(LAYOUTS)) {
  testKernels(name, { graph: buildGraph(layout), sizes: SIZE });
}

for (const shape of [[CONTEXT, SIZE.headDim], [1, 1, CONTEXT, SIZE.headDim]]) {
  testKernels(`cosines with ${shape.length} axes, sliced to the sequence's length`, {
    graph: buildCutTables(shape),
    sizes: SIZE,
  });
}
