import assert from "node:assert/strict";
import type { CohereRerankList, RerankList } from "../../src/wire/rerank.ts";
import { shareApp, type TestApp } from "../fixtures/servers/server.ts";
import { Random } from "../unit/engine/random.ts";

const MODEL = "hearth-demo-rerank";
const QUERY = "what is the capital of Portugal";
const DOCUMENTS = [
  "The capital of Spain is Madrid.",
  "Rinse the rice, add twice as much water and simmer it for fifteen minutes.",
  "The capital of Portugal is Lisbon.",
];
const BEST = 2;
/** Tokens of the three pairs, according to the model's goldens: 16, 25 and 16. */
const NUM_TOKENS = 57;
const PATHS = ["/rerank", "/v1/rerank", "/v2/rerank"];

const app = shareApp({ model: MODEL });

async function rerank<T = RerankList>(
  app: TestApp,
  extra: Record<string, unknown> = {},
  path = "/v1/rerank",
): Promise<T> {
  const response = await app.post(path, { query: QUERY, documents: DOCUMENTS, ...extra });
  assert.equal(response.status, 200, await response.clone().text());
  return await response.json();
}

async function flatError(app: TestApp, body: unknown, path: string): Promise<string> {
  const response = await app.post(path, body);
  assert.equal(response.status, 400);
  const answer = await response.json();
  assert.deepEqual(Object.keys(answer), ["error"]);
  return answer.error;
}

Deno.test("rerank lists the documents with scores from 0 to 1, the most relevant first", async () => {
  for (const path of ["/rerank", "/v1/rerank"]) {
    const { object, model, results, usage } = await rerank(app, { model: "anything" }, path);
    assert.deepEqual({ object, model }, { object: "list", model: MODEL });
    assert.equal(results.length, DOCUMENTS.length);
    assert.equal(results[0]!.index, BEST);
    for (const { index, relevance_score, document } of results) {
      assert.equal(document, DOCUMENTS[index]);
      assert.ok(relevance_score >= 0 && relevance_score <= 1);
      assert.equal(relevance_score, Math.fround(relevance_score));
    }
    const scores = results.map(({ relevance_score }) => relevance_score);
    assert.deepEqual(scores, scores.toSorted((a, b) => b - a));
    assert.equal(usage.total_tokens, NUM_TOKENS);
  }
});

Deno.test("rerank returns the best top_n documents, or all of a shorter list", async () => {
  const { results } = await rerank(app, { top_n: 1 });
  assert.deepEqual(results.map(({ index }) => index), [BEST]);
  assert.equal((await rerank(app, { top_n: 50 })).results.length, DOCUMENTS.length);
});

Deno.test("rerank keeps the order of documents with equal scores", async () => {
  const documents = Array(40).fill(DOCUMENTS[BEST]);
  const { results } = await rerank(app, { documents });
  assert.deepEqual(results.map(({ index }) => index), [...documents.keys()]);
});

Deno.test("rerank omits documents on request, and returns only the text of documents with other fields", async () => {
  for (const { document } of (await rerank(app, { return_documents: false })).results) {
    assert.equal(document, undefined);
  }
  const documents = DOCUMENTS.map((text) => ({ text, title: "ignored" }));
  const { results } = await rerank(app, { documents, return_documents: true });
  for (const { index, document } of results) assert.deepEqual(document, { text: DOCUMENTS[index] });
});

Deno.test("rerank on /v2 answers in Cohere's format", async () => {
  const { id, results, meta } = await rerank<CohereRerankList>(app, {}, "/v2/rerank");
  assert.ok(id.length > 0);
  assert.equal(results[0]!.index, BEST);
  assert.ok(results.every(({ document }) => document === undefined));
  assert.deepEqual(meta, { api_version: { version: "2" }, tokens: { input_tokens: NUM_TOKENS } });
  const { results: [first] } = await rerank<CohereRerankList>(
    app,
    { return_documents: true },
    "/v2/rerank",
  );
  assert.deepEqual(first!.document, { text: DOCUMENTS[BEST] });
  assert.equal((await app.post("/v1/v2/rerank", {})).status, 400);
});

