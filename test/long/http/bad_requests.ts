/**
 * Requests that are wrong in as many ways as possible, each with its documented answer.
 *
 * @module
 */
import { chatBody } from "../../fixtures/servers/server.ts";
import type { Random } from "../../unit/engine/random.ts";

/** A request and its expected refusal. */
export interface BadRequest {
  readonly path: string;
  readonly init: RequestInit;
  readonly status: number;
  /** Code of the nested error; `undefined` if the format is flat. */
  readonly code: string | undefined;
}

type Json = Record<string, unknown>;

const CHAT = ["/chat/completions", "/v1/chat/completions"];
const JSON_TYPE = { "content-type": "application/json" };

/** Odd values of several types, for fields that are ignored. */
const STRANGE: readonly unknown[] = [-7.5, 1e300, "", {}, [[]], [{}], "🦔", true];

/** Invalid values per field. */
const WRONG: Readonly<Record<string, readonly unknown[]>> = {
  model: [5, null, "", {}, [], true],
  messages: [5, null, "", {}, [], [5], [null], [{}], [[]], true, "hello"],
  temperature: ["1.1.1", -0.01, 2.01, 1e300, {}, [], true],
  top_p: ["1.1.1", -0.01, 1.01, {}, [0.5], false],
  top_k: ["1.1.1", -2, 0.5, 1e300, {}, []],
  min_p: ["1.1.1", -0.01, 1.01, {}, []],
  max_tokens: ["1.1.1", -2, 1.5, 1e300, {}, []],
  max_completion_tokens: ["1.1.1", -2, 1.5, {}, []],
  stop: [5, [5], Array(65).fill("a"), {}, [["a"]], true, "a".repeat(1025)],
  seed: ["1.1.1", 0.5, 1e300, {}, [], true],
  n: ["1.1.1", 0, -1, 1.5, 17, {}, []],
  presence_penalty: ["1.1.1", -2.01, 2.01, {}, []],
  frequency_penalty: ["1.1.1", -2.01, 2.01, {}, []],
  repetition_penalty: ["1.1.1", 0, -1, 2.01, {}, []],
  logit_bias: [5, "x", [5], { a: 1 }, { "1": 101 }, { "1": "x" }, { "1.5": 1 }, { "-1": 1 }, {
    "999999": 1,
  }],
  logprobs: ["yes", 1, {}, []],
  top_logprobs: [1, "one", -1, 21, {}],
  stream: ["yes", 1, {}, []],
  stop_token_ids: [5, "x", [-1], [0.5], ["1"], [9999999], Array(65).fill(1), {}],
  min_tokens: ["1.1.1", -1, 0.5, 1e300, {}, []],
  ignore_eos: ["yes", 1, {}, []],
  skip_special_tokens: ["yes", 0, {}, []],
  include_stop_str_in_output: ["yes", 1, {}, []],
  add_generation_prompt: ["yes", 1, {}, []],
  continue_final_message: ["yes", 1, {}, []],
  tools: [
    5,
    "x",
    {},
    [5],
    [{}],
    [{ type: "function" }],
    [{ type: "function", function: {} }],
    [{
      type: "function",
      function: { name: "" },
    }],
    [{ type: "function", function: { name: "f", parameters: [] } }],
  ],
  tool_choice: [5, "any", "some", {}, [], true, "required", {
    type: "function",
    function: { name: "f" },
  }],
  parallel_tool_calls: ["yes", 1, {}, []],
  functions: [5, "x", {}, [5], [{}], [{ name: "" }]],
  function_call: [5, "required", {}, [], { name: "f" }],
  reasoning_effort: [5, "much", {}, [5]],
  include_reasoning: ["yes", 1, {}, []],
  chat_template_kwargs: [5, "x", [], true],
  stream_options: [5, "x", { include_usage: 1 }],
};

