/** Speech models other than Whisper behind the same endpoints, with the real worker. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { makeWav } from "../fixtures/audio/audio_files.ts";
import goldens from "../fixtures/models/goldens/speech.json" with { type: "json" };
import { TestApp, TestServer } from "../fixtures/servers/server.ts";
import { fragileSpawner } from "../fixtures/threads/fragile.ts";
import { postSpeech, speechForm } from "../fixtures/servers/speech_server.ts";
import {
  goldenSound,
  makeTinySpeech,
  type TinySpeechModel,
} from "../fixtures/models/tiny_speech.ts";
import { GraphBuilder } from "../fixtures/graphs/graph_builder.ts";
import { eventJson } from "../fixtures/servers/sse.ts";

const SECONDS = 6.5;
const AUDIO = makeWav(goldenSound(SECONDS));

function readText(model: TinySpeechModel): string {
  const { text } = goldens.find((golden) => golden.model === model && golden.seconds === SECONDS)!;
  return text.replaceAll(/ +/g, " ");
}

async function withApp(
  model: TinySpeechModel,
  use: (app: TestApp) => Promise<void>,
  changes: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  await using tiny = await makeTinySpeech(model, changes);
  await using app = await new TestApp({ folder: tiny.folder }).ready();
  await use(app);
}

for (const model of ["moonshine", "wav2vec2"] as const) {
  Deno.test(`transcriptions with ${model} return the text in every format, as a stream, and in a chat`, async () => {
    await withApp(model, async (app) => {
      const text = readText(model);
      const ask = (fields: Record<string, string>) => postSpeech(app, AUDIO, fields);
      assert.deepEqual(await (await ask({})).json(), { text });
      assert.equal(await (await ask({ response_format: "text" })).text(), text);
      const verbose = await (await ask({ response_format: "verbose_json" })).json();
      assert.equal(verbose.text, text);
      assert.equal(verbose.duration, SECONDS);
      assert.equal(verbose.language, model === "moonshine" ? "english" : "");
      assert.equal(
        verbose.segments.map((each: { text: string }) => each.text).join("").trim(),
        text,
      );
      for (const { start, end, tokens, avg_logprob } of verbose.segments) {
        assert.ok(0 <= start && start < end && end <= SECONDS && tokens.length > 0);
        assert.ok(avg_logprob < 0 && Number.isFinite(avg_logprob));
      }
      const srt = await (await ask({ response_format: "srt" })).text();
      assert.match(srt, /^1\n00:00:0\d,\d{3} --> 00:00:0\d,\d{3}\n/);
      assert.match(await (await ask({ response_format: "vtt" })).text(), /^WEBVTT\n\n00:/);

      const events = eventJson(await (await ask({ stream: "true" })).text());
      assert.deepEqual(events.at(-1), { type: "transcript.text.done", text });
      const deltas = events.slice(0, -1).map(({ delta }) => delta);
      assert.equal(deltas.join(""), text);

      const url = `data:audio/wav;base64,${Buffer.from(AUDIO).toString("base64")}`;
      const content = [{ type: "text", text: "Write it down." }, {
        type: "audio",
        audio_url: { url },
      }];
      const messages = [{ role: "user", content }];
      const chat = await app.post("/v1/chat/completions", { model: "hearth-demo-chat", messages });
      assert.equal((await chat.json()).choices[0].message.content, text);
    });
  });
}

Deno.test("transcriptions: words have times if the model gives times of letters, and are refused otherwise", async () => {
  const asked = { response_format: "verbose_json", "timestamp_granularities[]": "word" };
  await withApp("wav2vec2", async (app) => {
    const { words, segments } = await (await postSpeech(app, AUDIO, asked)).json();
    assert.equal(segments, undefined);
    const texts = words.map(({ word }: { word: string }) => word);
    assert.deepEqual(texts, readText("wav2vec2").split(" "));
    for (const [i, { start, end }] of words.entries()) {
      assert.ok(start < end && end <= SECONDS && start >= (words[i - 1]?.end ?? 0));
    }
  });
  await withApp("moonshine", async (app) => {
    const response = await postSpeech(app, AUDIO, asked);
    const { error } = await response.json();
    assert.deepEqual([response.status, error.code], [400, "unsupported_by_model"]);
    assert.match(error.message, /since its architecture generates text without times/);
  });
});

Deno.test("transcriptions: an unknown language is refused with a list of the model's languages, or ignored", async () => {
  const ask = async (app: TestApp, language: string) => {
    const response = await postSpeech(app, AUDIO, { language });
    return [response.status, (await response.json()).error] as const;
  };
  /** Asserts that a language of the specification that the model does not know is ignored with a warning. */
  const assertPassedOver = async (app: TestApp, language: string) => {
    const response = await postSpeech(app, AUDIO, { language });
    await response.body!.cancel();
    assert.equal(response.status, 200);
    assert.match(response.headers.get("warning")!, new RegExp(`does not know ${language}"$`));
  };
  await withApp("moonshine", async (app) => {
    const [status, error] = await ask(app, "uk");
    assert.deepEqual([status, error.code, error.param], [400, "invalid_value", "language"]);
    assert.match(error.message, /does not know "uk"; it knows en\.$/);
    await assertPassedOver(app, "de");
    assert.equal((await ask(app, "en"))[0], 200);
  });
  await withApp("cohere_asr", async (app) => {
    assert.match((await ask(app, "uk"))[1].message, /it knows en, fr, ja\.$/);
    await assertPassedOver(app, "de");
    const french = await (await postSpeech(app, AUDIO, { language: "fr" })).json();
    assert.deepEqual(french, { text: readText("cohere_asr") });
  });
  const config = { model_type: "wav2vec2", vocab_size: 32, pad_token_id: 0, conv_stride: [320] };
  await withApp("wav2vec2", async (app) => {
    assert.match((await ask(app, "uk"))[1].message, /leave out this field\.$/);
    await assertPassedOver(app, "en");
  });
  await withApp("wav2vec2", async (app) => {
    assert.match((await ask(app, "uk"))[1].message, /it knows de\.$/);
    await assertPassedOver(app, "en");
    const verbose = await postSpeech(app, AUDIO, {
      language: "de",
      response_format: "verbose_json",
    });
    assert.equal((await verbose.json()).language, "german");
  }, { "config.json": { ...config, language: "de" } });
});

