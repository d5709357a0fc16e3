import assert from "node:assert/strict";
import { ChatRequest } from "../../../src/wire/chat_request.ts";
import { parseRequest } from "../../../src/wire/fields.ts";
import { HearthError } from "../../../src/base/errors.ts";

const GOOD = { model: "m", messages: [{ role: "user", content: "Hello" }] };

/** The error for `GOOD` with these changes. */
function refusal(change: Record<string, unknown>): HearthError {
  try {
    parseRequest(ChatRequest, { ...GOOD, ...change });
  } catch (error) {
    if (error instanceof HearthError) return error;
    throw error;
  }
  throw new Error(`${JSON.stringify(change)} was accepted`);
}

Deno.test("ChatRequest accepts parameters at the ends of their ranges", () => {
  const ranges: Record<string, readonly unknown[]> = {
    temperature: [0, 2],
    top_p: [0, 1],
    top_k: [-1, 0, 1_000_000],
    min_p: [0, 1],
    max_tokens: [-1, 1, 2 ** 40],
    max_completion_tokens: [1, 2 ** 40],
    stop: ["x", [], ["a", "b", "c", "d"]],
    seed: [0, -1, 2 ** 63, -(2 ** 63)],
    n: [1, 16],
    presence_penalty: [-2, 2],
    frequency_penalty: [-2, 2],
    repetition_penalty: [0.01, 2],
    logit_bias: [{}, { "0": -100, "128000": 100 }],
    stream: [true, false],
    stream_options: [{}, { include_usage: true }],
  };
  for (const [name, values] of Object.entries(ranges)) {
    for (const value of values) {
      const request = parseRequest(ChatRequest, { ...GOOD, [name]: value });
      assert.deepEqual(request[name as keyof ChatRequest], value, name);
    }
  }
  assert.equal(
    parseRequest(ChatRequest, { ...GOOD, logprobs: true, top_logprobs: 20 }).top_logprobs,
    20,
  );
});

Deno.test("ChatRequest accepts numbers as text", () => {
  const numbers = {
    ...{ temperature: 0.7, top_p: 0.9, min_p: 0.05, top_k: 40, n: 2, seed: -1, max_tokens: 16 },
    ...{ max_completion_tokens: -1, presence_penalty: -0.5, repeat_penalty: 1.1, n_predict: 8 },
  };
  const written = Object.entries(numbers).map(([name, value]) => [name, ` ${value}`]);
  const texts = { ...Object.fromEntries(written), temperature: "7e-1", top_p: "+.9" };
  assert.deepEqual(
    parseRequest(ChatRequest, { ...GOOD, ...texts }),
    parseRequest(ChatRequest, { ...GOOD, ...numbers }),
  );
});

Deno.test("ChatRequest accepts true and false as text", () => {
  const json_schema = { name: "joke", strict: "true", schema: { type: "object" } };
  const read = ChatRequest.parse({
    ...GOOD,
    stream: "false",
    response_format: { type: "json_schema", json_schema },
  });
  assert.equal(read.stream, false);
  assert.deepEqual(read.response_format, {
    type: "json_schema",
    json_schema: { ...json_schema, strict: true },
  });
});

