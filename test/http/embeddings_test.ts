import assert from "node:assert/strict";
import type { EmbeddingList } from "../../src/wire/embeddings.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { cosine } from "../fixtures/engine/model.ts";
import { fragileSpawner } from "../fixtures/threads/fragile.ts";
import { shareApp, TestApp } from "../fixtures/servers/server.ts";
import { Random } from "../unit/engine/random.ts";

const MODEL = "hearth-demo-embed";
const EMBEDDINGS = "/v1/embeddings";
const DIMENSIONS = 128;

const { sentences: golden } = JSON.parse(
  Deno.readTextFileSync(`${findModelFolder(MODEL)}/golden.json`),
) as { sentences: { text: string; embedding: number[] }[] };

const app = shareApp({ model: MODEL });

function open(options: ConstructorParameters<typeof TestApp>[0] = {}): Promise<TestApp> {
  return new TestApp({ model: MODEL, ...options }).ready();
}

async function embed(app: TestApp, body: unknown, path = EMBEDDINGS): Promise<EmbeddingList> {
  const response = await app.post(path, body);
  assert.equal(response.status, 200, await response.clone().text());
  assert.equal(response.headers.get("content-type"), "application/json");
  return await response.json();
}

/** The message of an error in the flat format. */
async function flatError(app: TestApp, body: unknown, path = EMBEDDINGS): Promise<string> {
  const response = await app.post(path, body);
  assert.equal(response.status, 400);
  assert.equal(response.headers.get("content-type"), "application/json");
  const answer = await response.json();
  assert.deepEqual(Object.keys(answer), ["error"]);
  return answer.error;
}

function decode(base64: unknown): number[] {
  return [...new Float32Array(Uint8Array.fromBase64(base64 as string).buffer)];
}

Deno.test("embeddings answers with a list of normalized vectors and the usage, on both paths", async () => {
  for (const path of ["/embeddings", EMBEDDINGS]) {
    const { id, data, ...rest } = await embed(app, { input: ["an egg", "a dog"] }, path);
    assert.match(id, /^[\w-]{36}$/);
    assert.deepEqual(rest, {
      object: "list",
      model: MODEL,
      usage: { prompt_tokens: 8, total_tokens: 8 },
    });
    assert.deepEqual(data.map(({ object, index }) => ({ object, index })), [
      { object: "embedding", index: 0 },
      { object: "embedding", index: 1 },
    ]);
    for (const { embedding } of data) {
      assert.equal(embedding.length, DIMENSIONS);
      assert.ok(Math.abs(Math.hypot(...embedding as number[]) - 1) < 1e-5);
    }
  }
});

Deno.test("embeddings accepts a string, token ids, and any model name or none", async () => {
  const [expected] = (await embed(app, { input: ["How do I boil an egg?"] })).data;
  const ids = [2, 1195, 417, 23, 1779, 303, 876, 61, 3];
  const inputs = ["How do I boil an egg?", ids, [ids]];
  for (const input of inputs) {
    for (const model of [undefined, "text-embedding-3-small", null, 5]) {
      const { data } = await embed(app, { model, input, user: "somebody" });
      assert.deepEqual(data, [expected]);
    }
  }
});

Deno.test("embeddings in base64 are the same numbers as little-endian float32", async () => {
  const input = ["an egg", "a dog", "the capital of Portugal"];
  const floats = await embed(app, { input });
  const encoded = await embed(app, { input, encoding_format: "base64" });
  for (const { index, embedding } of encoded.data) {
    assert.deepEqual(decode(embedding), floats.data[index]!.embedding);
  }
});

