/** The built-in decoders compile completely, with a known number of dispatches. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { mergeCutProducts } from "../../../src/program/adapt_cut.ts";
import { compileCut } from "../../../src/program/compile_cut.ts";
import { compileForCpu, compileForGpu } from "../../../src/cli/cut_report.ts";
import { cutForCpu, cutForGpu } from "../../../src/program/adapt_cut.ts";
import { cutStep, divideMerged } from "../../../src/graph/cut/merged_decoder.ts";
import { cutGraph } from "../../../src/graph/cut/cut_graph.ts";
import { FolderFiles } from "../../../src/graph/file/external_data.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import type { AttentionNode, GraphCut, Segment } from "../../../src/graph/graph_cut.ts";
import { findModelFolder, unlessThere } from "../../fixtures/engine/goldens.ts";
import { bloomAttention } from "./spelled_out.ts";
import { decoder, inMemory, SIZES } from "./test_decoder.ts";

async function makeCut(folder: string, graph: string): Promise<GraphCut> {
  await using files = new FolderFiles(`${folder}/onnx`);
  const result = cutGraph(await readModel(files, graph), { contextLength: 512 });
  assert.ok("cut" in result, JSON.stringify(result));
  return cutForGpu(result.cut, Infinity);
}

/** Numbers of dispatches of the segments, without attentions, if all rows are requested. */
const BUILT_IN: readonly (readonly [model: string, graph: string, counts: readonly number[]])[] = [
  ["hearth-demo-chat", "model.onnx", [1, 4, 4, 4, 4]],
  ["hearth-demo-chat", "model_fp16.onnx", [1, 4, 4, 4, 4]],
  ["hearth-demo-chat", "model_q4.onnx", [1, 4, 4, 4, 4]],
  ["hearth-demo-chat", "model_q4f16.onnx", [1, 4, 4, 4, 4]],
  ["hearth-demo-vision", "decoder_model_merged.onnx", [1, 4, 4, 4, 4, 4]],
  ["hearth-demo-vision", "decoder_model_merged_q4.onnx", [1, 4, 4, 4, 4, 4]],
  ["stories260k-llama", "model.onnx", [1, 4, 4, 4, 4, 4]],
  ["stories260k-llama", "model_fp16.onnx", [1, 4, 4, 4, 4, 4]],
  ["chat-gptneo-3m", "model.onnx", [3, 4, 4, 4, 4, 4, 4, 4, 4]],
  ["chat-gptneo-3m", "model_q4.onnx", [3, 4, 4, 4, 4, 4, 4, 4, 4]],
  ["chat-gptneo-3m", "model_q4f16.onnx", [3, 4, 4, 4, 4, 4, 4, 4, 4]],
];

