/** Speech recognition as a client sees it, with the built-in model and the real worker. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { copyWithDisguisedAttention } from "../fixtures/graphs/disguised_softmax.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { postEndlessUpload } from "../fixtures/servers/endless_upload.ts";
import {
  CLIP,
  CLIP_TEXT,
  openSpeechApp,
  openSpeechServer,
  postSpeech,
  readRecording,
  speechForm,
} from "../fixtures/servers/speech_server.ts";
import { MODEL, shareApp, TestApp } from "../fixtures/servers/server.ts";
import { decodeWhole, makeWav, readFixture } from "../fixtures/audio/audio_files.ts";
import { findSpeechFolder, speechTest } from "../fixtures/audio/speech.ts";
import { readSpeechGoldens } from "../fixtures/audio/transcribe.ts";
import { eventData, eventJson } from "../fixtures/servers/sse.ts";

const app = shareApp({ folder: findModelFolder("hearth-demo-asr")! });

async function readError(
  response: Response,
): Promise<{ status: number; code: string; param?: string }> {
  const { error } = await response.json();
  assert.equal(typeof error.message, "string");
  return { status: response.status, code: error.code, ...(error.param && { param: error.param }) };
}

speechTest(
  "transcriptions: every response_format contains the text, with the fields of the format",
  async () => {
    const audio = await readRecording(CLIP.file);
    const ask = (fields: Record<string, string>) => postSpeech(app, audio, fields);

    const json = await ask({ response_format: "json", model: "ignored", prompt: "ignored" });
    assert.deepEqual([json.status, await json.json()], [200, { text: CLIP_TEXT }]);

    const text = await ask({ response_format: "text" });
    assert.equal(text.headers.get("content-type"), "text/plain; charset=utf-8");
    assert.equal(await text.text(), CLIP_TEXT);

    const srt = await ask({ response_format: "srt", language: "en", temperature: "0" });
    assert.equal(
      await srt.text(),
      "1\n00:00:00,460 --> 00:00:01,820\nSet an alarm for six in the morning.\n\n" +
        "2\n00:00:02,320 --> 00:00:03,640\nAsk Michael to feed the horse.\n\n",
    );
    const vtt = await ask({ response_format: "vtt" });
    assert.equal(vtt.headers.get("content-type"), "text/vtt; charset=utf-8");
    assert.match(await vtt.text(), /^WEBVTT\n\n00:00:00\.460 --> 00:00:01\.820\nSet an alarm/);

    const verbose = await (await ask({ response_format: "verbose_json" })).json();
    const { segments, ...rest } = verbose;
    assert.deepEqual(rest, {
      task: "transcribe",
      language: "english",
      duration: 3.918,
      text: CLIP_TEXT,
    });
    assert.deepEqual(
      segments.map(({ id, seek, start, end, text }: Record<string, unknown>) => ({
        id,
        seek,
        start,
        end,
        text,
      })),
      [
        { id: 0, seek: 0, start: 0.46, end: 1.82, text: " Set an alarm for six in the morning." },
        { id: 1, seek: 0, start: 2.32, end: 3.64, text: " Ask Michael to feed the horse." },
      ],
    );
    for (const segment of segments) {
      assert.ok(segment.avg_logprob < 0 && segment.avg_logprob > -1);
      assert.ok(segment.compression_ratio > 0 && segment.compression_ratio < 2.4);
      assert.ok(segment.no_speech_prob >= 0 && segment.no_speech_prob < 0.6);
      assert.equal(segment.temperature, 0);
    }
  },
);

speechTest("transcriptions: words, segments or both have times, as requested", async () => {
  const audio = await readRecording(CLIP.file);
  const ask = async (...granularities: string[]) => {
    const form = speechForm(audio, { response_format: "verbose_json" });
    for (const each of granularities) form.append("timestamp_granularities[]", each);
    const init = { method: "POST", body: form };
    return await (await app.request("/v1/audio/transcriptions", init)).json();
  };
  const plain = await ask();
  assert.equal("words" in plain, false);
  const { words, ...rest } = await ask("word", "segment");
  assert.deepEqual(rest, plain);
  assert.equal(words.map(({ word }: { word: string }) => word).join(" "), CLIP_TEXT);
  const [first, second] = plain.segments;
  for (const [i, { word, start, end }] of words.entries()) {
    const segment = i < 8 ? first : second;
    assert.ok(start >= segment.start && end <= segment.end && start <= end, word);
    assert.equal(start, Number(start.toFixed(2)));
    assert.ok(i === 0 || start >= words[i - 1].end, word);
  }
  assert.deepEqual(await ask("segment"), plain);
  const { segments: _, ...onlyWords } = { ...plain, words };
  assert.deepEqual(await ask("word"), onlyWords);
  assert.deepEqual(await ask("word", "word"), onlyWords);
  const unbracketed = { response_format: "verbose_json", timestamp_granularities: "word" };
  assert.deepEqual(await (await postSpeech(app, audio, unbracketed)).json(), onlyWords);
  const empty = { response_format: "verbose_json", "timestamp_granularities[]": "" };
  assert.deepEqual(await (await postSpeech(app, audio, empty)).json(), plain);
});

speechTest(
  "transcriptions: word times are refused if the decoder's attention is not recognized",
  async () => {
    await using folder = await copyWithDisguisedAttention();
    await using app = await openSpeechApp({ folder: folder.path });
    const audio = await readRecording(CLIP.file);
    const asked = { response_format: "verbose_json", "timestamp_granularities[]": "word" };
    const response = await postSpeech(app, audio, asked);
    assert.deepEqual(await readError(response.clone()), {
      status: 400,
      code: "unsupported_by_model",
      param: "timestamp_granularities",
    });
    assert.match(
      (await response.json()).error.message,
      /since the graph of its decoder is not cut/,
    );
    const { text } = await (await postSpeech(app, audio)).json();
    assert.equal(text, CLIP_TEXT);
  },
);

speechTest(
  "transcriptions: a stream has each segment as it is decoded, then the whole text",
  async () => {
    const { long } = readSpeechGoldens(findSpeechFolder()!);
    const response = await postSpeech(app, await readRecording(long.file), { stream: "true" });
    assert.match(response.headers.get("content-type")!, /^text\/event-stream/);
    const events = eventJson(await response.text());
    const deltas = events.filter(({ type }) => type === "transcript.text.delta");
    assert.equal(deltas.length, long.sequential.segments.length);
    const text = long.sequential.text.trim();
    assert.equal(deltas.map(({ delta }) => delta).join(""), text);
    assert.deepEqual(events.at(-1), { type: "transcript.text.done", text });
  },
);

speechTest(
  "transcriptions: languages, flags and granularities are accepted in common spellings",
  async () => {
    const audio = await readRecording(CLIP.file);
    const spellings = ["EN", "en-US", "en_GB", "eng", "English", "ENGLISH", "auto", " ", "Auto"];
    for (const language of spellings) {
      const response = await postSpeech(app, audio, { language, stream: "False" });
      assert.equal(response.headers.has("warning"), false);
      assert.deepEqual(await response.json(), { text: CLIP_TEXT }, language);
    }
    // Three names of Filipino, which the specification has but this model does not know.
    for (const language of ["fil", "Tagalog", "tl"]) {
      const response = await postSpeech(app, audio, { language });
      assert.match(
        response.headers.get("warning")!,
        /^299 hearth "language is ignored: .* fil"$/,
      );
      assert.deepEqual(await response.json(), { text: CLIP_TEXT });
    }
    for (const stream of ["True", "1", "yes"]) {
      const response = await postSpeech(app, audio, { stream });
      assert.match(response.headers.get("content-type")!, /^text\/event-stream/);
      await response.body!.cancel();
    }
    const both = [
      { "timestamp_granularities[0]": "word", "timestamp_granularities[1]": "segment" },
      { timestamp_granularities: "word,segment" },
      { timestamp_granularities: "words,segments" },
      { "timestamp_granularities[]": '["word", "segment"]' },
    ];
    for (const fields of both) {
      const response = await postSpeech(app, audio, { ...fields, response_format: "verbose_json" });
      const { words, segments } = await response.json();
      assert.ok(words.length > 5 && segments.length > 0, JSON.stringify(fields));
    }
  },
);

speechTest(
  "transcriptions: fields that the format cannot represent are ignored with a warning",
  async () => {
    const audio = await readRecording(CLIP.file);
    const plain = await (await postSpeech(app, audio, { response_format: "srt" })).text();
    const cases: [Record<string, string>, RegExp][] = [
      [{ "timestamp_granularities[]": "word" }, /timestamp_granularities\[\].*verbose_json/],
      [{ timestamp_granularities: "segment" }, /timestamp_granularities.*verbose_json/],
      [{ "include[]": "logprobs" }, /include\[\] logprobs is ignored/],
      [{ include: "logprobs" }, /include logprobs is ignored/],
    ];
    for (const [fields, warning] of cases) {
      const response = await postSpeech(app, audio, { ...fields, response_format: "srt" });
      assert.deepEqual([response.status, await response.text()], [200, plain]);
      assert.match(response.headers.get("warning")!, warning);
    }
  },
);

speechTest("transcriptions: invalid values are refused, and the field is named", async () => {
  const audio = await readRecording(CLIP.file);
  const cases: [Record<string, string>, string, string][] = [
    [{ response_format: "docx" }, "unsupported_format", "response_format"],
    [{ response_format: "srt", stream: "true" }, "unsupported_format", "response_format"],
    [{ language: "xx" }, "invalid_value", "language"],
    [{ language: "la" }, "invalid_value", "language"],
    [{ language: "__proto__" }, "invalid_value", "language"],
    [{ temperature: "1.1" }, "invalid_value", "temperature"],
    [{ temperature: "-0.1" }, "invalid_value", "temperature"],
    [{ temperature: "warm" }, "invalid_value", "temperature"],
    [{ temperature: "0x1" }, "invalid_value", "temperature"],
    [{ stream: "maybe" }, "invalid_value", "stream"],
    [
      { "timestamp_granularities[]": "letter", response_format: "verbose_json" },
      "invalid_value",
      "timestamp_granularities[]",
    ],
  ];
  for (const [fields, code, param] of cases) {
    const error = await readError(await postSpeech(app, audio, fields));
    assert.deepEqual(error, { status: 400, code, param }, JSON.stringify(fields));
  }
  const letters = { "timestamp_granularities[]": "letter", response_format: "verbose_json" };
  const { error } = await (await postSpeech(app, audio, letters)).json();
  assert.match(error.message, /want word, segment or both, saw "letter"\.$/);
  const unknown = await (await postSpeech(app, audio, { language: "Latin" })).json();
  assert.match(unknown.error.message, /it knows zh, en, de, fr, es, it, ja/);
});

speechTest(
  "transcriptions: bodies without a file, files without audio and other body types are refused",
  async () => {
    const missing = { status: 400, code: "missing_file", param: "file" };
    assert.deepEqual(await readError(await postSpeech(app, undefined)), missing);
    assert.deepEqual(await readError(await app.post("/audio/transcriptions", {})), missing);
    const empty = await app.request("/audio/transcriptions", { method: "POST" });
    assert.deepEqual(await readError(empty), missing);
    for (const bytes of ["", "no audio", '{"a":1}', "RIFF\0\0\0\0WAVE"]) {
      const error = await readError(await postSpeech(app, new TextEncoder().encode(bytes)));
      assert.deepEqual(error, { status: 400, code: "invalid_media", param: "file" }, bytes);
    }
    const broken = await app.request("/audio/transcriptions", {
      method: "POST",
      headers: { "content-type": "multipart/form-data; boundary=b" },
      body: "no form",
    });
    assert.equal((await readError(broken)).code, "invalid_value");
  },
);

Deno.test("transcriptions: refused while no model is loaded, and by models of other kinds", async () => {
  await using loading = new TestApp();
  const audio = new Uint8Array(4);
  const unready = await readError(await postSpeech(loading, audio));
  assert.deepEqual(unready, { status: 503, code: "model_not_loaded" });
  await using text = await new TestApp().ready();
  const unsupported = await readError(await postSpeech(text, audio));
  assert.deepEqual(unsupported, { status: 400, code: "unsupported_by_model" });
});

Deno.test("transcriptions: the same speech has the same text in seven audio formats and at several sample rates", async () => {
  const formats = [
    "speech.wav",
    "speech_22k.mp3",
    "speech_44k_stereo.m4a",
    "speech_44k_stereo.ogg",
    "speech_22k_stereo.flac",
    "speech_48k_stereo.opus",
    "speech_48k_opus.webm",
  ];
  for (const name of formats) {
    const { text } = await (await postSpeech(app, readFixture(name))).json();
    assert.equal(text, "Write a letter to Anna.", name);
  }
});

speechTest(
  "transcriptions: more than 100 MiB is refused while it is read, on a real port",
  async () => {
    await using server = await openSpeechServer();
    const response = await postEndlessUpload(`${server.base}/v1/audio/transcriptions`, speechForm);
    assert.deepEqual(await readError(response), { status: 413, code: "payload_too_large" });
  },
);

speechTest(
  "transcriptions: three simultaneous uploads give the same text and tokens as each alone",
  async () => {
    const files = ["03_sent.wav", "long_40s.wav", CLIP.file];
    const ask = async (file: string) => {
      const response = await postSpeech(app, await readRecording(file), {
        response_format: "verbose_json",
      });
      const { text, segments } = await response.json();
      return { text, tokens: segments.map(({ tokens }: { tokens: number[] }) => tokens) };
    };
    const together = await Promise.all(files.map(ask));
    for (const [index, file] of files.entries()) {
      assert.deepEqual(together[index], await ask(file), file);
    }
  },
);

speechTest(
  "transcriptions: the work for clients that disconnect ends, and later requests are answered",
  async () => {
    await using server = await openSpeechServer({ engine: { prefixCache: true, maxSequences: 1 } });
    const samples = await decodeWhole(await readRecording("long_40s.wav"));
    // More than three minutes, so that no machine finishes before the client disconnects.
    const audio = makeWav(Array.from({ length: 5 }, () => [...samples]).flat());
    // Of the two requests, one is processed and one waits when both are aborted.
    const withWords = { response_format: "verbose_json", "timestamp_granularities[]": "word" };
    for (
      const [afterMs, fields] of [[0, {}], [30, withWords], [300, {}], [400, withWords]] as const
    ) {
      const controller = new AbortController();
      const calls = [0, 1].map(() =>
        fetch(`${server.base}/v1/audio/transcriptions`, {
          method: "POST",
          body: speechForm(audio, fields),
          signal: controller.signal,
        })
      );
      setTimeout(() => controller.abort(), afterMs);
      const outcomes = await Promise.allSettled(calls);
      assert.deepEqual(outcomes.map(({ status }) => status), ["rejected", "rejected"]);
      await server.untilIdle();
    }
    const clip = await readRecording(CLIP.file);
    const after = await fetch(`${server.base}/v1/audio/transcriptions`, {
      method: "POST",
      body: speechForm(clip),
    });
    assert.equal((await after.json()).text, CLIP_TEXT);
  },
);

speechTest("chat: an audio part is transcribed, with and without a stream", async () => {
  const data = Buffer.from(await readRecording(CLIP.file)).toString("base64");
  const parts = [
    { type: "audio", audio_url: { url: `base64://${data}` } },
    { type: "audio_url", audio_url: `data:audio/wav;base64,${data}` },
    { type: "input_audio", input_audio: { data, format: "wav" } },
    { type: "audio", audio_url: { url: `file://${findSpeechFolder()}/demo/${CLIP.file}` } },
  ];
  const makeBody = (part: unknown, extra = {}) => ({
    model: MODEL,
    messages: [{ role: "user", content: [{ type: "text", text: "Write it down." }, part] }],
    ...extra,
  });
  for (const part of parts) {
    const completion = await (await app.post("/v1/chat/completions", makeBody(part))).json();
    assert.equal(completion.choices[0].message.content, CLIP_TEXT);
    assert.equal(completion.choices[0].finish_reason, "stop");
    assert.ok(completion.usage.completion_tokens > 0);
  }
  const response = await app.post("/chat/completions", makeBody(parts[0], { stream: true }));
  const events = eventData(await response.text());
  assert.equal(events.pop(), "[DONE]");
  const chunks = events.map((event) => JSON.parse(event).choices[0]);
  assert.equal(chunks.map(({ delta }) => delta.content ?? "").join(""), CLIP_TEXT);
  assert.equal(chunks.at(-1).finish_reason, "stop");
});

speechTest(
  "chat: a transcript ends before the segment that would exceed max_tokens",
  async () => {
    const data = Buffer.from(await readRecording(CLIP.file)).toString("base64");
    const content = [{ type: "input_audio", input_audio: { data, format: "wav" } }];
    const ask = async (limits: object) => {
      const messages = [{ role: "user", content }];
      const body = { model: MODEL, messages, ...limits };
      const { choices: [choice], usage } = await (await app.post("/v1/chat/completions", body))
        .json();
      return { ...choice, usage };
    };
    const none = await ask({ max_tokens: 1 });
    assert.equal(none.message.content, "");
    assert.equal(none.finish_reason, "length");
    assert.equal(none.usage.completion_tokens, 0);
    assert.ok(none.usage.prompt_tokens > 0);
    const whole = await ask({ max_tokens: 1, max_completion_tokens: 400 });
    assert.equal(whole.message.content, CLIP_TEXT);
    assert.equal(whole.finish_reason, "stop");
  },
);

speechTest(
  "chat: a message without exactly one audio part, and fields it cannot have, are refused by name",
  async () => {
    const audio = { type: "audio", audio_url: { url: "base64://AAAA" } };
    const ask = async (content: unknown, extra = {}) =>
      await readError(
        await app.post("/v1/chat/completions", {
          model: MODEL,
          messages: [{ role: "user", content }],
          ...extra,
        }),
      );
    const status = 400;
    const param = "messages[0].content";
    assert.deepEqual(await ask("hello"), { status, code: "invalid_value", param });
    assert.deepEqual(await ask([audio, audio]), { status, code: "invalid_value", param });
    const code = "unsupported_by_model";
    assert.deepEqual(await ask([audio], { n: 2 }), { status, code, param: "n" });
    assert.deepEqual(await ask([audio], { logprobs: true, top_logprobs: 2 }), {
      status,
      code: "unsupported_by_model",
      param: "logprobs",
    });
    assert.deepEqual(await ask([{ type: "image", image_url: "base64://AAAA" }]), {
      status,
      code: "unsupported_by_model",
      param: `${param}[0]`,
    });
    assert.deepEqual(await ask([{ type: "audio", audio_url: "base64://*" }]), {
      status,
      code: "invalid_media",
      param: `${param}[0]`,
    });
    assert.deepEqual(await ask([audio]), { status, code: "invalid_media", param: `${param}[0]` });
  },
);

speechTest("transcriptions: a truncated file is transcribed, and the answer says so", async () => {
  const whole = readFixture("speech.wav");
  for (const audio of [whole, whole.slice(0, -4_001)]) {
    const isCut = audio !== whole;
    const answer = await postSpeech(app, audio, { response_format: "verbose_json" });
    const { truncated, duration } = await answer.json();
    assert.equal(truncated, isCut ? true : undefined);
    assert.equal(answer.headers.get("truncated"), isCut ? "true" : null);
    assert.ok(isCut === duration < 1.4);
    const stream = await (await postSpeech(app, audio, { stream: "true" })).text();
    assert.equal(stream.includes('"truncated":true'), isCut);
    const content = [{ type: "audio", audio_url: `base64://${audio.toBase64()}` }];
    const chat = await app.post("/chat/completions", {
      model: MODEL,
      messages: [{ role: "user", content }],
    });
    assert.equal(chat.status, 200);
    assert.equal(chat.headers.get("truncated"), isCut ? "true" : null);
  }
});
