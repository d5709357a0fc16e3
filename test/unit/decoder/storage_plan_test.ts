import assert from "node:assert/strict";
import { planStorage } from "../../../src/decoder/activations.ts";
import { FolderFiles } from "../../../src/graph/file/external_data.ts";
import type { GraphCut, TensorPort } from "../../../src/graph/graph_cut.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { cutGraph } from "../../../src/graph/cut/cut_graph.ts";
import { findModelFolder } from "../../fixtures/engine/goldens.ts";

async function cutDemo(): Promise<GraphCut> {
  await using files = new FolderFiles(`${findModelFolder("hearth-demo-chat")!}/onnx`);
  const result = cutGraph(await readModel(files, "model.onnx"), { contextLength: 2048 });
  assert.ok("cut" in result);
  return result.cut;
}

const BYTES_PER_TOKEN = (port: TensorPort) =>
  4 * port.shape.reduce<number>((product, dim) => product * (typeof dim === "number" ? dim : 1), 1);

Deno.test("planStorage() never lets two tensors share memory while both are needed", async () => {
  const cut = await cutDemo();
  const { chunkByTensor } = planStorage(cut, BYTES_PER_TOKEN);
  /** The contents of each chunk of memory during a run of the segments and attentions. */
  const held = new Map<number, string>();
  const write = ({ name }: TensorPort) => held.set(chunkByTensor.get(name)!, name);
  const read = (name: string) => {
    if (chunkByTensor.has(name)) assert.equal(held.get(chunkByTensor.get(name)!), name);
  };
  for (const segment of cut.segments) {
    // All outputs are written before any input is released.
    for (const port of segment.outputs) write(port);
    for (const { name } of segment.inputs) read(name);
    for (const node of cut.attentions.filter((one) => one.afterSegment === segment.index)) {
      write(node.output);
      for (const { tensor } of [node.q, node.k, node.v]) read(tensor);
    }
  }
  read(cut.output.name);
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