Deno.test("embeddings supports the fields of other APIs", async () => {
  const input = ["an egg", "a dog"];
  const plain = (await embed(app, { input })).data;
  const isSame = async (body: Record<string, unknown>) =>
    assert.deepEqual((await embed(app, { input, ...body })).data, plain, JSON.stringify(body));
  await isSame({ input: input.map((text) => ({ text })) });
  await isSame({ normalized: true, truncation: true, output_dimension: DIMENSIONS });
  await isSame({ embedding_type: "float", output_dtype: "float", task: "retrieval.passage" });
  await isSame({ prompt_name: "query", add_special_tokens: true, modality: "text" });
  await isSame({ input_type: "passage", truncate: "NONE", truncation_side: "right" });
  await isSame({ embedding_types: ["float"], output_type: "dense", return_sparse: false });
  await isSame({ late_chunking: false, embed_dtype: "float32", endianness: "native", user: "me" });
  for (const off of [{ normalize: false }, { normalized: false }, { embd_normalize: -1 }]) {
    const { data } = await embed(app, { input, ...off });
    for (const { index, embedding } of data) {
      const vector = embedding as number[];
      const length = Math.hypot(...vector);
      assert.ok(Math.abs(length - 1) > 0.01, `${length}`);
      vector.forEach((element, at) => {
        const normal = (plain[index]!.embedding as number[])[at]!;
        assert.ok(Math.abs(element / length - normal) < 1e-5);
      });
    }
  }
  const floats = plain[0]!.embedding as number[];
  const { data: [bits] } = await embed(app, { input, embedding_type: "ubinary" });
  assert.equal(bits!.embedding.length, DIMENSIONS / 8);
  assert.equal((bits!.embedding as number[])[0]! >> 7, Number(floats[0]! > 0));
  // Clients send `encoding_format` by default.
  const typed = { input, output_dtype: "int8", encoding_format: "base64" };
  const { data: [bytes] } = await embed(app, typed);
  assert.equal((bytes!.embedding as number[])[5], Math.round(floats[5]! * 127));
  const { data: [encoded] } = await embed(app, { input, embedding_type: "base64" });
  assert.deepEqual(decode(encoded!.embedding), floats);
});

Deno.test("embed answers the clients of text-embeddings-inference in its format", async () => {
  const inputs = Array.from({ length: 300 }, (_, i) => `egg ${i}`);
  const embedded = await embed(app, { input: inputs, truncate: true });
  const vectors = embedded.data.map(({ embedding }) => embedding);
  const ask = async (body: Record<string, unknown>, path = "/embed") => {
    const response = await app.post(path, body);
    assert.equal(response.headers.get("content-type"), "application/json");
    return { status: response.status, answer: await response.json() };
  };
  const recorded = [
    // LlamaIndex's TextEmbeddingsInference
    { inputs, truncate: true },
    { inputs, texts: null },
    // huggingface_hub's feature_extraction, which LangChain and Haystack call
    { inputs, normalize: true, truncate: false, truncation_direction: "Right" },
    // The example of text-embeddings-inference
    { inputs, prompt_name: null, dimensions: null, truncation_direction: "right", model: "any" },
  ];
  for (const body of recorded) {
    assert.deepEqual(await ask(body, "/v1/embed"), { status: 200, answer: vectors });
  }
  for (const { text, embedding } of golden) {
    const { answer: [vector, ...more] } = await ask({ inputs: text });
    assert.ok(cosine(vector, embedding) > 0.9999 && more.length === 0);
  }
  const { data: [plain] } = await embed(app, { input: "egg", normalize: false });
  const { data: [asked] } = await embed(app, { input: "egg", input_type: "query" });
  assert.deepEqual((await ask({ inputs: "egg", normalize: false })).answer, [plain!.embedding]);
  assert.deepEqual((await ask({ inputs: ["egg"], prompt_name: "query" })).answer, [
    asked!.embedding,
  ]);
  const long = "egg ".repeat(600);
  assert.equal((await ask({ inputs: long, truncate: true })).status, 200);
});

Deno.test("embed answers clients of Cohere's API v1, whose texts are in the field texts", async () => {
  const texts = ["a green apple", "a red pear"];
  const { data } = await embed(app, { input: texts });
  const ask = async (body: Record<string, unknown>) => {
    const response = await app.post("/v1/embed", { texts, ...body });
    assert.equal(response.status, 200, await response.clone().text());
    const { id, meta, ...rest } = await response.json();
    assert.equal(id, response.headers.get("x-request-id"));
    assert.equal(meta.api_version.version, "1");
    return rest;
  };
  const vectors = data.map(({ embedding }) => embedding);
  const list = { response_type: "embeddings_floats", embeddings: vectors, texts };
  assert.deepEqual(await ask({}), list);
  assert.deepEqual(await ask({ embedding_types: [] }), list);
  assert.deepEqual(
    await ask({ embedding_types: ["float"], truncate: "END", input_type: "clustering" }),
    { response_type: "embeddings_by_type", embeddings: { float: vectors }, texts },
  );
  const refused = await app.post("/v1/embed", { texts: ["a", ""] });
  assert.equal(refused.status, 400);
  assert.match((await refused.json()).error, /^texts\[1\]: want /);
  const { error } = await (await app.post("/", { texts })).json();
  assert.match(error, /^inputs: want /);
});

