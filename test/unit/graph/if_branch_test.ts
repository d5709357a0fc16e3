import assert from "node:assert/strict";
import { FolderFiles } from "../../../src/graph/file/external_data.ts";
import { keepOutputs, takeBranch } from "../../../src/graph/cut/merged_decoder.ts";
import { loadNative } from "../../../src/device/ort/ort.ts";
import {
  ATTRIBUTE,
  ATTRIBUTE_TYPE,
  makeNode,
  type ModelProto,
} from "../../../src/graph/file/proto.ts";
import { MessageWriter } from "../../../src/graph/file/wire.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { encodeNode, writeModel } from "../../../src/graph/file/proto_codec.ts";
import { findModelFolder } from "../../fixtures/engine/goldens.ts";
import { decodeModel } from "../../fixtures/graphs/decode_model.ts";
import { graphAttribute } from "../../fixtures/graphs/merged_decoder_graph.ts";
import { buildModel } from "../../fixtures/graphs/onnx_builder.ts";

async function read(model: string, file: string): Promise<ModelProto> {
  await using files = new FolderFiles(`${findModelFolder(model)}/onnx`);
  return await readModel(files, file);
}

const names = (values: readonly { readonly name: string }[]) => values.map(({ name }) => name);

Deno.test("takeBranch() extracts a graph from either branch, with the whole graph's names", async () => {
  const merged = await read("hearth-demo-asr", "decoder_model_merged.onnx");
  for (const branch of ["then_branch", "else_branch"] as const) {
    const { graph } = takeBranch(merged, branch)!;
    assert.ok(graph.nodes.every(({ opType }) => opType !== "If"));
    assert.deepEqual(names(graph.outputs), names(merged.graph.outputs));
    assert.ok(!names(graph.inputs).includes("use_cache_branch"));
    const made = new Set([
      ...names(graph.inputs),
      ...names(graph.initializers),
      ...graph.nodes.flatMap(({ outputs }) => outputs),
    ]);
    for (const { name, inputs } of graph.nodes) {
      for (const input of inputs) assert.ok(input === "" || made.has(input), `${name}: ${input}`);
    }
  }
});

Deno.test("takeBranch() distinguishes a branch's tensors from outer ones with the same names", async () => {
  const branch = (name: string, opType: string) => ({
    name,
    message: graphAttribute(name, [makeNode(opType, ["x"], ["y"])], ["y"]),
  });
  const choice = (output: string) => ({
    ...makeNode("If", ["condition"], [output]),
    attributes: [branch("then_branch", "Neg"), branch("else_branch", "Abs")],
  });
  // Like Optimum's merged graphs, also with the casts that converters to half precision add after the outputs.
  const cast = makeNode("Cast", ["y_fp16"], ["y"], { attributes: { to: 1 } });
  for (const nodes of [[choice("y")], [choice("y_fp16"), cast]]) {
    const model = await decodeModel(buildModel({
      nodes,
      inputs: [["x", "float32", [2]], ["condition", "bool", [1]]],
      outputs: [["y", "float32", [2]]],
    }));
    const { graph } = takeBranch(model, "then_branch")!;
    const made = graph.nodes.flatMap(({ outputs }) => outputs);
    assert.equal(new Set(made).size, made.length);
    const { InferenceSession, Tensor } = await loadNative();
    const session = await InferenceSession.create(writeModel({ ...model, graph }));
    const { y } = await session.run({ x: new Tensor("float32", Float32Array.of(1, 2), [2]) });
    assert.deepEqual([...y!.data as Float32Array], [-1, -2]);
    await session.release();
  }
});

Deno.test("keepOutputs() keeps only what the outputs need", async () => {
  const merged = await read("hearth-demo-asr", "decoder_model_merged.onnx");
  const project = keepOutputs(takeBranch(merged, "else_branch")!, ["present.0.encoder.key"]);
  assert.deepEqual(names(project.graph.inputs), ["encoder_hidden_states"]);
  assert.deepEqual(names(project.graph.outputs), ["present.0.encoder.key"]);
  assert.ok(project.graph.nodes.length < 10);
  assert.ok(names(project.graph.initializers).every((name) => !/fc1|embed/.test(name)));
});

Deno.test("takeBranch() returns undefined for a graph without an If", async () => {
  const encoder = await read("hearth-demo-asr", "encoder_model.onnx");
  assert.equal(takeBranch(encoder, "then_branch"), undefined);
});

Deno.test("readModel() widens bfloat16 in the branches of an If", async () => {
  // Each branch adds a constant and an initializer in bfloat16, and its output is of that type too.
  const constant = (name: string, bits: number) =>
    new MessageWriter().int(1, 1).int(2, 16).text(8, name)
      .bytes(9, new Uint8Array(Uint16Array.of(bits).buffer));
  const branch = (name: string, bits: number) => {
    const value = new MessageWriter().text(ATTRIBUTE.name, "value")
      .message(ATTRIBUTE.tensor, constant("", bits)).int(ATTRIBUTE.type, ATTRIBUTE_TYPE.tensor);
    const nodes = [
      makeNode("Cast", ["x"], [`${name}/x`], { attributes: { to: 16 } }),
      {
        ...makeNode("Constant", [], [`${name}/c`]),
        attributes: [{ name: "value", message: value.finish() }],
      },
      makeNode("Add", [`${name}/x`, `${name}/c`], [`${name}/sum`]),
      makeNode("Add", [`${name}/sum`, `${name}/one`], [`${name}/y`]),
    ];
    const graph = new MessageWriter();
    for (const node of nodes) graph.message(1, encodeNode(node));
    const type = new MessageWriter().message(1, new MessageWriter().int(1, 16));
    graph.text(2, name).message(5, constant(`${name}/one`, 0x3f80))
      .message(12, new MessageWriter().text(1, `${name}/y`).message(2, type));
    const message = new MessageWriter().text(ATTRIBUTE.name, name).message(ATTRIBUTE.graph, graph)
      .int(ATTRIBUTE.type, 5);
    return { name, message: message.finish() };
  };
  const choice = {
    ...makeNode("If", ["condition"], ["chosen"]),
    // 1.5 and -2 in bfloat16.
    attributes: [branch("then_branch", 0x3fc0), branch("else_branch", 0xc000)],
  };
  const model = await decodeModel(buildModel({
    nodes: [choice, makeNode("Cast", ["chosen"], ["y"], { attributes: { to: 1 } })],
    inputs: [["x", "float32", [2]], ["condition", "bool", [1]]],
    outputs: [["y", "float32", [2]]],
  }));
  const { InferenceSession, Tensor } = await loadNative();
  const session = await InferenceSession.create(writeModel(model));
  for (const [condition, expected] of [[1, [3.5, 4.5]], [0, [0, 1]]] as const) {
    const { y } = await session.run({
      x: new Tensor("float32", Float32Array.of(1, 2), [2]),
      condition: new Tensor("bool", Uint8Array.of(condition), [1]),
    });
    assert.deepEqual([...y!.data as Float32Array], expected);
  }
  await session.release();
});