Deno.test("rerank of texts answers in text-embeddings-inference's format", async () => {
  const { results } = await rerank(app);
  const ask = async (extra: Record<string, unknown>, path = "/rerank") => {
    const response = await app.post(path, { query: QUERY, texts: DOCUMENTS, ...extra });
    return { status: response.status, answer: await response.json() };
  };
  const ranks = results.map(({ index, relevance_score: score }) => ({ index, score }));
  const plain = { raw_scores: false, truncate: true, truncation_direction: "Right" };
  for (const extra of [{}, plain, { model: "any", documents: null }]) {
    assert.deepEqual(await ask(extra, "/v1/rerank"), { status: 200, answer: ranks });
  }
  const { answer: spelled } = await ask({ return_text: true, top_n: 1 });
  assert.deepEqual(spelled, [{ ...ranks[0], text: DOCUMENTS[BEST] }]);
  // Clients for several servers send both fields; `documents` has precedence.
  assert.deepEqual((await rerank(app, { texts: ["shorter"] })).results, results);
  const { results: raw } = await rerank(app, { raw_scores: true });
  const { answer: logits } = await ask({ raw_scores: true });
  assert.equal(logits[0].score, raw[0]!.relevance_score);
  const bad = [
    [{ texts: [5] }, "texts[0]: want a string, saw 5."],
    [{ texts: [] }, "texts: want an array of 1 to 16384 items, saw an array of 0."],
    [{ texts: "a" }, 'texts: want an array of 1 to 16384 items, saw "a".'],
  ] as const;
  for (const [extra, error] of bad) {
    assert.deepEqual(await ask(extra), { status: 400, answer: { error } });
  }
});

Deno.test("rerank and score support the fields of other APIs, and refuse unsupported fields by name", async () => {
  const order = ({ results }: RerankList) => results.map(({ index }) => index);
  assert.deepEqual(order(await rerank(app, { top_k: 1 })), [BEST]);
  const { results: bare } = await rerank(app, { return_text: false });
  assert.ok(bare.every(({ document }) => document === undefined));
  const { results: scored } = await rerank(app);
  const { results: raw } = await rerank(app, { raw_scores: true });
  for (const [at, { index, relevance_score }] of raw.entries()) {
    const sigmoid = 1 / (1 + Math.exp(-relevance_score));
    assert.equal(index, scored[at]!.index);
    assert.ok(Math.abs(sigmoid - scored[at]!.relevance_score) < 1e-6);
  }
  const pairs = { text_1: QUERY, text_2: DOCUMENTS };
  const { data } = await (await app.post("/score", { ...pairs, use_activation: false })).json();
  assert.ok(Math.abs(data[BEST].score - raw[0]!.relevance_score) < 1e-5);
  const long = [`${DOCUMENTS[BEST]} ${"egg ".repeat(600)}`];
  for (const cut of [{ truncate: "END" }, { truncation: true, truncation_direction: "Left" }]) {
    await rerank(app, { documents: long, ...cut });
  }
  const readScore = async (extra: Record<string, unknown>) =>
    (await rerank(app, { truncate: true, raw_scores: true, ...extra })).results[0]!.relevance_score;
  const eggs = await readScore({ documents: ["egg ".repeat(600)] });
  assert.equal(await readScore({ documents: long, truncation_direction: "Left" }), eggs);
  assert.equal(await readScore({ documents: long, truncate: "START" }), eggs);
  assert.notEqual(await readScore({ documents: long }), eggs);
  const refusals: readonly (readonly [Record<string, unknown>, RegExp])[] = [
    [{ rank_fields: ["title"] }, /^rank_fields is not supported; use documents as strings\./],
    [{ return_embeddings: true }, /^return_embeddings is not supported; use \/embeddings/],
    [{ modality: "image" }, /^modality is not supported; use text\./],
    [{ normalize: false }, /^normalize is not supported; use raw_scores\./],
    [{ rewrite_query: true }, /^rewrite_query is not supported/],
    [{ score_threshold: 0.5 }, /^score_threshold is not supported; use top_n/],
    [{ instruct: "judge by tone" }, /^instruct is not supported; use instruction\./],
    [{ truncation_direction: "up" }, /^truncation_direction: want right or left, saw "up"/],
    [{ instruction: "judge by tone" }, /^instruction: the loaded model takes no instruction/],
    [{ truncate: "MIDDLE" }, /^truncate: want true or false, or END, START or NONE, saw "MIDDLE"/],
    [{ raw_scores: "yes" }, /^raw_scores: want true or false/],
  ];
  for (const [extra, message] of refusals) {
    const body = { query: QUERY, documents: DOCUMENTS, ...extra };
    assert.match(await flatError(app, body, "/v1/rerank"), message);
  }
  const unasked = {
    modality: "text",
    truncation_direction: "Right",
    return_embeddings: false,
    normalize: true,
    rank_fields: null,
    max_chunks_per_doc: 10,
  };
  const response = await app.post("/rerank", { query: QUERY, documents: DOCUMENTS, ...unasked });
  assert.equal(response.status, 200);
  assert.match(response.headers.get("warning") ?? "", /max_chunks_per_doc is ignored/);
  const refused = await app.post("/score", { ...pairs, items: ["a"] });
  assert.equal(refused.status, 400);
  assert.equal((await refused.json()).error.message, "items is not supported; use text_2.");
});

