/**
 * Encoders cut at their attentions give each text the same result as the whole graph: for exported graphs and for the
 * built-in models, on both backends.
 */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import type { Backend } from "../../../src/device/backend.ts";
import { CpuBackend } from "../../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../../src/device/webgpu/webgpu.ts";
import type { EncodedText } from "../../../src/models/embedding/encoder_tokenizer.ts";
import { keepOutput } from "../../../src/models/folder/graph_file.ts";
import { PackedEncoder, type TextSummary } from "../../../src/models/embedding/packed_encoder.ts";
import { makePoolingTail } from "../../../src/models/embedding/pooling.ts";
import type { EncoderCut } from "../../../src/graph/graph_cut.ts";
import { FolderFiles } from "../../../src/graph/file/external_data.ts";
import { type GraphSession, openSession, Tensor } from "../../../src/device/ort/ort.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { cutEncoder } from "../../../src/graph/cut/cut_graph.ts";
import { findModelFolder } from "../../fixtures/engine/goldens.ts";
import { gpuTest } from "../../fixtures/engine/gpu.ts";

interface Case {
  readonly folder: string;
  readonly file: string;
  readonly output: "last_hidden_state" | "logits";
  readonly padTokenId: number;
  readonly contextLength: number;
  readonly vocabSize: number;
  readonly tolerance: number;
}

const EXPORTS = new URL("../../fixtures/graphs/exports/", import.meta.url);

function exported(name: string, changes: Partial<Case> = {}): Case {
  return {
    folder: fileURLToPath(EXPORTS).slice(0, -1),
    file: `${name}.onnx`,
    output: "last_hidden_state",
    padTokenId: 0,
    contextLength: 38,
    vocabSize: 60,
    tolerance: 1e-4,
    ...changes,
  };
}

function builtIn(model: string, file: string, output: Case["output"], tolerance: number): Case {
  const folder = `${findModelFolder(model)!}/onnx`;
  return {
    ...{ folder, file, output, tolerance },
    ...{ padTokenId: 0, contextLength: 512, vocabSize: 2000 },
  };
}

/** The graphs, each with the reach of attention in its layers if that is limited. */
const GRAPHS: readonly (readonly [Case, { readonly reaches?: readonly number[] }])[] = [
  [exported("bert_script_17"), {}],
  [exported("bert_dynamo_18"), {}],
  [exported("bert_dynamo_23"), {}],
  [exported("bert_attention_fused"), {}],
  [exported("bert_multi_head_fused"), {}],
  [exported("roberta_script_17", { padTokenId: 1 }), {}],
  [exported("xlm_roberta_dynamo_18", { padTokenId: 1 }), {}],
  [exported("distilbert_script_17"), {}],
  [exported("modernbert_script_17"), { reaches: [Infinity, 2] }],
  [exported("modernbert_dynamo_18"), { reaches: [Infinity, 2] }],
  [exported("nomic_bert_script_17"), {}],
  [exported("bert_classifier_script_17", { output: "logits" }), {}],
  [exported("roberta_classifier_script_17", { output: "logits", padTokenId: 1 }), {}],
  [exported("modernbert_classifier_script_17", { output: "logits" }), { reaches: [Infinity, 2] }],
  [builtIn("hearth-demo-embed", "model.onnx", "last_hidden_state", 1e-4), {}],
  [builtIn("hearth-demo-embed", "model_fp16.onnx", "last_hidden_state", 2e-2), {}],
  [builtIn("hearth-demo-rerank", "model.onnx", "logits", 1e-4), {}],
];

/** Texts of these lengths: some have a second part, and one contains a padding token. */
function makeTexts({ vocabSize, contextLength, padTokenId }: Case): EncodedText[] {
  const lengths = [1, 2, Math.min(200, contextLength), 9, 30, 3, 33];
  const texts = lengths.map((length, text) => ({
    ids: Array.from({ length }, (_, t) => 5 + (text * 31 + t * t * 7 + t) % (vocabSize - 5)),
    ...(text % 2 === 0 ? {} : { typeOneFrom: Math.ceil(length / 2) }),
  }));
  return [...texts, { ids: [7, 9, padTokenId, 11, 12, 8] }];
}

/** The rows of a text's tokens, or its logits, from the whole graph. */
async function runWhole(whole: GraphSession, text: EncodedText): Promise<Float32Array> {
  const shape = [1, text.ids.length];
  const values: Record<string, (token: number) => number> = {
    input_ids: (token) => text.ids[token]!,
    attention_mask: () => 1,
    token_type_ids: (token) => token >= (text.typeOneFrom ?? Infinity) ? 1 : 0,
  };
  const feeds = Object.fromEntries(whole.inputs.map(({ name }) => {
    const data = BigInt64Array.from(text.ids, (_, token) => BigInt(values[name]!(token)));
    return [name, new Tensor("int64", data, shape)];
  }));
  const [output] = Object.values(await whole.run(feeds));
  return Float32Array.from(output!.data as Float32Array);
}