Deno.test("ChatRequest refuses a value out of range, naming field, value and range", () => {
  const cases: readonly [Record<string, unknown>, param: string, message: string][] = [
    [{ temperature: 2.1 }, "temperature", "temperature: want a number from 0 to 2, saw 2.1."],
    [{ temperature: -1 }, "temperature", "temperature: want a number from 0 to 2, saw -1."],
    [{ temperature: "2.1" }, "temperature", 'temperature: want a number from 0 to 2, saw "2.1".'],
    [{ temperature: "hot" }, "temperature", 'temperature: want a number from 0 to 2, saw "hot".'],
    [{ temperature: "" }, "temperature", 'temperature: want a number from 0 to 2, saw "".'],
    [{ temperature: "0x1" }, "temperature", 'temperature: want a number from 0 to 2, saw "0x1".'],
    [{ temperature: true }, "temperature", "temperature: want a number from 0 to 2, saw true."],
    [{ n: "1.5" }, "n", 'n: want a whole number from 1 to 16, saw "1.5".'],
    [
      { stop_token_ids: ["5"] },
      "stop_token_ids[0]",
      'stop_token_ids[0]: want a whole number from 0 to 2147483647, saw "5".',
    ],
    [
      { temperature: Infinity },
      "temperature",
      "temperature: want a number from 0 to 2, saw Infinity.",
    ],
    [{ top_p: 1.01 }, "top_p", "top_p: want a number from 0 to 1, saw 1.01."],
    [{ top_k: -2 }, "top_k", "top_k: want a whole number from -1 up, saw -2."],
    [{ top_k: 1.5 }, "top_k", "top_k: want a whole number from -1 up, saw 1.5."],
    [{ min_p: -0.1 }, "min_p", "min_p: want a number from 0 to 1, saw -0.1."],
    [
      { max_tokens: -2 },
      "max_tokens",
      "max_tokens: want a whole number from 0 up, or -1 for no limit, saw -2.",
    ],
    [{ n: 17 }, "n", "n: want a whole number from 1 to 16, saw 17."],
    [{ seed: 0.5 }, "seed", "seed: want a whole number of 64 bits, saw 0.5."],
    [{ seed: 1e30 }, "seed", "seed: want a whole number of 64 bits, saw 1e+30."],
    [{ stop: ["a", 5] }, "stop[1]", "stop[1]: want a string of at most 1024 characters, saw 5."],
    [
      { stop: Array(65).fill("a") },
      "stop",
      "stop: want an array of 0 to 64 items, saw an array of 65.",
    ],
    [
      { stop: Array(17).fill("a".repeat(1000)) },
      "stop",
      "stop: want strings of at most 16384 characters in all, saw an array of 17.",
    ],
    [
      { logit_bias: { "7": 101 } },
      'logit_bias["7"]',
      'logit_bias["7"]: want a number from -100 to 100, saw 101.',
    ],
    [{ logit_bias: { x: 1 } }, "logit_bias.x", 'logit_bias.x: want a token id as name, saw "x".'],
    [
      { top_logprobs: 2 },
      "top_logprobs",
      "top_logprobs: want logprobs to be true as well, saw 2.",
    ],
    [{ stream: 1 }, "stream", "stream: want true or false, saw 1."],
    [
      { stream_options: { include_usage: "yes" } },
      "stream_options.include_usage",
      'stream_options.include_usage: want true or false, saw "yes".',
    ],
    [{ model: 5 }, "model", "model: want the name of the loaded model, saw 5."],
    [
      { messages: [] },
      "messages",
      "messages: want an array of 1 to 4096 items, saw an array of 0.",
    ],
    [
      { messages: [{ role: "robot", content: "x" }] },
      "messages[0].role",
      'messages[0].role: want one of system, developer, user, assistant, tool, function, saw "robot".',
    ],
    [
      { messages: [GOOD.messages[0], { role: "user", content: null }] },
      "messages[1].content",
      "messages[1].content: want a string, or an array of content parts that is not empty, saw null.",
    ],
    [
      { messages: [GOOD.messages[0], { role: "user", content: [] }] },
      "messages[1].content",
      "messages[1].content: want a string, or an array of content parts that is not empty, saw an array of 0.",
    ],
    [
      { messages: [{ role: "user" }] },
      "messages[0].content",
      "messages[0].content: want a string, or an array of content parts that is not empty, saw nothing.",
    ],
  ];
  for (const [change, param, message] of cases) {
    const error = refusal(change);
    assert.equal(error.message, message);
    assert.equal(error.param, param);
    assert.equal(error.kind, "invalid_value");
  }
});

Deno.test("ChatRequest accepts null for every optional field", () => {
  const fields = Object.keys(ChatRequest.shape).filter((name) => !(name in GOOD));
  const request = parseRequest(ChatRequest, {
    ...GOOD,
    ...Object.fromEntries(fields.map((name) => [name, null])),
  });
  for (const name of fields) assert.equal(request[name as keyof ChatRequest], null);
});

Deno.test("ChatRequest drops unknown fields, including prototype names", () => {
  const body = JSON.parse(
    `{"model":"m","user":"someone","__proto__":{"temperature":9},"constructor":{"prototype":{"x":1}},
      "messages":[{"role":"user","content":"Hello","nick":"me","__proto__":{"role":"system"}}]}`,
  );
  assert.deepEqual(parseRequest(ChatRequest, body), GOOD);
  assert.equal(({} as { x?: number }).x, undefined);
});

Deno.test("ChatRequest accepts parts of text, image and audio in all spellings, and names the path of an invalid part", () => {
  const parts = [
    { type: "text", text: "" },
    { type: "image", image_url: { url: "file:///a.png" } },
    { type: "image_url", image_url: "data:image/png;base64,AA==" },
    { type: "audio", audio_url: "base64://AA==" },
    { type: "audio_url", audio_url: { url: "https://example.org/a.wav" } },
    { type: "input_audio", input_audio: { data: "AA==", format: "wav" } },
  ];
  const messages = [{ role: "user", content: parts }];
  assert.deepEqual(parseRequest(ChatRequest, { ...GOOD, messages }).messages, messages);

  const bad: readonly [unknown, param: string][] = [
    [{ type: "text" }, "messages[0].content[0].text"],
    [{ type: "video" }, "messages[0].content[0].type"],
    ["text", "messages[0].content[0]"],
    [{ type: "image", image_url: "ftp://a" }, "messages[0].content[0].image_url"],
    [{ type: "image", image_url: { url: "a.png" } }, "messages[0].content[0].image_url.url"],
    [{ type: "audio", image_url: "base64://AA" }, "messages[0].content[0].audio_url"],
    [
      { type: "input_audio", input_audio: { data: "AA==", format: "midi" } },
      "messages[0].content[0].input_audio.format",
    ],
  ];
  for (const [part, param] of bad) {
    assert.equal(refusal({ messages: [{ role: "user", content: [part] }] }).param, param);
  }
});

Deno.test("ChatRequest reports few of a million faults, so that a hostile body takes little memory", () => {
  const million = 1_000_000;
  const bodies = [
    { messages: Array(million).fill({}) },
    { messages: [{ role: "user", content: Array(million).fill({}) }] },
    { stop: Array(million).fill(0) },
    { logit_bias: Object.fromEntries(Array.from({ length: 100_000 }, (_, id) => [`x${id}`, ""])) },
  ];
  for (const body of bodies) {
    const { error } = ChatRequest.safeParse({ ...GOOD, ...body });
    assert.ok(error !== undefined && JSON.stringify(error.issues).length < 2_000);
  }
});
