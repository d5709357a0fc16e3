import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { cutForGpu } from "../../../src/program/adapt_cut.ts";
import {
  splitByLookup,
  takeEmbedding,
  takeLookup,
} from "../../../src/graph/cut/embedding_lookup.ts";
import { FolderFiles } from "../../../src/graph/file/external_data.ts";
import { countWeightBytes, type GraphCut, type Segment } from "../../../src/graph/graph_cut.ts";
import { makeNode } from "../../../src/graph/file/proto.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { cutGraph } from "../../../src/graph/cut/cut_graph.ts";
import { buildModel, constant } from "../../fixtures/graphs/onnx_builder.ts";
import { additiveMask, spelledOut } from "./spelled_out.ts";
import { decoder, inMemory } from "./test_decoder.ts";

const EXPORTS = fileURLToPath(new URL("../../fixtures/graphs/exports", import.meta.url));
const DEMO = fileURLToPath(new URL("../../../models/hearth-demo-chat/onnx", import.meta.url));

async function makeCut(folder: string, file: string): Promise<GraphCut> {
  await using files = new FolderFiles(folder);
  const result = cutGraph(await readModel(files, file), { contextLength: 32 });
  assert.ok("cut" in result, JSON.stringify(result));
  return result.cut;
}

function readNames(segment: Segment): string[] {
  return segment.model.graph.initializers.map(({ name }) => name);
}

Deno.test("takeEmbedding() moves the table to a separate graph", async () => {
  const whole = await makeCut(DEMO, "model_q4.onnx");
  const cut = takeEmbedding(whole);
  // The table is in half precision, and the segments read single precision.
  const { nodes } = cut.embedding!.graph;
  assert.deepEqual(nodes.map(({ opType }) => opType), ["Gather", "Cast"]);
  const [table] = cut.embedding!.graph.initializers;
  assert.deepEqual([table!.dtype, table!.shape], ["float16", [2048, 192]]);
  assert.ok(!cut.segments.some((segment) => readNames(segment).includes(table!.name)));
  const [before, after] = [whole, cut].map(({ segments: [first] }) => countWeightBytes(first!));
  assert.equal(before! - after!, 2048 * 192 * 2);
  const { kind, ...port } = cut.tokens;
  assert.equal(kind, "embeddings");
  const [name] = nodes[1]!.outputs;
  assert.deepEqual(port, { name, dtype: "float32", shape: [1, "tokens", 192] });
  assert.deepEqual(cut.segments[0]!.inputs[0], port);
  assert.deepEqual(cut.segments.slice(1), whole.segments.slice(1));
});

Deno.test("takeEmbedding() leaves the last segment a table that the projection also reads", async () => {
  const whole = await makeCut(DEMO, "model.onnx");
  const cut = takeEmbedding(whole);
  const table = cut.embedding!.graph.initializers[0]!.name;
  const readsTable = (segment: Segment) => readNames(segment).includes(table);
  assert.deepEqual(whole.segments.filter(readsTable).map(({ index }) => index), [0, 4]);
  assert.deepEqual(cut.segments.filter(readsTable), [
    cut.segments.at(-1),
  ]);
});

Deno.test("takeEmbedding() does not pass embeddings that later segments read through other segments", async () => {
  const whole = await makeCut(DEMO, "model.onnx");
  const cut = takeEmbedding(whole);
  const { name } = cut.tokens;
  assert.ok(whole.segments[0]!.outputs.some((port) => port.name === name));
  assert.ok(cut.segments.slice(1).some(({ inputs }) => inputs.some((port) => port.name === name)));
  assert.ok(!cut.segments[0]!.outputs.some((port) => port.name === name));
  assert.ok(!cut.segments[0]!.model.graph.outputs.some((output) => output.name === name));
});

