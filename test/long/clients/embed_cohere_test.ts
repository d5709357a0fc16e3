/**
 * Cohere's client and its embeddings, against a real server on a real port.
 */
import assert from "node:assert/strict";
import { CohereClient, CohereClientV2, CohereError } from "cohere-ai";
import { TestServer } from "../../fixtures/servers/server.ts";

const MODEL = "hearth-demo-embed";
const TEXTS = ["a green apple", "a red pear"];

Deno.test("cohere-ai: embed of version 2 returns vectors in every requested type", async () => {
  await using server = await TestServer.start({ model: MODEL });
  const client = new CohereClientV2({ token: "any", environment: server.base });
  const { embeddings } = await client.embed({
    model: MODEL,
    texts: TEXTS,
    inputType: "search_document",
    embeddingTypes: ["float", "int8", "uint8", "binary", "ubinary"],
  });
  const { float, int8, uint8, binary, ubinary } = embeddings;
  assert.equal(float!.length, 2);
  const width = float![0]!.length;
  float!.forEach((row, at) => {
    assert.ok(Math.abs(Math.hypot(...row) - 1) < 1e-4);
    assert.deepEqual(
      int8![at],
      row.map((value) => Math.max(-128, Math.min(127, Math.round(value * 127) + 0))),
    );
    assert.deepEqual(uint8![at], int8![at]!.map((value) => value + 128));
    assert.equal(ubinary![at]!.length, width / 8);
    assert.deepEqual(binary![at], ubinary![at]!.map((value) => value - 128));
    const first = ubinary![at]![0]!.toString(2).padStart(8, "0");
    assert.equal(first, row.slice(0, 8).map((value) => Number(value > 0)).join(""));
  });
});

Deno.test("cohere-ai: embed of version 1 returns a list, or vectors by type, as version 2 does", async () => {
  await using server = await TestServer.start({ model: MODEL });
  const settings = { token: "any", environment: server.base };
  const request = { model: MODEL, texts: TEXTS, inputType: "search_document" as const };
  const types = ["float", "int8"] as const;
  const { embeddings: expected } = await new CohereClientV2(settings)
    .embed({ ...request, embeddingTypes: [...types] });
  const client = new CohereClient(settings);
  const list = await client.embed(request);
  assert.equal(list.responseType, "embeddings_floats");
  assert.deepEqual([list.embeddings, list.texts], [expected.float, TEXTS]);
  const byType = await client.embed({ ...request, embeddingTypes: [...types] });
  assert.equal(byType.responseType, "embeddings_by_type");
  assert.deepEqual(byType.embeddings, expected);
});

Deno.test("cohere-ai: embed truncates texts to maxTokens", async () => {
  await using server = await TestServer.start({ model: MODEL });
  const client = new CohereClientV2({ token: "any", environment: server.base });
  const embed = async (texts: string[], maxTokens?: number) => {
    const { embeddings, meta } = await client.embed({
      ...{ model: MODEL, texts, inputType: "classification", embeddingTypes: ["float"] },
      ...(maxTokens !== undefined && { maxTokens }),
    });
    return { rows: embeddings.float!, numTokens: meta!.billedUnits!.inputTokens! };
  };
  const whole = await embed(["a green"]);
  const cut = await embed(["a green apple", "a green car in the rain"], whole.numTokens);
  assert.equal(cut.numTokens, 2 * whole.numTokens);
  for (const row of cut.rows) {
    row.forEach((value, i) => assert.ok(Math.abs(value - whole.rows[0]![i]!) < 1e-4));
  }
});

Deno.test("cohere-ai: invalid input is an error with a reason", async () => {
  await using server = await TestServer.start({ model: MODEL });
  const client = new CohereClientV2({ token: "any", environment: server.base });
  const request = {
    model: MODEL,
    inputType: "search_query" as const,
    embeddingTypes: ["float" as const],
  };
  const isBad = (wanted: RegExp) => (error: unknown) =>
    error instanceof CohereError && error.statusCode === 400 &&
    wanted.test(JSON.stringify(error.body));
  const options = { maxRetries: 0 };
  await assert.rejects(client.embed({ ...request, texts: [] }, options), isBad(/texts/));
  await assert.rejects(
    client.embed({ ...request, texts: TEXTS, maxTokens: 2 }, options),
    isBad(/max_tokens: want more/),
  );
  const long = "word ".repeat(5000);
  const cut = await client.embed({ ...request, texts: [long] }, options);
  assert.equal(cut.embeddings.float!.length, 1);
  await assert.rejects(
    client.embed({ ...request, texts: [long], truncate: "NONE" }, options),
    isBad(/context length|tokens/),
  );
});
