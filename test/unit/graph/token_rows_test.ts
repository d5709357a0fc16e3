import assert from "node:assert/strict";
import { FolderFiles } from "../../../src/graph/file/external_data.ts";
import { hoistTransposes } from "../../../src/graph/rewrite/token_rows.ts";
import { keepOutputs, takeBranch } from "../../../src/graph/cut/merged_decoder.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { findModelFolder } from "../../fixtures/engine/goldens.ts";

Deno.test("hoistTransposes() moves transposes of a graph's inputs into the graph that makes them", async () => {
  await using files = new FolderFiles(`${findModelFolder("hearth-demo-asr")}/onnx`);
  const merged = await readModel(files, "decoder_model_merged.onnx");
  const take = (branch: "then_branch" | "else_branch", part: string) =>
    keepOutputs(
      takeBranch(merged, branch)!,
      merged.graph.outputs.map(({ name }) => name).filter((name) => name.includes(part)),
    );
  const before = { maker: take("else_branch", ".encoder."), user: take("then_branch", "logits") };
  const after = hoistTransposes(
    before,
    (input) =>
      input.includes(".encoder.") ? input.replace("past_key_values", "present") : undefined,
  );

  const computeShape = (values: typeof after.user.graph.inputs, name: string) =>
    values.find((value) => value.name === name)!.shape!;
  // Keys are read transposed, values are not.
  assert.deepEqual(
    computeShape(after.user.graph.inputs, "past_key_values.0.encoder.key").slice(1, 3),
    [
      4,
      32,
    ],
  );
  assert.equal(computeShape(after.user.graph.inputs, "past_key_values.0.encoder.value")[3], 32);
  assert.deepEqual(computeShape(after.maker.graph.outputs, "present.0.encoder.key").slice(1, 3), [
    4,
    32,
  ]);
  assert.equal(after.user.graph.nodes.length, before.user.graph.nodes.length - 2);
  assert.equal(after.maker.graph.nodes.length, before.maker.graph.nodes.length + 2);

  const none = hoistTransposes(before, () => undefined);
  assert.equal(none.user.graph.nodes.length, before.user.graph.nodes.length);
  assert.equal(none.maker.graph.nodes.length, before.maker.graph.nodes.length);
});
