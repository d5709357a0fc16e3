/** Graphs that only read the first token: the last layer computes only its row, with the same result. */
import assert from "node:assert/strict";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { POOLED_OUTPUT, poolTexts } from "../../src/models/embedding/pooling.ts";
import { keepOutput } from "../../src/models/folder/graph_file.ts";
import { findEncoderInputs } from "../../src/graph/decoder_inputs.ts";
import { liftConstants } from "../../src/graph/file/lift_constants.ts";
import { computeFirstRows } from "../../src/graph/cut/picked_token.ts";
import { FolderFiles } from "../../src/graph/file/external_data.ts";
import type { ModelProto } from "../../src/graph/file/proto.ts";
import { readModel } from "../../src/graph/file/proto_read.ts";
import { makeValueInfo } from "../../src/graph/file/proto_codec.ts";
import { GraphIndex } from "../../src/graph/graph_index.ts";
import { Probes } from "../../src/graph/probes.ts";
import { Tensor } from "../../src/device/ort/ort.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";

interface Case {
  readonly folder: string;
  readonly file: string;
  readonly padTokenId: number;
  /** Number of products that compute only the first token's row, and of all products. */
  readonly products: readonly [first: number, all: number];
  /** Largest allowed difference of an element. */
  readonly tolerance: number;
}

function exported(name: string, changes: Partial<Case> = {}): Case {
  const folder = new URL("../fixtures/graphs/exports", import.meta.url).pathname;
  return {
    ...{ folder, file: `${name}.onnx`, padTokenId: 0, tolerance: 1e-6 },
    ...{ products: [3, 12], ...changes },
  };
}

function builtIn(name: string, file: string, tolerance: number): Case {
  return exported("", { folder: `${findModelFolder(name)!}/onnx`, file, tolerance });
}

/** Two layers each: in the last one, the output projection and both products of the MLP. */
const CASES: readonly Case[] = [
  exported("bert_classifier_script_17"),
  exported("roberta_classifier_script_17", { padTokenId: 1 }),
  exported("modernbert_classifier_script_17", { products: [3, 9] }),
  exported("deberta_v2_classifier_script_17", { products: [0, 8] }),
  exported("bert_script_17"),
  exported("bert_dynamo_18"),
  exported("bert_multi_head_fused"),
  exported("distilbert_script_17"),
  exported("mpnet_script_17", { padTokenId: 1 }),
  exported("xlm_roberta_dynamo_18", { padTokenId: 1 }),
  exported("modernbert_dynamo_18", { products: [3, 8] }),
  exported("nomic_bert_script_17", { products: [4, 14] }),
  builtIn("hearth-demo-rerank", "model.onnx", 1e-6),
  builtIn("hearth-demo-rerank", "model_fp16.onnx", 5e-3),
];

/** The graph with its logits, or with the pooling `cls`. */
async function readForm({ folder, file }: Case) {
  await using files = new FolderFiles(folder);
  const model = await readModel(files, file);
  const isClassifier = model.graph.outputs.some(({ name }) => name === "logits");
  const wanted = isClassifier ? "logits/float32" : POOLED_OUTPUT;
  return {
    model: isClassifier
      ? keepOutput(model, "logits", wanted)
      : poolTexts(model, { name: "last_hidden_state", pooling: ["cls"] }),
    wanted,
  };
}

/** The results of texts of several lengths, padded to the longest: `[batch, …]`. */
async function run({ folder, padTokenId }: Case, model: ModelProto): Promise<Tensor> {
  const lengths = [9, 3, 12, 1];
  const longest = Math.max(...lengths);
  const ofTokens = (value: (text: number, token: number) => number, padding: number) =>
    new Tensor(
      "int64",
      BigInt64Array.from(
        lengths.flatMap((length, text) =>
          Array.from(
            { length: longest },
            (_, token) => BigInt(token < length ? value(text, token) : padding),
          )
        ),
      ),
      [lengths.length, longest],
    );
  const feeds: Record<string, Tensor> = {
    input_ids: ofTokens((text, token) => 5 + (text * 31 + token * token * 7) % 50, padTokenId),
    attention_mask: ofTokens(() => 1, 0),
    token_type_ids: ofTokens((text, token) => token > 4 && text > 0 ? 1 : 0, 0),
  };
  await using files = new FolderFiles(folder);
  const session = await new CpuBackend().openModel(model, files);
  try {
    const given = session.inputs.map(({ name }) => [name, feeds[name]!] as const);
    const [output] = Object.values(await session.run(Object.fromEntries(given)));
    return output!;
  } finally {
    await session.release();
  }
}

/**
 * Counts the products with weights that compute one row of a text of several tokens, and all with
 * weights.
 */
function countProducts(model: ModelProto, padTokenId: number): [number, number] {
  const index = new GraphIndex(liftConstants(model.graph));
  const [lengths] = new Probes(index, findEncoderInputs(index, padTokenId)).short();
  const rows = index.graph.nodes
    .filter(({ opType, inputs }) => opType === "MatMul" && index.constants.has(inputs[1]!))
    .map(({ outputs }) => lengths!.value(outputs[0]!)?.shape[1]);
  return [rows.filter((numRows) => numRows === 1).length, rows.length];
}

for (const given of CASES) {
  const { folder, file, padTokenId, products, tolerance } = given;
  const name = `${folder.split("/").slice(-2)[0]}/${file}`;
  Deno.test(`computeFirstRows() keeps the results of a padded batch: ${name}`, async () => {
    const { model, wanted } = await readForm(given);
    const early = computeFirstRows(model, { wanted, padTokenId });
    assert.deepEqual(countProducts(early, padTokenId), products);
    const [all, first] = [await run(given, model), await run(given, early)];
    assert.deepEqual(first.dims, all.dims);
    const got = first.data as Float32Array;
    (all.data as Float32Array).forEach((value, i) => {
      assert.ok(Math.abs(got[i]! - value) <= tolerance, `element ${i}: ${got[i]}, not ${value}`);
    });
  });
}

Deno.test("computeFirstRows() does not change graphs whose output reads all tokens", async () => {
  await using files = new FolderFiles(exported("").folder);
  const model = await readModel(files, "bert_script_17.onnx");
  const wanted = model.graph.outputs[0]!.name;
  assert.equal(computeFirstRows(model, { wanted, padTokenId: 0 }), model);
});

Deno.test("computeFirstRows() keeps rows that another output returns", async () => {
  const given = exported("bert_script_17");
  const { model, wanted } = await readForm(given);
  const tokens = makeValueInfo("last_hidden_state", "float32", ["batch", "tokens", 16]);
  const outputs = [...model.graph.outputs, tokens];
  const both = { ...model, graph: { ...model.graph, outputs } };
  assert.equal(computeFirstRows(both, { wanted, padTokenId: given.padTokenId }), both);
});
