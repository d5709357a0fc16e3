import assert from "node:assert/strict";
import {
  appendInCacheDtype,
  keepOutputs,
  nameStepAttentions,
  takeBranch,
} from "../../../src/graph/cut/merged_decoder.ts";
import { FolderFiles } from "../../../src/graph/file/external_data.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { cutGraph } from "../../../src/graph/cut/cut_graph.ts";
import { swapHeadsAndTokens } from "../../../src/graph/rewrite/token_rows.ts";
import { findModelFolder } from "../../fixtures/engine/goldens.ts";
import { makeTinyOcr } from "../../fixtures/models/tiny_ocr.ts";

const isEncoded = (name: string) => name.includes(".encoder.");

async function readBranch(file: string, branch: "then_branch" | "else_branch") {
  await using files = new FolderFiles(`${findModelFolder("hearth-demo-asr")}/onnx`);
  return takeBranch(await readModel(files, file), branch)!;
}

for (const file of ["decoder_model_merged.onnx", "decoder_model_merged_fp16.onnx"]) {
  Deno.test(`nameStepAttentions() and cutGraph() cut hearth-demo-asr's ${file} at self-attentions and attentions to the encoder`, async () => {
    const whole = keepOutputs(await readBranch(file, "then_branch"), ["logits"]);
    const { model, crossInputs } = nameStepAttentions(appendInCacheDtype(whole), isEncoded);
    assert.deepEqual(
      [...crossInputs.values()],
      [0, 1].map((layer) => ({
        keys: `past_key_values.${layer}.encoder.key`,
        values: `past_key_values.${layer}.encoder.value`,
      })),
    );
    const result = cutGraph(model, { contextLength: 448 });
    assert.ok("cut" in result, JSON.stringify(result));
    const { attentions, segments, positions } = result.cut;
    assert.deepEqual(
      attentions.map(({ name }) => crossInputs.has(name)),
      [false, true, false, true],
    );
    assert.deepEqual(attentions.map(({ dtype }) => dtype), Array(4).fill("float32"));
    assert.equal(segments.length, 5);
    assert.deepEqual(positions!.shape, [1, "tokens"]);
  });
}

Deno.test("nameStepAttentions() does not change attentions to inputs that are not encoded", async () => {
  const whole = keepOutputs(await readBranch("decoder_model_merged.onnx", "then_branch"), [
    "logits",
  ]);
  const { model, crossInputs } = nameStepAttentions(whole, () => false);
  assert.equal(crossInputs.size, 0);
  assert.equal(model.graph.nodes.filter(({ opType }) => opType === "Softmax").length, 4);
});

Deno.test("swapHeadsAndTokens() returns a row per token", async () => {
  const branch = await readBranch("decoder_model_merged.onnx", "else_branch");
  const names = branch.graph.outputs.map(({ name }) => name).filter(isEncoded);
  const swapped = swapHeadsAndTokens(keepOutputs(branch, names));
  assert.deepEqual(swapped.graph.outputs.map(({ name }) => name), names);
  for (const { shape } of swapped.graph.outputs) assert.deepEqual(shape!.slice(2), [4, 32]);
});

Deno.test("nameStepAttentions() accepts a mask of the encoder's positions, which hides nothing, and no other mask", async () => {
  await using tiny = await makeTinyOcr("florence");
  await using files = new FolderFiles(`${tiny.folder}/onnx`);
  const merged = await readModel(files, "decoder_model_merged.onnx");
  const step = keepOutputs(takeBranch(merged, "then_branch")!, ["logits"]);
  const { model, crossInputs } = nameStepAttentions(step, isEncoded);
  assert.equal(crossInputs.size, 2);
  const result = cutGraph(model, { contextLength: 64 });
  assert.ok("cut" in result, JSON.stringify(result));
  assert.equal(result.cut.tokens.kind, "embeddings");

  const rename = (name: string) => name === "encoder_attention_mask" ? "some_mask" : name;
  const { graph } = step;
  const other = {
    ...step,
    graph: {
      ...graph,
      inputs: graph.inputs.map((input) => ({ ...input, name: rename(input.name) })),
      nodes: graph.nodes.map((node) => ({ ...node, inputs: node.inputs.map(rename) })),
    },
  };
  assert.equal(nameStepAttentions(other, isEncoded).crossInputs.size, 0);
});