Deno.test("transcriptions: repeated requests at temperature 1 differ, and temperature 0 gives the likeliest words", async () => {
  await withApp("moonshine", async (app) => {
    const ask = async (temperature: string) =>
      (await (await postSpeech(app, AUDIO, { temperature })).json()).text;
    const drawn = await Promise.all(["1", "1", "1", "1"].map(ask));
    assert.ok(new Set(drawn).size > 1, drawn.join(" / "));
    assert.equal(await ask("0"), readText("moonshine"));
  });
});

/** Makes a CTC graph: splits the samples into frames of 400, and multiplies each by weights to 32 logits. */
function addFrames(numFrames: number): GraphBuilder {
  const graph = new GraphBuilder({ seed: 5 });
  const frames = graph.add("Reshape", ["input_values", graph.ints([1, numFrames, 400])]);
  graph.add("MatMul", [frames, graph.weights([400, 32])], { outputs: ["logits"] });
  return graph;
}

function buildFrames(graph: GraphBuilder): Uint8Array<ArrayBuffer> {
  return graph.build({
    inputs: [["input_values", "float32", ["batch_size", "sequence_length"]]],
    outputs: [["logits", "float32", ["batch_size", "frames", 32]]],
  });
}

/** The graph with its weights in a second file of weights, as large models have. */
function framesWithFiles(): Readonly<Record<string, Uint8Array>> {
  const graph = addFrames(-1);
  const index = graph.initializers.findIndex(({ dtype }) => dtype === "float32");
  const weights = graph.initializers[index]!;
  if (weights.data.kind !== "memory") throw new Error("The weights are made in memory.");
  const { bytes } = weights.data;
  const data = {
    kind: "file",
    file: "model.onnx_data_1",
    offset: 0,
    length: bytes.length,
  } as const;
  graph.initializers[index] = { ...weights, data };
  return {
    "onnx/model.onnx": buildFrames(graph),
    // No tensor is in this file.
    "onnx/model.onnx_data": new Uint8Array(8),
    "onnx/model.onnx_data_1": bytes,
  };
}

Deno.test("transcriptions: weights may be in separate files", async () => {
  const ask = async (app: TestApp) => await (await postSpeech(app, AUDIO)).json();
  let inside: unknown;
  await withApp("wav2vec2", async (app) => void (inside = await ask(app)), {
    "onnx/model.onnx": buildFrames(addFrames(-1)),
  });
  await withApp(
    "wav2vec2",
    async (app) => assert.deepEqual(await ask(app), inside),
    framesWithFiles(),
  );
});

Deno.test("transcriptions: a failing run of the graph ends only its own request", async () => {
  // This graph only takes one second of sound, the length that the warm-up also has.
  const good = makeWav(goldenSound(1));
  await withApp("wav2vec2", async (app) => {
    for (let round = 0; round < 2; round++) {
      const bad = await postSpeech(app, AUDIO);
      assert.equal(bad.status, 500);
      assert.equal((await bad.json()).error.code, "inference_failed");
      assert.equal((await postSpeech(app, good)).status, 200);
    }
  }, { "onnx/model.onnx": buildFrames(addFrames(16_000 / 400)) });
});

Deno.test("transcriptions: eight at a time give the same text as one alone, also while other clients disconnect", async () => {
  await using tiny = await makeTinySpeech("moonshine");
  await using server = await TestServer.start({ folder: tiny.folder });
  const send = async (signal?: AbortSignal) => {
    const init = { method: "POST", body: speechForm(AUDIO), ...(signal && { signal }) };
    return await (await fetch(`${server.base}/v1/audio/transcriptions`, init)).json();
  };
  const abort = new AbortController();
  const leaving = Array.from({ length: 4 }, () => assert.rejects(send(abort.signal)));
  const staying = Array.from({ length: 8 }, () => send());
  await server.untilBusy();
  abort.abort();
  await Promise.all(leaving);
  for (const answer of await Promise.all(staying)) {
    assert.deepEqual(answer, { text: readText("moonshine") });
  }
  await server.untilIdle();
  const before = await server.figure("hearth_completion_tokens_total");
  assert.deepEqual(await send(), { text: readText("moonshine") });
  assert.ok(await server.figure("hearth_completion_tokens_total") > before);
  assert.ok(await server.figure("hearth_audio_seconds_total") >= 9 * SECONDS);
});

Deno.test("the transcription of a ten-minute recording stops when its client disconnects", async () => {
  await using tiny = await makeTinySpeech("moonshine");
  const { spawnWorker, workers } = fragileSpawner();
  await using server = await TestServer.start({ folder: tiny.folder, spawnWorker });
  const long = makeWav(goldenSound(600));
  workers[0]!.postMessage({ type: "slow-steps", ms: 20 });
  const abort = new AbortController();
  const init = { method: "POST", body: speechForm(long), signal: abort.signal };
  const leaving = assert.rejects(fetch(`${server.base}/v1/audio/transcriptions`, init));
  await server.untilBusy();
  abort.abort();
  await leaving;
  await server.untilIdle();
  // Ten minutes would be more than twenty chunks.
  assert.ok(await server.figure("hearth_windows_total") < 15);
});
