/** For models other than chat models, every field of a chat request works, is ignored, or is refused by its name. */
import assert from "node:assert/strict";
import { encodePng } from "../../src/media/image/png.ts";
import {
  mattingBody,
  mattingTest,
  postImage,
  readError,
} from "../fixtures/servers/matting_server.ts";
import { MODEL, TestApp } from "../fixtures/servers/server.ts";
import {
  CLIP,
  CLIP_TEXT,
  openSpeechApp,
  readRecording,
} from "../fixtures/servers/speech_server.ts";
import { makeTinyOcr, ocrImage } from "../fixtures/models/tiny_ocr.ts";
import { openTtsApp, speechBody } from "../fixtures/servers/tts_server.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";

type Fields = Readonly<Record<string, unknown>>;

const SCHEMA = { type: "object" };
const FUNCTION = { name: "f", parameters: SCHEMA };

/** Fields that models without chat refuse, each with the path in the refusal. */
const NO_CHAT: readonly (readonly [param: string, Fields])[] = [
  ["response_format", { response_format: { type: "json_object" } }],
  ["response_format.json_schema.schema", {
    response_format: { type: "json_schema", json_schema: { name: "a", schema: SCHEMA } },
  }],
  ["structured_outputs.choice", { structured_outputs: { choice: ["a"] } }],
  ["guided_regex", { guided_regex: "a+" }],
  ["grammar", { grammar: 'root ::= "a"' }],
  ["json_schema", { json_schema: SCHEMA }],
  ["tools", { tools: [{ type: "function", function: FUNCTION }] }],
  ["tools", { functions: [FUNCTION] }],
  ["prompt_logprobs", { prompt_logprobs: 0 }],
  ["continue_final_message", { continue_final_message: true, add_generation_prompt: false }],
  ["skip_special_tokens", { skip_special_tokens: false }],
];

/** Fields that line recognition and speech recognition refuse. */
const NO_GENERATION: typeof NO_CHAT = [
  ["n", { n: 2 }],
  ["include_stop_str_in_output", { include_stop_str_in_output: true }],
  ["stop_token_ids", { stop_token_ids: [3] }],
];

/** Fields that line recognition and speech recognition ignore. */
const NO_WEIGHTS: typeof NO_CHAT = [
  ["min_tokens", { min_tokens: 2 }],
  ["ignore_eos", { ignore_eos: true }],
  ["logit_bias", { logit_bias: { 3: 1 } }],
  ["presence_penalty", { presence_penalty: 1 }],
  ["frequency_penalty", { frequency_penalty: -1 }],
  ["repetition_penalty", { repetition_penalty: 1.1 }],
];

/** Default values that clients send. */
const DEFAULTS: Fields = {
  temperature: 0,
  top_p: 1,
  top_k: -1,
  n: 1,
  stop: [],
  seed: 7,
  logit_bias: {},
  presence_penalty: 0,
  frequency_penalty: 0,
  repetition_penalty: 1,
  logprobs: false,
  tools: [],
  tool_choice: "none",
  response_format: { type: "text" },
  min_tokens: 0,
  ignore_eos: false,
  max_tokens: -1,
  include_stop_str_in_output: false,
  skip_special_tokens: true,
};

async function assertRefused(
  app: TestApp,
  { path, body, cases }: { path: string; body: Fields; cases: typeof NO_CHAT },
): Promise<void> {
  for (const [param, fields] of cases) {
    const response = await app.post(path, { ...body, ...fields });
    const { error } = await response.json();
    assert.deepEqual([response.status, error?.param], [400, param], JSON.stringify(fields));
    assert.ok(error.message.startsWith(param), error.message);
  }
}

/** An answer without what differs from request to request. */
async function readStable(response: Response): Promise<unknown> {
  const isJson = response.headers.get("content-type")?.startsWith("application/json");
  if (!isJson) return await response.bytes();
  const { id: _id, created: _created, ...answer } = await response.json();
  return answer;
}

/**
 * Asserts that each request gets the same answer as without the field, and a header that says it is ignored.
 */
