/**
 * The official OpenAI client's embeddings against a real server on a real port.
 */
import assert from "node:assert/strict";
import OpenAI, { BadRequestError } from "openai";
import { findModelFolder } from "../../fixtures/engine/goldens.ts";
import { cosine } from "../../fixtures/engine/model.ts";
import { readRetrievalSet } from "../../fixtures/text/retrieval.ts";
import { TestServer } from "../../fixtures/servers/server.ts";
import { Random } from "../../unit/engine/random.ts";

const MODEL = "hearth-demo-embed";

interface Opened extends AsyncDisposable {
  readonly server: TestServer;
  readonly client: OpenAI;
}

async function open(maxQueue = 64): Promise<Opened> {
  const server = await TestServer.start({ model: MODEL, maxQueue });
  const client = new OpenAI({ baseURL: `${server.base}/v1`, apiKey: "any", maxRetries: 0 });
  return { server, client, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

const { sentences } = JSON.parse(
  Deno.readTextFileSync(`${findModelFolder(MODEL)}/golden.json`),
) as { sentences: { text: string; num_tokens: number; embedding: number[] }[] };

Deno.test("openai: embeddings, with and without encoding_format, equal the golden vectors", async () => {
  await using opened = await open();
  const input = sentences.map(({ text }) => text);
  for (const encoding_format of [undefined, "float", "base64"] as const) {
    const { data, usage, model, object } = await opened.client.embeddings.create({
      model: MODEL,
      input,
      ...(encoding_format && { encoding_format }),
    });
    assert.equal(object, "list");
    assert.equal(model, MODEL);
    assert.equal(usage.prompt_tokens, sentences.reduce((sum, each) => sum + each.num_tokens, 0));
    data.forEach(({ index, embedding }, position) => {
      assert.equal(index, position);
      // The client decodes base64 only if the caller did not ask for it.
      const vector = encoding_format === "base64"
        ? new Float32Array(Uint8Array.fromBase64(embedding as unknown as string).buffer)
        : embedding;
      assert.ok(cosine(vector, sentences[position]!.embedding) > 0.9999);
    });
  }
});

Deno.test("openai: a string and its token ids have the same embedding", async () => {
  await using opened = await open();
  const { client } = opened;
  const text = await client.embeddings.create({ model: MODEL, input: "How do I boil an egg?" });
  const ids = [1195, 417, 23, 1779, 303, 876, 61];
  const tokens = await client.embeddings.create({ model: MODEL, input: ids });
  assert.deepEqual(tokens.data, text.data);
});

Deno.test("openai: an empty or too long input, or unsupported dimensions, is a BadRequestError", async () => {
  await using opened = await open();
  const { client } = opened;
  const requests = [
    { input: [] },
    { input: "" },
    { input: "egg ".repeat(600) },
    { input: "egg", dimensions: 64 },
  ];
  for (const request of requests) {
    const error = await client.embeddings.create({ model: MODEL, ...request }).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    assert.ok(error instanceof BadRequestError);
    assert.match(error.message, /^400 .*(input|dimensions)/);
  }
});

Deno.test({
  name:
    "openai: 64 simultaneous clients get the same embeddings as alone, even if others disconnect",
  fn: async () => {
    await using opened = await open();
    const { server, client } = opened;
    const words = readRetrievalSet().passages.flatMap(({ text }) => text.split(" "));
    const random = new Random(64);
    const texts = Array.from({ length: 64 }, () => {
      const start = random.between(0, 5_000);
      return words.slice(start, start + random.between(1, random.chance(0.8) ? 20 : 300)).join(" ");
    });
    const alone: number[][] = [];
    for (const text of texts) {
      alone.push(
        (await client.embeddings.create({ model: MODEL, input: text })).data[0]!.embedding,
      );
    }
    await Promise.all(texts.map(async (text, index) => {
      for (let round = 0; round < 5; round++) {
        const hangsUp = random.chance(0.2);
        const signal = AbortSignal.timeout(hangsUp ? random.between(1, 50) : 60_000);
        const request = { model: MODEL, input: hangsUp ? Array(200).fill(text) : text };
        try {
          const { data } = await client.embeddings.create(request, { signal });
          const error = data[0]!.embedding.reduce((most, value, element) => {
            return Math.max(most, Math.abs(value - alone[index]![element]!));
          }, 0);
          assert.ok(error < 1e-4, `${error}`);
        } catch (error) {
          if (!hangsUp) throw error;
        }
      }
    }));
    while (await server.figure("hearth_requests_in_flight") > 0);
    assert.equal(await server.figure("hearth_texts_waiting"), 0);
    assert.equal(await server.figure("hearth_worker_losses_total"), 0);
    assert.ok(await server.figure("hearth_batch_texts_count") > 0);
  },
});