Deno.test("rerank truncates long documents on request, and refuses them otherwise", async () => {
  const documents = ["short", `${DOCUMENTS[BEST]} ${"egg ".repeat(600)}`];
  const response = await app.post("/v1/rerank", { query: QUERY, documents });
  assert.equal(response.status, 400);
  assert.match(
    (await response.json()).error,
    /^query and documents\[1\] together have 616 tokens, and the model takes at most 512/,
  );
  await rerank(app, { documents, truncate: true });
  const { results } = await rerank(app, { documents, max_tokens_per_doc: 7 });
  assert.equal(results[0]!.index, 1);
});

Deno.test("rerank reports faults of a request in the flat error format, on every path", async () => {
  const documents = DOCUMENTS;
  const cases: readonly (readonly [unknown, RegExp])[] = [
    [{ documents }, /^query: want a string that is not empty, saw nothing\.$/],
    [{ query: "", documents }, /^query: want a string that is not empty, saw ""\.$/],
    [{ query: 5, documents }, /^query: want a string/],
    [{ query: QUERY }, /^documents: want an array .*, saw nothing\.$/],
    [{ query: QUERY, documents: [] }, /^documents: want an array .*, saw an array of 0\.$/],
    [{ query: QUERY, documents: "text" }, /^documents: want an array/],
    [{ query: QUERY, documents: [5] }, /^documents\[0\]: want a string, or an object with a text/],
    [{ query: QUERY, documents: ["a", {}] }, /^documents\[1\]/],
    [{ query: QUERY, documents, top_n: 0 }, /^top_n: want a whole number from 1 up, saw 0\.$/],
    [{ query: QUERY, documents, top_n: 1.5 }, /^top_n: want a whole number/],
    [{ query: QUERY, documents, return_documents: 1 }, /^return_documents: want true or false/],
    [[], /^The request body: want a JSON object/],
    ["{", /^The request body is not JSON/],
  ];
  for (const path of PATHS) {
    for (const [body, message] of cases) assert.match(await flatError(app, body, path), message);
  }
});

Deno.test("2,000 generated bad requests to rerank are each refused, none with a 5xx", async () => {
  const random = new Random(62);
  for (let round = 0; round < 2_000; round++) {
    const body = badBody(random);
    const response = await app.post(random.pick(PATHS), body);
    const text = await response.text();
    const shown = `${JSON.stringify(body).slice(0, 200)} gave ${response.status} ${text}`;
    assert.equal(response.status, 400, shown);
    assert.equal(typeof JSON.parse(text).error, "string", shown);
    assert.ok(text.length < 500, shown);
  }
  await rerank(app);
  assert.equal(app.session.numLosses, 0);
});

const STRANGE = [true, -1, 1.5, 1e300, 0, "", {}, [], [[]], [{}], [null], [5]];

/** A body with one fault. */
function badBody(random: Random): unknown {
  const bad: Record<string, readonly unknown[]> = {
    query: [...STRANGE, null],
    documents: [
      ...STRANGE,
      null,
      "text",
      ["a", random.pick([null, 5, [], {}, { text: 5 }, true])],
      [{ text: "a" }, { text: random.pick([null, 5, [], {}]) }],
      Array(20_000).fill("a"),
      ["egg ".repeat(random.between(510, 2000))],
    ],
    top_n: ["0", ...STRANGE],
    return_documents: [...STRANGE.filter((value) => value !== true), "yes"],
    max_tokens_per_doc: ["0.5", ...STRANGE],
    truncate: [...STRANGE.filter((value) => value !== true), "yes"],
    truncate_prompt_tokens: [...STRANGE.filter((value) => value !== -1), -2, 1, 2, 3],
  };
  if (random.chance(0.1)) return random.pick([[], 5, null, "text", [{ query: "a" }]]);
  const name = random.pick(Object.keys(bad));
  // On /v2/rerank, texts that are too long are truncated by default.
  return { query: QUERY, documents: DOCUMENTS, truncate: false, [name]: random.pick(bad[name]!) };
}