async function assertPassedOver(
  app: TestApp,
  { path, body, cases }: { path: string; body: Fields; cases: typeof NO_CHAT },
): Promise<void> {
  for (const [param, fields] of cases) {
    const { [param]: _ignored, ...others } = fields;
    const plain = await readStable(await app.post(path, { ...body, ...others }));
    const response = await app.post(path, { ...body, ...fields });
    assert.equal(response.status, 200, param);
    assert.deepEqual(await readStable(response), plain, param);
    const warning = response.headers.get("warning") ?? "";
    assert.ok(warning.startsWith(`299 hearth "${param} is ignored`), warning);
  }
}

async function readAnswer(app: TestApp, body: Fields) {
  const response = await app.post("/v1/chat/completions", body);
  const answer = await response.json();
  assert.equal(response.status, 200, JSON.stringify(answer));
  const [{ message: { content }, finish_reason: reason, logprobs }] = answer.choices;
  return { content, reason, logprobs, usage: answer.usage };
}

function chatAbout(part: Fields): Fields {
  return { model: MODEL, messages: [{ role: "user", content: [part] }] };
}

Deno.test("chat: line recognition supports max_tokens, stop and logprobs, and ignores or refuses other fields by name", async () => {
  const folder = findModelFolder("hearth-demo-ocr")!;
  const { cases: [golden] } = JSON.parse(await Deno.readTextFile(`${folder}/golden.json`));
  const url = `base64://${(await Deno.readFile(`${folder}/${golden.image}`)).toBase64()}`;
  const body = chatAbout({ type: "image", image_url: { url } });
  await using app = await new TestApp({ folder }).ready();
  const path = "/v1/chat/completions";
  await assertRefused(app, { path, body, cases: [...NO_CHAT, ...NO_GENERATION] });
  await assertPassedOver(app, { path, body, cases: NO_WEIGHTS });
  const all = await readAnswer(app, { ...body, ...DEFAULTS });
  assert.deepEqual([all.content, all.reason], [golden.text, "stop"]);
  const sampled = await readAnswer(app, { ...body, temperature: 2, top_p: 0.1, seed: 3 });
  assert.equal(sampled.content, golden.text);
  const short = await readAnswer(app, { ...body, max_tokens: 3, logprobs: true });
  assert.deepEqual([short.content, short.reason], [golden.text.slice(0, 3), "length"]);
  assert.equal(short.logprobs.content.length, 3);
  const stopped = await readAnswer(app, { ...body, stop: golden.text.slice(2, 4) });
  assert.deepEqual([stopped.content, stopped.reason], [golden.text.slice(0, 2), "stop"]);
});

Deno.test("chat: TrOCR samples, and refuses fields by name that only chat models support", async () => {
  await using tiny = await makeTinyOcr("trocr");
  await using app = await new TestApp({ folder: tiny.folder }).ready();
  const url = `base64://${ocrImage(1).toBase64()}`;
  const body = { ...chatAbout({ type: "image", image_url: { url } }), max_tokens: 4 };
  await assertRefused(app, { path: "/v1/chat/completions", body, cases: NO_CHAT });
  await readAnswer(app, { ...body, ...DEFAULTS });
  const seeded = { ...body, temperature: 2, seed: 5, n: 2, logit_bias: { 3: -1 } };
  const first = await readAnswer(app, seeded);
  assert.deepEqual(await readAnswer(app, seeded), first);
  assert.notDeepEqual(await readAnswer(app, { ...seeded, seed: 6 }), first);
});