Deno.test("compileCut() names a transposition of queries that it cannot leave out", async () => {
  const model = decoder((graph, layer) => bloomAttention(graph, layer, { scalesMerged: true }), {
    sizes: { kvHeads: SIZES.heads },
  });
  const result = cutGraph(await readModel(inMemory(model), "model.onnx"), { contextLength: 64 });
  assert.ok("cut" in result, JSON.stringify(result));
  for (const compiled of [compileForCpu(result.cut), compileForGpu(result.cut)]) {
    const refusals = compiled.flatMap((each) => "refused" in each ? each.refused : []);
    assert.equal(refusals.length, 2);
    for (const refusal of refusals) assert.match(refusal, /It has no kernel for Transpose "Mul_/);
  }
});

for (const [name, graph, counts] of BUILT_IN) {
  const folder = findModelFolder(name);
  Deno.test({
    name: `compileCut() of ${name} ${graph}: ${counts.join(", ")} dispatches` +
      unlessThere(folder !== undefined, `models/${name}`, "a graph with rotary of its own"),
    ignore: folder === undefined,
    fn: async () => {
      const segments = compileCut(await makeCut(folder!, graph), {
        takesLayout: () => true,
        contextLength: 512,
        writesSums: true,
      });
      assert.deepEqual(
        segments.map((segment) =>
          "refused" in segment ? segment.refused : segment.few.dispatches.length
        ),
        counts,
      );
      const last = segments.at(-1)!;
      // Rows are selected from two tensors if not all are requested.
      assert.equal("many" in last && last.many.dispatches.length, counts.at(-1)! + 2);
    },
  });
}

/** Numbers of dispatches of an encoder-decoder's segments. Attentions to the encoder read their queries by name. */
const BUILT_IN_MERGED: readonly (readonly [graph: string, counts: readonly number[]])[] = [
  // First the position, its sum with the token, and queries, keys and values. Then the output and the queries to the
  // encoder. Then the output, two products of the MLP, and the next layer's queries, keys and values.
  ["decoder_model_merged.onnx", [3, 2, 4, 2, 4]],
  // More, because casts surround the attentions, which are in f32.
  ["decoder_model_merged_fp16.onnx", [4, 4, 6, 4, 6]],
];

for (const [graph, counts] of BUILT_IN_MERGED) {
  Deno.test(`compileCut() of hearth-demo-asr ${graph}: ${counts.join(", ")} dispatches`, async () => {
    await using files = new FolderFiles(`${findModelFolder("hearth-demo-asr")}/onnx`);
    const { step } = divideMerged(await readModel(files, graph))!;
    const result = cutStep(step, { contextLength: 448 });
    assert.ok("cut" in result, JSON.stringify(result));
    const cut = cutForGpu(result.cut, Infinity);
    const takesLayout = ({ name }: AttentionNode) => !result.crossInputs.has(name);
    assert.deepEqual(
      compileCut(cut, { takesLayout, contextLength: 448, writesSums: true }).map((segment) =>
        "refused" in segment ? segment.refused : segment.few.dispatches.length
      ),
      counts,
    );
    // The positions are only used on the GPU: nothing else computes with them.
    assert.equal(cut.positions!.isIndex, true);
  });
}

Deno.test("compileCut() refuses one segment and compiles the others", async () => {
  const folder = fileURLToPath(new URL("../../../models/hearth-demo-chat", import.meta.url));
  const cut = await makeCut(folder, "model_q4f16.onnx");
  const segments = cut.segments.map((segment): Segment => {
    if (segment.index !== 2) return segment;
    const { graph } = segment.model;
    const nodes = graph.nodes.map((node) =>
      node.opType === "Sigmoid" ? { ...node, opType: "HardSigmoid" } : node
    );
    return { ...segment, model: { ...segment.model, graph: { ...graph, nodes } } };
  });
  const joined = { maxBytes: Infinity, outputsMultiple: 4 };
  const compiled = compileCut(mergeCutProducts({ ...cut, segments }, joined), {
    takesLayout: () => true,
    contextLength: 512,
    writesSums: true,
  });
  assert.deepEqual(compiled.map((segment) => "refused" in segment), [
    ...[false, false, true, false, false],
  ]);
  assert.match((compiled[2] as { refused: string }).refused, /no kernel for HardSigmoid/);
});

Deno.test("cutForCpu() leaves four products per layer if merged ones are whole groups of outputs", async () => {
  const folder = fileURLToPath(new URL("../../../models/hearth-demo-chat", import.meta.url));
  await using files = new FolderFiles(`${folder}/onnx`);
  const result = cutGraph(await readModel(files, "model.onnx"), { contextLength: 512 });
  assert.ok("cut" in result, JSON.stringify(result));
  const cut = cutForCpu(result.cut);
  const limits = { takesLayout: () => false, contextLength: 512, writesSums: false };
  const numProducts = compileCut(cut, limits).map((segment) => {
    assert.ok(!("refused" in segment), JSON.stringify(segment));
    return segment.few.dispatches.filter(({ kind }) => kind === "matvec").length;
  });
  // First queries, keys and values. Between attentions the output, gate and up, down, and the next queries, keys and
  // values.
  assert.deepEqual(numProducts, [1, 4, 4, 4, 4]);
});