const WRONG_MESSAGES: readonly unknown[] = [
  { role: "robot", content: "x" },
  { role: "user" },
  { role: "user", content: null },
  { role: "user", content: 5 },
  { role: "user", content: [] },
  { role: "user", content: [{}] },
  { role: "user", content: ["x"] },
  { role: "user", content: [{ type: "text" }] },
  { role: "user", content: [{ type: "video", text: "x" }] },
  { role: "user", content: [{ type: "image", image_url: "ftp://x" }] },
  { role: "user", content: [{ type: "image_url", image_url: {} }] },
  { role: "user", content: [{ type: "audio", audio_url: 5 }] },
  { role: "user", content: [{ type: "input_audio", input_audio: { data: "", format: "wav" } }] },
  { content: "x" },
  ["user", "x"],
];

const MEDIA: readonly unknown[] = [
  { type: "image", image_url: { url: "base64://AAAA" } },
  { type: "image_url", image_url: "data:image/png;base64,AAAA" },
  { type: "audio", audio_url: { url: "file:///etc/passwd" } },
  { type: "audio_url", audio_url: "http://169.254.169.254/latest" },
  { type: "input_audio", input_audio: { data: "AAAA", format: "mp3" } },
];

const PROTOTYPE_NAMES = [
  '"__proto__":{"polluted":true,"model":"hearth-demo-chat"}',
  '"constructor":{"prototype":{"polluted":true}}',
  '"prototype":{"polluted":true}',
  '"logit_bias":{"__proto__":{"polluted":true},"constructor":1}',
  '"toString":null,"hasOwnProperty":1,"valueOf":{}',
];

/** A body that stops in the middle without ending. */
function stalledBody(json: string): ReadableStream<Uint8Array> {
  const half = new TextEncoder().encode(json.slice(0, json.length / 2));
  return new ReadableStream({ start: (controller) => controller.enqueue(half) });
}

function chat(random: Random, body: unknown): Pick<BadRequest, "path" | "init"> {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const init = { method: "POST", headers: JSON_TYPE, body: text };
  return { path: random.pick(CHAT), init };
}

function invalidValue(random: Random, body: unknown): BadRequest {
  return { ...chat(random, body), status: 400, code: "invalid_value" };
}

