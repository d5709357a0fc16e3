/**
 * LangChain's OpenAI embeddings against a real server on a real port.
 */
import assert from "node:assert/strict";
import { OpenAIEmbeddings } from "@langchain/openai";
import { findModelFolder } from "../../fixtures/engine/goldens.ts";
import { cosine } from "../../fixtures/engine/model.ts";
import { TestServer } from "../../fixtures/servers/server.ts";

const MODEL = "hearth-demo-embed";

const { sentences } = JSON.parse(
  Deno.readTextFileSync(`${findModelFolder(MODEL)}/golden.json`),
) as { sentences: { text: string; embedding: number[] }[] };

Deno.test("@langchain/openai: embedDocuments() in several batches and embedQuery() return the golden vectors", async () => {
  await using server = await TestServer.start({ model: MODEL });
  const embeddings = new OpenAIEmbeddings({
    model: MODEL,
    apiKey: "any",
    batchSize: 5,
    configuration: { baseURL: `${server.base}/v1` },
  });
  const vectors = await embeddings.embedDocuments(sentences.map(({ text }) => text));
  assert.equal(vectors.length, sentences.length);
  vectors.forEach((vector, index) => {
    // LangChain replaces line breaks by spaces, which changes nothing here.
    assert.ok(cosine(vector, sentences[index]!.embedding) > 0.9999);
  });
  const query = await embeddings.embedQuery(sentences[0]!.text);
  assert.ok(cosine(query, sentences[0]!.embedding) > 0.9999);
});
