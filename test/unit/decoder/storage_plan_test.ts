import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { planStorage } from "../../../src/decoder/activations.ts";
import { FolderFiles, type ModelFiles } from "../../../src/graph/file/external_data.ts";
import type { GraphCut, TensorPort } from "../../../src/graph/graph_cut.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { cutGraph } from "../../../src/graph/cut/cut_graph.ts";
import { findModelFolder } from "../../fixtures/engine/goldens.ts";
import { additiveMask, spelledOut } from "../graph/spelled_out.ts";
import { gatedDelta } from "../graph/state_layers.ts";
import { decoder, inMemory } from "../graph/test_decoder.ts";

const EXPORTS = fileURLToPath(new URL("../../fixtures/graphs/exports", import.meta.url));

async function cutFile(files: ModelFiles, name: string): Promise<GraphCut> {
  const result = cutGraph(await readModel(files, name), { contextLength: 2048 });
  assert.ok("cut" in result);
  return result.cut;
}

async function cutDemo(): Promise<GraphCut> {
  await using files = new FolderFiles(`${findModelFolder("hearth-demo-chat")!}/onnx`);
  return await cutFile(files, "model.onnx");
}

/** Cuts a decoder with mixtures of experts. */
async function cutExperts(): Promise<GraphCut> {
  await using files = new FolderFiles(EXPORTS);
  return await cutFile(files, "qwen3_moe_script_17.onnx");
}

/** Cuts a decoder with recurrences of two kinds. */
async function cutStates(): Promise<GraphCut> {
  const attention = spelledOut({
    scores: (graph, scores) => graph.add("Add", [scores, additiveMask(graph)]),
  });
  const states = [gatedDelta(0), gatedDelta(1)];
  return await cutFile(inMemory(decoder(attention, { states, opset: 18 })), "model.onnx");
}

const BYTES_PER_TOKEN = (port: TensorPort) =>
  4 * port.shape.reduce<number>((product, dim) => product * (typeof dim === "number" ? dim : 1), 1);

function assertSeparate(cut: GraphCut): void {
  const { chunkByTensor } = planStorage(cut, BYTES_PER_TOKEN);
  /** The contents of each chunk of memory during a run of the segments and attentions. */
  const held = new Map<number, string>();
  const write = ({ name }: TensorPort) => held.set(chunkByTensor.get(name)!, name);
  const read = (name: string) => {
    if (chunkByTensor.has(name)) assert.equal(held.get(chunkByTensor.get(name)!), name);
  };
  const nodes = [
    ...cut.attentions.map(({ q, k, v, ...node }) => ({ ...node, operands: [q, k, v] })),
    ...cut.states,
    ...cut.experts,
  ];
  for (const segment of cut.segments) {
    // All outputs are written before any input is released.
    for (const port of segment.outputs) write(port);
    for (const { name } of segment.inputs) read(name);
    for (const { output, operands } of nodes.filter((one) => one.afterSegment === segment.index)) {
      write(output);
      for (const { tensor } of operands) read(tensor);
    }
  }
  read(cut.output.name);
}

Deno.test("planStorage() never lets two tensors share memory while both are needed", async () => {
  const [plain, experts, states] = [await cutDemo(), await cutExperts(), await cutStates()];
  assert.deepEqual([experts.experts.length, states.states.length], [2, 4]);
  for (const cut of [plain, experts, states]) assertSeparate(cut);
});

Deno.test("planStorage() reuses memory from layer to layer", async () => {
  const cut = await cutDemo();
  const ports = [
    ...cut.segments.flatMap(({ outputs }) => outputs),
    ...cut.attentions.map(({ output }) => output),
  ];
  const { chunks } = planStorage(cut, BYTES_PER_TOKEN);
  const total = ports.reduce((sum, port) => sum + BYTES_PER_TOKEN(port), 0);
  const planned = chunks.reduce((sum, bytes) => sum + bytes, 0);
  assert.ok(chunks.length < ports.length / 2 && planned < 0.7 * total, `${planned} of ${total}`);
});
