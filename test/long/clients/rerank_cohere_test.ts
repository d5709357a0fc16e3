/**
 * Cohere's client, both versions of its API, against a real server on a real port.
 */
import assert from "node:assert/strict";
import { CohereClient, CohereClientV2, CohereError } from "cohere-ai";
import { TestServer } from "../../fixtures/servers/server.ts";

const MODEL = "hearth-demo-rerank";
const QUERY = "what is the capital of Portugal";
const DOCUMENTS = [
  "The capital of Spain is Madrid.",
  "Put the egg into boiling water.",
  "The capital of Portugal is Lisbon.",
];

Deno.test("cohere-ai: rerank of version 1 accepts documents as strings and as objects", async () => {
  await using server = await TestServer.start({ model: MODEL });
  const client = new CohereClient({ token: "any", environment: server.base });
  for (const documents of [DOCUMENTS, DOCUMENTS.map((text) => ({ text }))]) {
    const { results } = await client.rerank({
      model: MODEL,
      query: QUERY,
      documents,
      topN: 2,
      returnDocuments: true,
    });
    assert.equal(results.length, 2);
    const [first] = results;
    assert.equal(first!.index, 2);
    assert.ok(first!.relevanceScore > 0.9);
    assert.deepEqual(first!.document, documents[2]);
  }
});

Deno.test("cohere-ai: rerank of version 2 returns the best document first", async () => {
  await using server = await TestServer.start({ model: MODEL });
  const client = new CohereClientV2({ token: "any", environment: server.base });
  const { id, results, meta } = await client.rerank({
    model: MODEL,
    query: QUERY,
    documents: DOCUMENTS,
    topN: 1,
    maxTokensPerDoc: 100,
  });
  assert.ok(id);
  assert.equal(meta?.apiVersion?.version, "2");
  assert.equal(results.length, 1);
  assert.equal(results[0]!.index, 2);
});

Deno.test("cohere-ai: version 2 truncates documents that are too long", async () => {
  await using server = await TestServer.start({ model: MODEL });
  const client = new CohereClientV2({ token: "any", environment: server.base });
  const readScores = async (documents: string[], maxTokensPerDoc?: number) => {
    const { results } = await client.rerank({
      ...{ model: MODEL, query: QUERY, documents },
      ...(maxTokensPerDoc !== undefined && { maxTokensPerDoc }),
    });
    return results.toSorted((a, b) => a.index - b.index)
      .map(({ relevanceScore }) => relevanceScore);
  };
  const long = `${DOCUMENTS[2]} ${"egg ".repeat(6000)}`;
  const [first, second] = await readScores([long, `${long} ${long}`]);
  assert.equal(first, second);
  // Truncated to four tokens, both documents are the same.
  assert.deepEqual(await readScores([long], 4), await readScores([DOCUMENTS[2]!], 4));
});

Deno.test("cohere-ai: an empty query, and in version 1 a document that is too long, is a CohereError", async () => {
  await using server = await TestServer.start({ model: MODEL });
  const options = { token: "any", environment: server.base };
  const [older, newer] = [new CohereClient(options), new CohereClientV2(options)];
  const long = { model: MODEL, query: QUERY, documents: ["egg ".repeat(600)] };
  const answers = [
    newer.rerank({ model: MODEL, query: "", documents: DOCUMENTS }, { maxRetries: 0 }),
    older.rerank(long, { maxRetries: 0 }),
  ];
  for (const answer of answers) {
    const error = await answer.then(() => undefined, (reason: unknown) => reason);
    assert.ok(error instanceof CohereError);
    assert.equal(error.statusCode, 400);
    assert.match(error.message, /query/);
  }
});