Deno.test("POST / answers like /embed, for LangChain's client, which posts to the address it is given", async () => {
  const body = { inputs: ["a green apple", "a red pear"] };
  const [root, embedded] = await Promise.all(["/", "/embed"].map((path) => app.post(path, body)));
  assert.equal(root!.status, 200);
  assert.deepEqual(await root!.json(), await embedded!.json());
  const bad = await app.post("/", {});
  assert.deepEqual([bad.status, (await bad.json()).error_type], [400, "Validation"]);
  assert.match((await app.request("/")).headers.get("content-type")!, /^text\/html/);
});

Deno.test("POST / answers 405 without an embedding model, and requires the API key", async () => {
  await using chat = await new TestApp({ model: "hearth-demo-chat" }).ready();
  const response = await chat.post("/", { inputs: "a" });
  assert.equal(response.status, 405);
  assert.equal(response.headers.get("allow"), "GET, HEAD, OPTIONS");
  const { error } = await response.json();
  assert.equal(error.code, "method_not_allowed");
  assert.match(error.message, /only if an embedding model is loaded/);
  const settings = { apiKeys: [{ label: "test", key: "secret" }] };
  await using closed = await new TestApp({ model: MODEL, settings }).ready();
  assert.equal((await closed.post("/", { inputs: "a" })).status, 401);
  assert.equal((await closed.request("/")).status, 200);
  const headers = { "content-type": "application/json", authorization: "Bearer secret" };
  const asked = { method: "POST", headers, body: JSON.stringify({ inputs: "a" }) };
  assert.equal((await closed.request("/", asked)).status, 200);
});

