/** Results of rerank tasks, in addition to the goldens. */
import assert from "node:assert/strict";
import { StartupError } from "../../src/base/errors.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { openModel, rerank } from "../fixtures/engine/model.ts";
import { makeTinyEncoder } from "../fixtures/models/tiny_encoder.ts";

const DEMO = findModelFolder("hearth-demo-rerank")!;
const QUERY = "what is the capital of Portugal";
const ANSWER = "The capital of Portugal is Lisbon.";
const LONG = `${ANSWER} ${"egg ".repeat(600)}`;
/** [CLS] query [SEP] document [SEP]; the query has 6 tokens. */
const NUM_AROUND = 9;

Deno.test("RerankModel refuses a pair that is too long, and names both lengths, or truncates the document on request", async () => {
  await using model = await openModel(DEMO);
  await assert.rejects(rerank(model, QUERY, [ANSWER, LONG]), {
    kind: "context_length_exceeded",
    param: "documents[1]",
    message: /^query and documents\[1\] together have 616 tokens, and the model takes at most 512/,
  });
  const cut = await rerank(model, QUERY, [LONG], { truncation: "model" });
  assert.equal(cut.promptTokens, 512);
  const [score] = (await rerank(model, QUERY, [ANSWER])).scores;
  const toAnswer = await rerank(model, QUERY, [LONG], { maxDocumentTokens: 7 });
  assert.equal(toAnswer.promptTokens, NUM_AROUND + 7);
  assert.ok(Math.abs(toAnswer.scores[0]! - score!) < 1e-6);
});

Deno.test("RerankModel also truncates a long query if the document alone is not enough", async () => {
  await using model = await openModel(DEMO);
  const { promptTokens } = await rerank(model, LONG, [LONG, "egg"], { truncation: 100 });
  assert.equal(promptTokens, 200);
  await assert.rejects(rerank(model, QUERY, [ANSWER], { truncation: 3 }), {
    kind: "invalid_value",
    param: "truncation",
  });
});

Deno.test("RerankModel scores an empty document", async () => {
  await using model = await openModel(DEMO);
  const { scores } = await rerank(model, QUERY, ["", ANSWER]);
  assert.ok(scores[0]! < scores[1]!);
});

Deno.test("RerankModel interprets two logits as the classes irrelevant and relevant", async () => {
  const config = { model_type: "bert", architectures: ["BertForSequenceClassification"] };
  await using tiny = await makeTinyEncoder({ files: { "config.json": config }, numLogits: 2 });
  await using model = await openModel(tiny.folder, { kind: "rerank" });
  const { scores } = await rerank(model, "the dog", ["an egg", "a cat"]);
  // The graph's logits are the first elements of the first token's vector, [CLS].
  const [no, yes] = [Math.sin(2), Math.sin(4)];
  const expected = Math.exp(yes) / (Math.exp(no) + Math.exp(yes));
  for (const score of scores) assert.ok(Math.abs(score - expected) < 1e-6);
});

Deno.test("RerankModel refuses graphs of other models", async () => {
  const config = { model_type: "bert", architectures: ["BertForSequenceClassification"] };
  const files = { "config.json": config };
  const cases = [
    [
      { files, numLogits: 3 },
      /returns 3 logits for a pair of texts; a reranker must return 1 or 2/,
    ],
    [{ files, output: "logits" }, /logits of shape \[batch, length, 4\], for each token/],
    [{ files }, /no output logits; it has last_hidden_state/],
  ] as const;
  for (const [options, message] of cases) {
    await using tiny = await makeTinyEncoder(options);
    await assert.rejects(
      openModel(tiny.folder, { kind: "rerank" }),
      (error: Error) => error instanceof StartupError && message.test(error.message),
    );
  }
});

Deno.test("RerankModel opens a CrossEncoder saved by sentence-transformers 5.4 or later: a single Transformer", async () => {
  await using tiny = await makeTinyEncoder({
    numLogits: 1,
    files: {
      "config.json": {
        model_type: "bert",
        architectures: ["BertForSequenceClassification"],
        id2label: { 0: "LABEL_0" },
      },
      "modules.json": [{
        idx: 0,
        name: "0",
        path: "",
        type: "sentence_transformers.base.modules.transformer.Transformer",
      }],
      "config_sentence_transformers.json": {
        model_type: "CrossEncoder",
        activation_fn: "torch.nn.modules.activation.Sigmoid",
        prompts: {},
        default_prompt_name: null,
      },
    },
  });
  await using model = await openModel(tiny.folder);
  assert.equal(model.kind, "rerank");
  const { scores } = await rerank(model, "the dog", ["an egg"]);
  assert.ok(Math.abs(scores[0]! - 1 / (1 + Math.exp(-Math.sin(2)))) < 1e-6);
});
