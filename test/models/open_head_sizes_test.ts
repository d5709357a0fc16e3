/**
 * Whole graphs whose caches leave sizes open take them from `config.json`, and their inputs may be int32. Graphs that do
 * not return all their caches are refused.
 */
import assert from "node:assert/strict";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { UnsupportedGraphError } from "../../src/decoder/step_inputs.ts";
import { WholeDecoder } from "../../src/decoder/whole_decoder.ts";
import { EngineLoop } from "../../src/engine/loop.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { readHeadSizes } from "../../src/models/folder/config_fields.ts";
import { FolderFiles } from "../../src/graph/file/external_data.ts";
import { makeNode, withGraph } from "../../src/graph/file/proto.ts";
import { toDtypeCode } from "../../src/graph/file/tensor.ts";
import { makeValueInfo } from "../../src/graph/file/proto_codec.ts";
import { readModel } from "../../src/graph/file/proto_read.ts";
import { generate } from "../fixtures/engine/generate.ts";
import { findModelFolder, readGoldens } from "../fixtures/engine/goldens.ts";

const FOLDER = findModelFolder("hearth-demo-chat")!;

Deno.test("WholeDecoder runs a graph of int32 inputs whose cache has dynamic head sizes", async () => {
  const folder = await openFolder(FOLDER);
  await using files = new FolderFiles(`${FOLDER}/onnx`);
  const model = await readModel(files, "model.onnx");
  const shape = ["batch_size", "kv_heads", "past_sequence_length", "kv_cache_dim"];
  const inputs = model.graph.inputs.map(({ name, shape: given }) =>
    name.startsWith("past")
      ? makeValueInfo(name, "float32", shape)
      : makeValueInfo(name, "int32", given!.map((size) => size!))
  );
  const numbers = inputs.filter(({ dtype }) => dtype === "int32").map(({ name }) => name);
  const toWide = (name: string) => numbers.includes(name) ? `${name}/int64` : name;
  const nodes = [
    ...numbers.map((name) =>
      makeNode("Cast", [name], [toWide(name)], { attributes: { to: toDtypeCode("int64") } })
    ),
    ...model.graph.nodes.map((node) => ({ ...node, inputs: node.inputs.map(toWide) })),
  ];
  const options = {
    backend: new CpuBackend(),
    files,
    model: withGraph(model, { inputs, nodes }),
    contextLength: 2048,
    vocabSize: folder.config["vocab_size"] as number,
  };
  await assert.rejects(
    WholeDecoder.load(options),
    (error: Error) =>
      error instanceof UnsupportedGraphError &&
      /leaves its size "kv_heads" open/.test(error.message),
  );
  const headSizes = readHeadSizes(folder);
  const decoder = await WholeDecoder.load({ ...options, headSizes });
  try {
    const [golden] = readGoldens(FOLDER);
    const engine = new EngineLoop(decoder, { prefixCache: true });
    const wanted = golden!.completionIds.slice(0, 12);
    const { tokens } = await generate(engine, {
      tokens: golden!.promptIds,
      maxTokens: wanted.length,
    });
    assert.deepEqual(tokens.map(({ tokenId }) => tokenId), wanted);
    await engine.close();
  } finally {
    await decoder.dispose();
  }
});

Deno.test("WholeDecoder refuses a graph that does not return its inputs for the next token", async () => {
  await using files = new FolderFiles(`${FOLDER}/onnx`);
  const model = await readModel(files, "model.onnx");
  const outputs = model.graph.outputs.filter(({ name }) => name !== "present.1.value");
  const options = {
    ...{ backend: new CpuBackend(), files, contextLength: 2048, vocabSize: 512 },
    model: { ...model, graph: { ...model.graph, outputs } },
  };
  await assert.rejects(
    WholeDecoder.load(options),
    (error: Error) =>
      error instanceof UnsupportedGraphError &&
      /has no output "present.1.value" for the next token's/.test(error.message),
  );
});
