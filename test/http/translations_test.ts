/** `POST /audio/translations`: English translations of speech, by models that were trained to translate. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { copyFolder } from "../fixtures/files/copy_folder.ts";
import { findModelFolder, unlessThere } from "../fixtures/engine/goldens.ts";
import type { TestApp } from "../fixtures/servers/server.ts";
import {
  CLIP,
  openSpeechApp,
  readRecording,
  speechForm,
} from "../fixtures/servers/speech_server.ts";
import { speechTest } from "../fixtures/audio/speech.ts";

const PATH = "/v1/audio/translations";

async function translate(app: TestApp, fields: Record<string, string> = {}, file = CLIP.file) {
  const body = speechForm(await readRecording(file), fields);
  const response = await app.request(PATH, { method: "POST", body });
  const text = await response.text();
  const isJson = response.headers.get("content-type")?.includes("json");
  return { status: response.status, body: isJson ? JSON.parse(text) : text };
}

/**
 * Copies the built-in recogniser with files that say that it can translate. It was not trained to translate, but is
 * prompted as if it had been. `swapsTasks` exchanges the tokens of the two tasks.
 */
async function copyThatTranslates(
  { swapsTasks = false } = {},
): Promise<AsyncDisposable & { folder: string }> {
  const source = findModelFolder("hearth-demo-asr")!;
  const folder = await Deno.makeTempDir({ prefix: "hearth-translate-" });
  await copyFolder(source, folder);
  const rewrite = async (name: string, change: (text: string) => string) => {
    const text = await Deno.readTextFile(join(source, name));
    await Deno.remove(join(folder, name));
    await Deno.writeTextFile(join(folder, name), change(text));
  };
  const tasks = { transcribe: 778, translate: 777 };
  await rewrite(
    "generation_config.json",
    (text) => JSON.stringify({ ...JSON.parse(text), task_to_id: tasks }),
  );
  const names = { "<|translate|>": "<|transcribe|>", "<|transcribe|>": "<|translate|>" };
  if (swapsTasks) {
    await rewrite(
      "tokenizer.json",
      (text) =>
        text.replace(/<\|trans(late|cribe)\|>/g, (name) => names[name as keyof typeof names]),
    );
  }
  return { folder, [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }) };
}

speechTest(
  "translations: a model that was not trained to translate answers 400 and says why",
  async () => {
    await using app = await openSpeechApp();
    const { status, body } = await translate(app);
    assert.equal(status, 400);
    assert.equal(body.error.code, "unsupported_by_model");
    assert.match(body.error.message, /does not translate, since .* task translate/);
    const none = await app.request(PATH, { method: "POST", body: speechForm(undefined) });
    assert.equal((await none.json()).error.code, "missing_file");
  },
);

speechTest(
  "translations: formats and streams work, and fields that do not apply are refused by name",
  async () => {
    await using copy = await copyThatTranslates();
    await using app = await openSpeechApp({ folder: copy.folder });
    const { status, body: { text } } = await translate(app);
    assert.equal(status, 200);
    assert.equal(typeof text, "string");
    assert.equal((await translate(app, { response_format: "text" })).body, text);
    const { body: verbose } = await translate(app, {
      ...{ response_format: "verbose_json", language: "de", to_language: "en" },
    });
    assert.equal(verbose.language, "english");
    assert.ok(verbose.segments.length > 0);
    assert.match((await translate(app, { response_format: "vtt" })).body, /^WEBVTT/);
    const { body: streamed } = await translate(app, { stream: "true" });
    assert.match(streamed, /transcript\.text\.done/);
    const words = { response_format: "verbose_json", "timestamp_granularities[]": "word" };
    const cases: [Record<string, string>, string][] = [
      [{ to_language: "fr" }, "to_language"],
      [words, "timestamp_granularities[]"],
      [{ language: "xx" }, "language"],
      [{ temperature: "2" }, "temperature"],
    ];
    for (const [fields, param] of cases) {
      const { status, body } = await translate(app, fields);
      assert.deepEqual([status, body.error.param], [400, param]);
    }
  },
);

speechTest(
  "translations: the decoder begins with the model's own token for translation",
  async () => {
    await using copy = await copyThatTranslates();
    await using other = await copyThatTranslates({ swapsTasks: true });
    // The native runtime would choose kernels by timing, and other kernels sum in another order.
    const cpuRuntime = "web";
    await using app = await openSpeechApp({ folder: copy.folder, cpuRuntime });
    await using otherApp = await openSpeechApp({ folder: other.folder, cpuRuntime });
    const fields = { response_format: "verbose_json", language: "en" };
    const body = async () => speechForm(await readRecording(CLIP.file), fields);
    const readSegments = async (app: TestApp, path: string) => {
      const response = await app.request(path, { method: "POST", body: await body() });
      return (await response.json()).segments;
    };
    const transcribed = await readSegments(app, "/v1/audio/transcriptions");
    const translated = await readSegments(app, PATH);
    // At least the log-probabilities differ between the two tasks.
    assert.notDeepEqual(translated, transcribed);
    assert.deepEqual(translated, await readSegments(otherApp, "/v1/audio/transcriptions"));
    assert.deepEqual(transcribed, await readSegments(otherApp, PATH));
  },
);

const MULTILINGUAL = ["whisper-tiny", "whisper-base", "whisper-small"].map((name) =>
  findModelFolder(name)
).find((folder) => folder !== undefined);

Deno.test({
  name: "translations: a multilingual Whisper answers an English recording in English" +
    unlessThere(MULTILINGUAL !== undefined, "models/whisper-tiny", "OpenAI's own weights"),
  ignore: MULTILINGUAL === undefined,
  fn: async () => {
    await using app = await openSpeechApp({ folder: MULTILINGUAL! });
    const { status, body } = await translate(app, { response_format: "verbose_json" });
    assert.equal(status, 200);
    assert.equal(body.language, "english");
    assert.match(body.text, /alarm/i);
  },
});