/** Computes a text's summary from its definition. */
function summarise(rows: Float32Array, summary: TextSummary, numTokens: number): number[] {
  const width = rows.length / numTokens;
  if (summary.kind === "token") {
    const token = summary.which === "first" ? 0 : numTokens - 1;
    return [...rows.subarray(token * width, (token + 1) * width)];
  }
  const mean = Array<number>(width).fill(0);
  rows.forEach((value, i) => mean[i % width]! += value / numTokens);
  return mean;
}

async function makeCut(given: Case, summary: TextSummary, files: FolderFiles) {
  const { file, output, padTokenId, contextLength } = given;
  const wanted = `${output}/float32`;
  return cutEncoder(keepOutput(await readModel(files, file), output, wanted), {
    wanted,
    tail: summary.kind === "sums" ? makePoolingTail : undefined,
    padTokenId,
    contextLength,
  });
}

async function assertSame(backend: Backend, given: Case): Promise<EncoderCut> {
  await using files = new FolderFiles(given.folder);
  const whole = await openSession(await Deno.readFile(`${given.folder}/${given.file}`));
  const texts = makeTexts(given);
  const makeRows = new Map<EncodedText, Float32Array>();
  for (const text of texts) makeRows.set(text, await runWhole(whole, text));
  const summaries: TextSummary[] = given.output === "logits"
    ? [{ kind: "token", which: "first" }]
    : [{ kind: "sums", modes: ["mean"] }, { kind: "token", which: "last" }];
  let found: EncoderCut | undefined;
  for (const summary of summaries) {
    const result = await makeCut(given, summary, files);
    assert.ok("cut" in result, "refused" in result ? result.refused : "");
    found = result.cut;
    const longestText = given.contextLength;
    const encoder = await PackedEncoder.open(found, { backend, files, summary, longestText });
    // One text after the other, all of them, and a part of them again: nothing may remain from another batch.
    for (const batch of [...texts.map((text) => [text]), texts, texts.slice(3)]) {
      const rows = await encoder.run(batch);
      assert.equal(rows.length, batch.length * encoder.width);
      for (const [index, text] of batch.entries()) {
        const all = makeRows.get(text)!;
        const want = given.output === "logits"
          ? [...all]
          : summarise(all, summary, text.ids.length);
        want.forEach((value, at) => {
          const got = rows[index * encoder.width + at]!;
          const error = Math.abs(got - value);
          assert.ok(
            error <= given.tolerance * Math.max(1, Math.abs(value)),
            `text ${index} of ${batch.length}, ${text.ids.length} tokens, element ${at}: ${got}, not ${value}`,
          );
        });
      }
    }
    await encoder.dispose();
  }
  await whole.release();
  return found!;
}

for (const [given, { reaches }] of GRAPHS) {
  const name = given.folder.includes("exports") ? given.file : `${given.folder}/${given.file}`
    .split("/").slice(-3).join("/");
  Deno.test(`PackedEncoder.run() gives the whole graph's rows on the CPU: ${name}`, async () => {
    const cut = await assertSame(new CpuBackend(), given);
    const found = cut.attentions.map(({ window = Infinity }) => window);
    assert.deepEqual(found, reaches ?? found.map(() => Infinity));
    // No masks or lengths remain in the segments.
    for (const { name, dtype } of cut.segments.flatMap(({ inputs }) => inputs)) {
      if (dtype !== "int64") continue;
      assert.match(name, /^(input_ids|position_ids|token_type_ids|logit_rows)$/);
    }
  });
  gpuTest(`PackedEncoder.run() gives the whole graph's rows on WebGPU: ${name}`, async (gpu) => {
    await assertSame(await WebGpuBackend.create(gpu), given);
  });
}

Deno.test("cutEncoder() refuses graphs with another attention, and gives a reason", async () => {
  const refusals = {
    mpnet_script_17:
      /layer\.0\/attention\/attn\/Softmax" adds -0\.\d+ to a score, like a relative position bias/,
    deberta_v2_classifier_script_17: /changes keys, values or weights before it multiplies them/,
    gpt2_script_17: /cannot be traced back to the rows of tokens/,
  };
  for (const [name, message] of Object.entries(refusals)) {
    const given = exported(name);
    await using files = new FolderFiles(given.folder);
    const model = await readModel(files, given.file);
    const result = cutEncoder(model, {
      wanted: model.graph.outputs[0]!.name,
      padTokenId: 0,
      contextLength: 38,
    });
    assert.ok("refused" in result, name);
    assert.match(result.refused, message);
  }
});

Deno.test("cutEncoder() returns the length of the tables of positions", async () => {
  // RoBERTa's positions start after its padding token's id.
  const limits = { bert_script_17: 40, roberta_script_17: 38, modernbert_script_17: undefined };
  for (const [name, limit] of Object.entries(limits)) {
    const given = exported(name, { contextLength: 8192, padTokenId: 1 });
    await using files = new FolderFiles(given.folder);
    const result = await makeCut(given, { kind: "token", which: "first" }, files);
    assert.ok("cut" in result, "refused" in result ? result.refused : "");
    assert.equal(result.cut.maxPositions, limit, name);
  }
});