Deno.test("cutForGpu() leaves tables in their files, and looks positions up separately", async () => {
  for (const graph of ["gpt2_script_17.onnx", "opt_script_17.onnx"]) {
    const whole = await makeCut(EXPORTS, graph);
    const cut = cutForGpu(whole, Infinity);
    assert.equal(cut.tokens.kind, "embeddings", graph);
    assert.deepEqual(cut.embedding!.graph.nodes.map(({ opType }) => opType), ["Gather"]);
    assert.equal(cut.positions!.isIndex, true);
    const { nodes, initializers } = cut.segments[0]!.model.graph;
    const lookup = nodes.find(({ inputs }) => inputs[1] === cut.positions!.name)!;
    const table = initializers.find(({ name }) => name === lookup.inputs[0])!;
    // OPT counts positions from 2.
    assert.deepEqual(table.shape, [64, 16]);
    assert.equal(table.name.endsWith("/rows 2 to 66"), graph.startsWith("opt"));
    assert.ok(!nodes.some(({ opType }) => opType === "Identity"));
  }
});

Deno.test("takeEmbedding() does not change a cut whose ids are not only looked up", async () => {
  const attention = spelledOut({
    scores: (graph, scores) => graph.add("Add", [scores, additiveMask(graph)]),
  });
  const graph = decoder(attention, {
    embed: (graph) => {
      const rows = graph.add("Gather", [graph.weights([29, 24]), "input_ids"]);
      const ids = graph.add("Cast", ["input_ids"], { attributes: { to: 1 } });
      return graph.add("Add", [rows, graph.add("Unsqueeze", [ids, graph.ints([-1])])]);
    },
  });
  const result = cutGraph(await readModel(inMemory(graph), "model.onnx"));
  assert.ok("cut" in result, JSON.stringify(result));
  assert.equal(takeEmbedding(result.cut), result.cut);
});

Deno.test("takeLookup() does not change graphs whose ids have other readers, or that have two tables", async () => {
  const build = async (second: Parameters<typeof makeNode>) => {
    const files = inMemory(buildModel({
      nodes: [makeNode("Gather", ["table", "ids"], ["rows"]), makeNode(...second)],
      inputs: [["ids", "int64", [1, "tokens"]]],
      outputs: [["rows", "float32", [1, "tokens", 4]], ["more", "float32"]],
      initializers: [
        constant("table", [8, 4], new Float32Array(32)),
        constant("other", [8, 2], new Float32Array(16)),
      ],
    }));
    return takeLookup(await readModel(files, "model.onnx"));
  };
  assert.equal(await build(["Cast", ["ids"], ["more"], { attributes: { to: 1 } }]), undefined);
  assert.equal(await build(["Gather", ["other", "ids"], ["more"]]), undefined);
  assert.equal((await build(["Neg", ["rows"], ["more"]]))!.lookup.width, 4);
});

Deno.test("splitByLookup() moves each lookup of an embedding graph to a separate graph", async () => {
  const build = async (...last: Parameters<typeof makeNode>) => {
    const files = inMemory(buildModel({
      nodes: [
        makeNode("Gather", ["table", "ids"], ["rows"]),
        makeNode("Gather", ["other", "ids"], ["flat"]),
        makeNode(...last),
      ],
      inputs: [["ids", "int64", [1, "tokens"]]],
      outputs: [["rows", "float32", [1, "tokens", 4]], ["more", "float32"]],
      initializers: [
        constant("table", [8, 4], new Float32Array(32)),
        constant("other", [8, 4], new Float32Array(32)),
      ],
    }));
    return splitByLookup(await readModel(files, "model.onnx"));
  };
  const parts = await build("Neg", ["flat"], ["more"]);
  assert.deepEqual(parts.map((part) => takeLookup(part)!.lookup.output), ["rows", "flat"]);
  assert.deepEqual(parts.map(({ graph }) => graph.initializers.map(({ name }) => name)), [
    ["table"],
    ["other"],
  ]);
  assert.equal((await build("Add", ["rows", "flat"], ["more"])).length, 1);
});