Deno.test("embed reports errors in text-embeddings-inference's format", async () => {
  const cases: readonly (readonly [unknown, RegExp])[] = [
    [{ input: "a" }, /^inputs: want a string, .*, saw nothing\.$/],
    [{ inputs: [] }, /^inputs: .* saw an array of 0\.$/],
    [{ inputs: ["a", "egg ".repeat(600)] }, /^inputs\[1\] has 602 tokens, and .* at most 512/],
    [{ inputs: [[5], [2800]] }, /^inputs\[1\]\[0\]: want a token id from 0 to 2799, saw 2800/],
    [
      { inputs: "a", truncation_direction: "up" },
      /^truncation_direction: want right or left, saw "up"/,
    ],
    [{ inputs: "a", dimensions: 64 }, /^dimensions: want 128, .* cannot be shortened, saw 64/],
    [{ inputs: "a", prompt_name: "other" }, /^prompt_name: want one of the model's prompts/],
    ["{", /^The request body is not JSON/],
  ];
  for (const path of ["/embed", "/v1/embed"]) {
    for (const [body, message] of cases) {
      const response = await app.post(path, body);
      const { error, ...rest } = await response.json();
      assert.deepEqual([response.status, rest], [400, { error_type: "Validation" }], error);
      assert.match(error, message);
    }
  }
  await using loading = new TestApp({ model: MODEL });
  const response = await loading.post("/embed", { inputs: "a" });
  assert.equal(response.status, 503);
  assert.equal((await response.json()).error_type, "Unhealthy");
});

Deno.test("embeddings refuses unsupported fields by name", async () => {
  const cases: readonly (readonly [Record<string, unknown>, RegExp])[] = [
    [{ modality: "image" }, /^modality is not supported; use text\.$/],
    [{ modality: ["image"] }, /^modality is not supported/],
    [{ input: [{ image: "https://example.org/a.png" }] }, /^input/],
    [
      { late_chunking: true },
      /^late_chunking is not supported; use a separate input for each text/,
    ],
    [{ return_multivector: true }, /^return_multivector is not supported/],
    [{ instruction: "find" }, /^instruction is not supported; use prompt_name/],
    [{ embed_dtype: "float16" }, /^embed_dtype is not supported; use float32/],
    [{ truncation_direction: "middle" }, /^truncation_direction: want right or left, saw "middle"/],
    [{ messages: [{ role: "user", content: "a" }] }, /^messages is not supported/],
    [{ task_type: "RETRIEVAL_QUERY" }, /^task_type is not supported; use input_type/],
    [{ dimensionality: 64 }, /^dimensionality is not supported; use dimensions/],
    [{ embedding_types: ["int8"] }, /^embedding_types is not supported; use embedding_type/],
    [{ output_type: "dense&sparse" }, /^output_type is not supported; use dense vectors/],
    [{ return_sparse: true }, /^return_sparse is not supported/],
    [{ image_url: "https://example.org/a.png" }, /^image_url is not supported; use texts/],
    [{ truncate: "MIDDLE" }, /^truncate: want true or false, or END, START or NONE, saw "MIDDLE"/],
    [{ embedding_type: "float16" }, /^embedding_type: want one of float, base64/],
    [{ embd_normalize: 0 }, /^embd_normalize: want -1 \(no\) or 2/],
    [{ add_special_tokens: false }, /^add_special_tokens: want true/],
    [{ output_dimension: 64 }, /^output_dimension: want 128, .* cannot be shortened/],
    [
      { prompt_name: "s2s_query" },
      /^prompt_name: want one of the model's prompts, document, query; saw "s2s_query"/,
    ],
    [{ task: "text-matching" }, /^task: want one of the model's prompts/],
  ];
  for (const [extra, message] of cases) {
    assert.match(await flatError(app, { input: "a", ...extra }), message);
  }
});

Deno.test("embeddings truncates long texts on request, and refuses them otherwise", async () => {
  const input = "egg ".repeat(600);
  assert.match(await flatError(app, { input }), /input has 602 tokens, and .* at most 512/);
  assert.match(
    await flatError(app, { input: ["a", input], truncate: false }),
    /input\[1\] has 602/,
  );
  const readTokens = async (options: Record<string, unknown>) =>
    (await embed(app, { input, ...options })).usage.total_tokens;
  assert.equal(await readTokens({ truncate: true }), 512);
  assert.equal(await readTokens({ truncate_prompt_tokens: -1 }), 512);
  assert.equal(await readTokens({ truncate_prompt_tokens: 100 }), 100);
  const readVector = async (options: Record<string, unknown>) =>
    (await embed(app, options)).data[0]!.embedding;
  const end = await readVector({ input: `${"egg ".repeat(508)}pear` });
  const long = `pear ${"egg ".repeat(20_000)}pear`;
  for (const text of [`pear ${"egg ".repeat(600)}pear`, long]) {
    const cut = { input: text, truncate: true };
    assert.deepEqual(await readVector({ ...cut, truncation_direction: "left" }), end);
    assert.deepEqual(await readVector({ ...cut, truncation_side: "left" }), end);
    assert.deepEqual(await readVector({ input: text, truncate: "START" }), end);
    const cohere = await app.post("/v2/embed", { texts: [text], truncate: "START" });
    assert.deepEqual((await cohere.json()).embeddings.float, [end]);
    assert.notDeepEqual(await readVector({ ...cut, truncation_direction: "Right" }), end);
    const asked = { inputs: text, truncate: true, truncation_direction: "Left" };
    assert.deepEqual(await (await app.post("/embed", asked)).json(), [end]);
  }
});

Deno.test("embeddings reports faults of a request in the flat error format", async () => {
  const cases: readonly (readonly [unknown, RegExp])[] = [
    [{}, /^input: want a string, .*, saw nothing\.$/],
    [{ input: 5 }, /^input: want a string, .*, saw 5\.$/],
    [{ input: null }, /^input: .* saw null\.$/],
    [{ input: {} }, /^input: .* saw an object\.$/],
    [{ input: [] }, /^input: .* saw an array of 0\.$/],
    [{ input: "" }, /^input: want a string that is not empty, saw ""\.$/],
    [{ input: ["a", ""] }, /^input\[1\]: want a string that is not empty, saw ""\.$/],
    [{ input: [[]] }, /^input/],
    [{ input: [[1], [-1]] }, /^input/],
    [{ input: [1.5] }, /^input/],
    [
      { input: [2800] },
      /^input\[0\]: want a token id from 0 to 2799, saw 2800\..*check_embedding_ctx_length/,
    ],
    [{ input: "a", encoding_format: "int8" }, /^encoding_format: want float or base64/],
    [{ input: "a", dimensions: 0 }, /^dimensions: want a whole number from 1 up, saw 0\.$/],
    [{ input: "a", dimensions: 64 }, /^dimensions: want 128, .* cannot be shortened, saw 64\.$/],
    [{ input: "a", input_type: "other" }, /^input_type: want one of query, document/],
    [{ input: "a", truncate: "yes" }, /^truncate: want true or false/],
    [{ input: "a", truncate_prompt_tokens: 2 }, /^truncate_prompt_tokens: want more than the 2/],
    [
      { input: Array(16_385).fill("a") },
      /^input: want an array of 1 to 16384 items, saw an array of 16385\.$/,
    ],
    [
      { input: Array(16_385).fill([1]) },
      /^input: want an array of 1 to 16384 items, saw an array of 16385\.$/,
    ],
    [[], /^The request body: want a JSON object/],
    ["{", /^The request body is not JSON/],
  ];
  for (const path of ["/embeddings", EMBEDDINGS]) {
    for (const [body, message] of cases) assert.match(await flatError(app, body, path), message);
  }
  const response = await app.request(EMBEDDINGS, { method: "POST", body: "input=a" });
  assert.equal(response.status, 415);
});

Deno.test("embeddings answers 10,000 inputs in order, in a body of many chunks", async () => {
  const input = Array.from(
    { length: 10_000 },
    (_, index) => ["an egg", "a dog", "rice"][index % 3]!,
  );
  const response = await app.post(EMBEDDINGS, { input, encoding_format: "base64" });
  const chunks = await Array.fromAsync(response.body!);
  assert.ok(chunks.length > 10);
  const { data, usage } = JSON.parse(await new Blob(chunks).text()) as EmbeddingList;
  assert.equal(data.length, 10_000);
  assert.equal(usage.total_tokens, 3334 * 4 + 3333 * 4 + 3333 * 3);
  const alone = (await embed(app, { input: input.slice(0, 3) })).data;
  for (const position of [0, 1, 2, 5_000, 9_998, 9_999]) {
    const seen = decode(data[position]!.embedding);
    const expected = alone[position % 3]!.embedding as number[];
    assert.equal(data[position]!.index, position);
    assert.ok(seen.every((value, element) => Math.abs(value - expected[element]!) < 1e-4));
  }
});

Deno.test("embeddings stops computing when the client disconnects", async () => {
  await using app = await open({ engine: { prefixCache: true, maxBatchTokens: 64 } });
  const controller = new AbortController();
  const input = Array(5_000).fill("How do I boil an egg?");
  const answer = app.post(EMBEDDINGS, { input }, { signal: controller.signal });
  while (await computedTokens(app) === 0);
  controller.abort();
  assert.equal((await answer).status, 499);
  await embed(app, { input: "an egg" });
  assert.ok(await computedTokens(app) < 5_000 * 9);
  assert.equal(app.session.numInFlight, 0);
});

async function computedTokens(app: TestApp): Promise<number> {
  const scrape = await (await app.request("/metrics")).text();
  return Number(/^hearth_batch_tokens_total (\d+)$/m.exec(scrape)?.[1]);
}

Deno.test("embeddings answers 500 without details if the model fails, and 503 if it is lost", async () => {
  await using failing = await open(fragileSpawner("garbles=request"));
  const failed = await failing.post(EMBEDDINGS, { input: "a" });
  assert.equal(failed.status, 500);
  const { error } = await failed.json();
  assert.equal(error.code, "inference_failed");
  assert.doesNotMatch(error.message, /TypeError|[/\\]|\.ts/);

  await using losing = await open(fragileSpawner("crash-on=request"));
  const lost = await losing.post(EMBEDDINGS, { input: "a" });
  assert.equal(lost.status, 503);
  assert.equal((await lost.json()).error.code, "model_not_loaded");
});

Deno.test("embeddings answers 429 with Retry-After when the queue is full", async () => {
  await using app = await open({ maxQueue: 0 });
  const controller = new AbortController();
  const { signal } = controller;
  const slow = { input: Array(500).fill("egg ".repeat(100)) };
  const running = Array.from({ length: app.session.capacity }, () => {
    return app.post(EMBEDDINGS, slow, { signal });
  });
  while (app.session.numInFlight < app.session.capacity) await computedTokens(app);
  const response = await app.post(EMBEDDINGS, { input: "a" });
  assert.equal(response.status, 429);
  assert.ok(response.headers.has("retry-after"));
  assert.equal((await response.json()).error.code, "overloaded");
  const refused = await app.post("/embed", { inputs: "a" });
  assert.deepEqual([refused.status, (await refused.json()).error_type], [429, "Overloaded"]);
  controller.abort();
  await Promise.all(running);
  await embed(app, { input: "a" });
});

Deno.test("2,000 generated bad requests to embeddings are each refused, none with a 5xx", async () => {
  const random = new Random(61);
  for (let round = 0; round < 2_000; round++) {
    const body = badBody(random);
    const response = await app.post(random.pick(["/embeddings", EMBEDDINGS]), body);
    const text = await response.text();
    const shown = `${JSON.stringify(body).slice(0, 200)} gave ${response.status} ${text}`;
    assert.equal(response.status, 400, shown);
    assert.equal(typeof JSON.parse(text).error, "string", shown);
    assert.ok(text.length < 500, shown);
  }
  await embed(app, { input: "an egg" });
  assert.equal(app.session.numLosses, 0);
});

const STRANGE = [null, true, 5, -1, 1.5, 1e300, "", {}, [], [[]], [{}], [null], [""], [[""]], "🦔"];

/** A body with at least one fault. */
function badBody(random: Random): unknown {
  const strange = STRANGE.filter((value) => value !== null && value !== "🦔");
  const fields: Record<string, readonly unknown[]> = {
    encoding_format: [...strange, "🦔"],
    dimensions: [...strange.filter((value) => value !== 5), 127, 129, 2 ** 40, "129"],
    input_type: [...strange, "🦔", "search"],
    truncate: strange.filter((value) => value !== true),
    truncate_prompt_tokens: [0, -2, 1.5, 1, 2, "2", {}, [], 1e300],
  };
  const badInputs = [
    ...STRANGE.filter((value) => value !== "🦔"),
    Array.from({ length: random.between(1, 40) }, () => random.pick(["", 0.5, {}, null])),
    ["a", random.pick(STRANGE.filter((value) => value !== "🦔"))],
    [1, 2, random.pick([-1, 0.5, "a", null, 2 ** 31, 2800])],
    [[1, 2], [random.pick([-1, 0.5, "a", null, 2 ** 31, 2800])]],
    [[1, 2], "a"],
    "egg ".repeat(random.between(511, 2000)),
    Array(20_000).fill("a"),
  ];
  if (random.chance(0.5)) return { input: random.pick(badInputs) };
  const name = random.pick(Object.keys(fields));
  if (random.chance(0.1)) return random.pick([[], 5, null, "text", [{ input: "a" }]]);
  return { input: "an egg", [name]: random.pick(fields[name]!) };
}

Deno.test("a text that no context could hold is refused or truncated without being read to its end", async () => {
  const input = "The train leaves at 7:45, and it is late again. ".repeat(100_000);
  const refused = await app.post("/v1/embeddings", { input });
  assert.equal(refused.status, 400);
  assert.match(
    (await refused.json()).error,
    /^input has more than \d+ tokens; this model's maximum/,
  );
  const cut = await app.post("/v1/embeddings", { input, truncate: true });
  assert.equal(cut.status, 200);
});
