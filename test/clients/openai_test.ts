/**
 * The official OpenAI client against a real server on a real port.
 */
import assert from "node:assert/strict";
import OpenAI, {
  APIError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError,
} from "openai";
import { fragileSpawner } from "../fixtures/threads/fragile.ts";
import { ENDLESS, MODEL, TestServer, type TestServerOptions } from "../fixtures/servers/server.ts";

interface Opened extends AsyncDisposable {
  readonly server: TestServer;
  readonly client: OpenAI;
}

async function open(options: TestServerOptions = {}, apiKey = "any"): Promise<Opened> {
  const server = await TestServer.start(options);
  const client = new OpenAI({ baseURL: `${server.base}/v1`, apiKey, maxRetries: 0 });
  return { server, client, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

const shared = await open();
Deno.test.afterAll(async () => await shared[Symbol.asyncDispose]());

const QUESTION = {
  model: MODEL,
  messages: [{ role: "user" as const, content: "What is the capital of France?" }],
  temperature: 0,
  max_tokens: 8,
};
const ANSWER = "The capital of France is Paris.";

/** Returns the error with which a call fails. */
async function failure(call: PromiseLike<unknown>): Promise<unknown> {
  try {
    await call;
  } catch (error) {
    return error;
  }
  throw new Error("The call succeeded");
}

Deno.test("openai: chat.completions.create() returns the answer", async () => {
  const completion = await shared.client.chat.completions.create(QUESTION);
  assert.equal(completion.object, "chat.completion");
  assert.equal(completion.choices[0]!.message.content, ANSWER);
  assert.equal(completion.choices[0]!.finish_reason, "length");
  assert.equal(completion.usage!.total_tokens, 28);
  assert.ok(completion._request_id);
});

Deno.test("openai: a stream with include_usage returns the answer and its usage", async () => {
  const stream = await shared.client.chat.completions.create({
    ...QUESTION,
    stream: true,
    stream_options: { include_usage: true },
  });
  const chunks = await Array.fromAsync(stream);
  assert.equal(chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join(""), ANSWER);
  assert.equal(new Set(chunks.map(({ id }) => id)).size, 1);
  assert.equal(chunks.at(-1)!.usage!.completion_tokens, 8);
});

Deno.test("openai: the streaming helper assembles a completion", async () => {
  const stream = shared.client.chat.completions.stream({ ...QUESTION, n: 2, logprobs: true });
  const completion = await stream.finalChatCompletion();
  assert.deepEqual(completion.choices.map(({ message }) => message.content), [ANSWER, ANSWER]);
  assert.equal(completion.choices[1]!.logprobs!.content!.length, 8);
});

/** Opens a server whose model takes more than half a minute for an endless answer. */
async function openSlow(): Promise<Opened> {
  const { spawnWorker, workers } = fragileSpawner();
  const opened = await open({ spawnWorker });
  workers[0]!.postMessage({ type: "slow-steps", ms: 20 });
  return opened;
}

Deno.test("openai: abort in the middle of a stream stops the generation", async () => {
  await using opened = await openSlow();
  const { client, server } = opened;
  const stream = await client.chat.completions.create({ ...QUESTION, ...ENDLESS, stream: true });
  let numChunks = 0;
  for await (const _ of stream) if (++numChunks === 5) break;
  assert.ok(stream.controller.signal.aborted);
  await server.untilIdle();
  assert.ok(await server.figure("hearth_completion_tokens_total") < ENDLESS.max_tokens);
  assert.equal(
    (await client.chat.completions.create(QUESTION)).choices[0]!.message.content,
    ANSWER,
  );
});

Deno.test("openai: abort of a call without a stream stops the generation", async () => {
  await using opened = await openSlow();
  const { client, server } = opened;
  const controller = new AbortController();
  const call = client.chat.completions.create({ ...QUESTION, ...ENDLESS }, {
    signal: controller.signal,
  });
  const failed = failure(call);
  await server.untilBusy();
  controller.abort();
  await failed;
  await server.untilIdle();
  assert.ok(await server.figure("hearth_completion_tokens_total") < ENDLESS.max_tokens);
});

Deno.test("openai: models.list() and models.retrieve() return the served model", async () => {
  const models = await Array.fromAsync(shared.client.models.list());
  assert.deepEqual(models.map(({ id }) => id), [MODEL]);
  assert.equal((await shared.client.models.retrieve(`hearth/${MODEL}`)).id, MODEL);
});

Deno.test("openai: an unknown model is a NotFoundError", async () => {
  const call = shared.client.chat.completions.create({ ...QUESTION, model: "gpt-4o" });
  const error = await failure(call);
  assert.ok(error instanceof NotFoundError);
  assert.equal(error.code, "model_not_found");
  assert.equal(error.param, "model");
  assert.ok(error.requestID);
  assert.ok(await failure(shared.client.models.retrieve("gpt-4o")) instanceof NotFoundError);
});

Deno.test("openai: a parameter out of its range is a BadRequestError", async () => {
  const error = await failure(shared.client.chat.completions.create({ ...QUESTION, top_p: 2 }));
  assert.ok(error instanceof BadRequestError);
  assert.equal(error.type, "invalid_request_error");
  assert.equal(error.param, "top_p");
  assert.match(error.message, /top_p: want a number from 0 to 1, saw 2/);
});

Deno.test("openai: an endpoint for another kind of model is a BadRequestError", async () => {
  const { client } = shared;
  const calls = [
    client.embeddings.create({ model: MODEL, input: "x" }),
    client.audio.speech.create({ model: MODEL, input: "x", voice: "x" }),
    client.audio.transcriptions.create({ model: MODEL, file: new File(["x"], "x.wav") }),
  ];
  for (const call of calls) {
    const error = await failure(call);
    assert.ok(error instanceof BadRequestError);
    assert.match(error.message, /does not serve/);
  }
});

Deno.test("openai: a request while the model is not loaded is an APIError with status 503", async () => {
  const { spawnWorker } = fragileSpawner("lose-on=request", "deaf-to=load");
  await using opened = await open({ spawnWorker });
  const { client } = opened;
  for (let call = 0; call < 2; call++) {
    const error = await failure(client.chat.completions.create(QUESTION));
    assert.ok(error instanceof APIError && error instanceof InternalServerError);
    assert.equal(error.status, 503);
    assert.equal(error.code, "model_not_loaded");
    assert.ok(error.headers!.has("retry-after"));
  }
});

Deno.test("openai: a request beyond the queue is a RateLimitError", async () => {
  await using opened = await open({ maxQueue: 0 });
  const { client, server } = opened;
  const streams = await Promise.all(
    Array.from(
      { length: server.app.session.capacity },
      () => client.chat.completions.create({ ...QUESTION, ...ENDLESS, stream: true }),
    ),
  );
  const error = await failure(client.chat.completions.create(QUESTION));
  assert.ok(error instanceof RateLimitError);
  assert.equal(error.code, "overloaded");
  assert.ok(error.headers!.has("retry-after"));
  for (const stream of streams) stream.controller.abort();
  await server.untilIdle();
});

Deno.test("openai: an error in the middle of a stream reaches the caller", async () => {
  const { spawnWorker, workers } = fragileSpawner("lose-on=metrics");
  await using opened = await open({ spawnWorker });
  const stream = await opened.client.chat.completions.create({
    ...QUESTION,
    ...ENDLESS,
    stream: true,
  });
  const error = await failure((async () => {
    for await (const _ of stream) workers[0]!.postMessage({ type: "metrics", id: 0 });
  })());
  assert.ok(error instanceof APIError);
  assert.equal(error.code, "model_not_loaded");
});

Deno.test("openai: a request without the right key is an AuthenticationError", async () => {
  await using opened = await open(
    { settings: { apiKeys: [{ label: "test", key: "right" }] } },
    "wrong",
  );
  const { client } = opened;
  const error = await failure(client.chat.completions.create(QUESTION));
  assert.ok(error instanceof AuthenticationError);
  assert.equal(error.code, "invalid_api_key");
  const right = client.withOptions({ apiKey: "right" });
  assert.equal((await right.chat.completions.create(QUESTION)).choices[0]!.message.content, ANSWER);
});