const KINDS: Readonly<Record<string, (random: Random) => BadRequest>> = {
  "a wrong value": (random) => {
    const field = random.pick(Object.keys(WRONG));
    return invalidValue(random, chatBody({ [field]: random.pick(WRONG[field]!) }));
  },
  "a wrong value among strange ones in unknown fields": (random) => {
    const field = random.pick(Object.keys(WRONG));
    const unknown: Json = { user: random.pick(STRANGE), metadata: random.pick(STRANGE) };
    return invalidValue(random, chatBody({ ...unknown, [field]: random.pick(WRONG[field]!) }));
  },
  "a wrong message": (random) => {
    const { messages } = chatBody() as { messages: unknown[] };
    const before = Array(random.between(0, 50)).fill(messages[0]);
    const wrong = [...before, random.pick(WRONG_MESSAGES), ...messages];
    return invalidValue(random, chatBody({ messages: wrong }));
  },
  "a missing field": (random) => {
    return invalidValue(random, chatBody({ [random.pick(["model", "messages"])]: undefined }));
  },
  "no object": (random) => invalidValue(random, random.pick(["[]", "5", "null", '"x"', "true"])),
  "very many wrong items": (random) => {
    const items = Array(random.between(1_000, 20_000 - 2)).fill(random.pick([{}, 0, null, []]));
    const field = random.pick(["messages", "stop"]);
    return invalidValue(random, chatBody({ [field]: items }));
  },
  "prototype names": (random) => {
    const rest = random.pick(['"messages":[]', '"messages":[{"__proto__":{"role":"user"}}]']);
    return invalidValue(random, `{${random.pick(PROTOTYPE_NAMES)},${rest}}`);
  },
  "broken JSON": (random) => {
    const json = JSON.stringify(chatBody({ seed: random.between(0, 1_000_000) }));
    const at = random.between(0, json.length - 1);
    const broken = random.pick([
      json.slice(0, at),
      `${json}${json}`,
      `'${json}'`,
      `${json},`,
      "\u0000",
    ]);
    return { ...chat(random, broken), status: 400, code: "invalid_json" };
  },
  "random bytes": (random) => {
    const bytes = Uint8Array.from(
      { length: random.between(1, 300) },
      () => random.between(128, 255),
    );
    const init = { method: "POST", headers: JSON_TYPE, body: bytes };
    return { path: random.pick(CHAT), init, status: 400, code: "invalid_json" };
  },
  "deep nesting": (random) => {
    const depth = random.between(101, 100_000);
    const [open, close] = random.pick([["[", "]"], ['{"a":', "}"]] as const);
    const nested = `${open.repeat(depth)}1${close.repeat(depth)}`;
    const field = random.pick(["messages", "metadata", "stop"]);
    const body = JSON.stringify(chatBody({ [field]: "nested" })).replace('"nested"', nested);
    return { ...chat(random, body), status: 400, code: "invalid_json" };
  },
  "a body whose Content-Length is too large": (random) => {
    const length = 100 * 1024 * 1024 + random.between(1, 1_000_000_000);
    const headers = { ...JSON_TYPE, "content-length": String(length) };
    const init = { method: "POST", headers, body: "{" };
    return { path: random.pick(CHAT), init, status: 413, code: "payload_too_large" };
  },
  "a wrong media type": (random) => {
    const types = [
      "text/plain",
      "application/x-www-form-urlencoded",
      "application/xml",
      "json",
      "*/*",
    ];
    const request = chat(random, chatBody());
    const headers = { "content-type": random.pick(types) };
    return {
      ...request,
      init: { ...request.init, headers },
      status: 415,
      code: "unsupported_media_type",
    };
  },
  "a slow body": (random) => {
    const body = stalledBody(JSON.stringify(chatBody()));
    const init = { method: "POST", headers: JSON_TYPE, body };
    return { path: random.pick(CHAT), init, status: 408, code: "request_timeout" };
  },
  "an unknown model": (random) => {
    const model = random.pick([
      "gpt-4o",
      "hearth-demo-chat ",
      "HEARTH-DEMO-CHAT",
      "../x",
      "a".repeat(10_000),
    ]);
    return { ...chat(random, chatBody({ model })), status: 404, code: "model_not_found" };
  },
  "media for a text model": (random) => {
    const content = [{ type: "text", text: "What is this?" }, random.pick(MEDIA)];
    const body = chatBody({ messages: [{ role: "user", content }] });
    return { ...chat(random, body), status: 400, code: "unsupported_by_model" };
  },
  "a prompt beyond the context": (random) => {
    const messages = [{ role: "user", content: "word ".repeat(random.between(2_500, 5_000)) }];
    return {
      ...chat(random, chatBody({ messages })),
      status: 400,
      code: "context_length_exceeded",
    };
  },
  "an endpoint of another kind": (random) => {
    const path = random.pick(["/embeddings", "/v1/rerank"]);
    const init = {
      method: "POST",
      headers: JSON_TYPE,
      body: random.pick(["{}", "{", '{"input":5}']),
    };
    return { path, init, status: 400, code: undefined };
  },
  "no such endpoint": (random) => {
    const path = random.pick([
      "/v1/edits",
      "/chat/completions/x",
      "/%00",
      "/..%2f",
      "//x",
      "/V1/models",
    ]);
    return { path, init: { method: "POST", body: "x" }, status: 404, code: "not_found" };
  },
  "a wrong method": (random) => {
    const method = random.pick(["PUT", "DELETE", "PATCH", "GET"]);
    return { path: random.pick(CHAT), init: { method }, status: 405, code: "method_not_allowed" };
  },
  "a foreign host or origin": (random) => {
    const headers = random.pick([{ host: "evil.example" }, { origin: "https://evil.example" }]);
    const request = chat(random, chatBody());
    return {
      ...request,
      init: { ...request.init, headers: { ...JSON_TYPE, ...headers } },
      status: 403,
      code: "forbidden",
    };
  },
};

/** All kinds of bad requests. */
export const BAD_REQUEST_KINDS: readonly string[] = Object.keys(KINDS);

/** A bad request of this kind. */
export function makeBadRequest(kind: string, random: Random): BadRequest {
  return KINDS[kind]!(random);
}