Deno.test("chat: speech recognition supports max_tokens and temperature, and ignores or refuses other fields by name", async () => {
  const url = `base64://${(await readRecording(CLIP.file)).toBase64()}`;
  const body = chatAbout({ type: "audio", audio_url: { url } });
  await using app = await openSpeechApp();
  const cases = [
    ...NO_CHAT,
    ...NO_GENERATION,
    ["stop", { stop: "alarm" }],
    ["logprobs", { logprobs: true }],
  ] as const;
  const path = "/v1/chat/completions";
  await assertRefused(app, { path, body, cases });
  // At so low a temperature, the likeliest token is drawn, so the two answers are equal.
  const sampling = [
    ...NO_WEIGHTS,
    ["top_p", { temperature: 0.01, top_p: 0 }],
    ["top_k", { temperature: 0.01, top_k: 3 }],
    ["min_p", { temperature: 0.01, min_p: 0.5 }],
    ["seed", { temperature: 0.01, seed: 0 }],
  ] as const;
  await assertPassedOver(app, { path, body, cases: sampling });
  const whole = await readAnswer(app, { ...body, ...DEFAULTS });
  assert.equal(whole.content, CLIP_TEXT);
  assert.equal((await readAnswer(app, { ...body, temperature: 0, top_p: 0.5 })).content, CLIP_TEXT);
  const half = Math.ceil(whole.usage.completion_tokens / 2) + 1;
  for (const max_tokens of [1, half]) {
    const cut = await readAnswer(app, { ...body, max_tokens });
    assert.ok(CLIP_TEXT.startsWith(cut.content) && cut.content !== CLIP_TEXT);
    assert.equal(cut.reason, "length");
    assert.ok(cut.usage.completion_tokens <= max_tokens);
    assert.ok(cut.usage.prompt_tokens > 0);
    assert.ok(cut.usage.prompt_tokens <= whole.usage.prompt_tokens);
  }
});

/** Fields that models whose answers are files refuse. */
const BY_FILES: typeof NO_CHAT = [
  ["n", { n: 2 }],
  ["logprobs", { logprobs: true }],
  ["tools", { tools: [{ type: "function", function: FUNCTION }] }],
];

/** Fields that models whose answers are files ignore. */
const NO_FILE_LIMITS: typeof NO_CHAT = [
  ["stop", { stop: "a" }],
  ["max_tokens", { max_tokens: 4 }],
  ["max_completion_tokens", { max_completion_tokens: 4 }],
];
const { response_format: _format, ...FILE_DEFAULTS } = DEFAULTS;

Deno.test("speech: fields of a chat that would change the answer are refused by name", async () => {
  await using app = await openTtsApp();
  const path = "/v1/audio/speech";
  await assertRefused(app, { path, body: speechBody(), cases: BY_FILES });
  await assertPassedOver(app, { path, body: speechBody(), cases: NO_FILE_LIMITS });
  // The sound of `input` is streamed, whatever `stream` says.
  for (const stream of [false, true]) {
    const response = await app.post(path, speechBody({ ...FILE_DEFAULTS, stream }));
    assert.equal(response.status, 200);
    await response.body?.cancel();
  }
  const messages = [{ role: "user", content: "Hello." }];
  const body = speechBody({ input: undefined, messages });
  await assertRefused(app, { path, body, cases: [["stream", { stream: true }]] });
});

mattingTest(
  "background removal: fields that would change the answer are refused by name",
  async (app) => {
    const path = "/v1/images/remove_background";
    const data = new Uint8Array(8 * 8 * 3);
    const png = encodePng({ width: 8, height: 8, channels: 3, data });
    const body = mattingBody(`base64://${png.toBase64()}`);
    const cases = [
      ...BY_FILES,
      ["stream", { stream: true }],
      ["response_format", { response_format: "b64_json" }],
      ["output_format", { output_format: "jpeg" }],
      ["size", { size: "1024x1024" }],
      ["mask", { mask: "base64://AAAA" }],
    ] as const;
    await assertRefused(app, { path, body, cases });
    await assertPassedOver(app, { path, body, cases: NO_FILE_LIMITS });
    const response = await app.post(path, { ...body, ...FILE_DEFAULTS, output_format: "png" });
    assert.equal(response.status, 200);
    await response.body?.cancel();
    const refused = await readError(await postImage(app, png, { output_format: "webp" }));
    assert.deepEqual([refused.status, refused.param], [400, "output_format"]);
  },
);
