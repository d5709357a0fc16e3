/** The official OpenAI client's transcriptions against a real server on a real port. */
import assert from "node:assert/strict";
import OpenAI, { APIError, BadRequestError } from "openai";
import {
  CLIP,
  CLIP_TEXT,
  openSpeechServer,
  readRecording,
} from "../../fixtures/servers/speech_server.ts";
import { speechTest } from "../../fixtures/audio/speech.ts";
import { MODEL } from "../../fixtures/servers/server.ts";

speechTest(
  "openai: transcriptions are returned in all formats, streamed, aborted and refused",
  async () => {
    await using server = await openSpeechServer();
    const client = new OpenAI({ baseURL: `${server.base}/v1`, apiKey: "any", maxRetries: 0 });
    const { transcriptions } = client.audio;
    const bytes = await readRecording(CLIP.file);
    const ask = {
      model: MODEL,
      file: new File([bytes], CLIP.file),
      language: "en",
      temperature: 0,
    };

    assert.equal((await transcriptions.create(ask)).text, CLIP_TEXT);
    assert.equal(await transcriptions.create({ ...ask, response_format: "text" }), CLIP_TEXT);
    const verbose = await transcriptions.create({
      ...ask,
      response_format: "verbose_json",
      timestamp_granularities: ["segment"],
    });
    assert.equal(verbose.language, "english");
    assert.equal(verbose.segments![1]!.start, 2.32);
    const withWords = await transcriptions.create({
      ...ask,
      response_format: "verbose_json",
      timestamp_granularities: ["word", "segment"],
    });
    assert.deepEqual(withWords.segments, verbose.segments);
    assert.equal(withWords.words!.map(({ word }) => word).join(" "), CLIP_TEXT);
    assert.ok(
      withWords.words!.every(({ start, end }) => start <= end && end <= withWords.duration),
    );
    const onlyWords = await transcriptions.create({
      ...ask,
      response_format: "verbose_json",
      timestamp_granularities: ["word"],
    });
    assert.deepEqual(onlyWords.words, withWords.words);
    assert.equal(onlyWords.segments, undefined);
    // Granularities are ignored for formats without times.
    const { text } = await transcriptions.create({ ...ask, timestamp_granularities: ["word"] });
    assert.equal(text, CLIP_TEXT);
    assert.match(
      await transcriptions.create({ ...ask, response_format: "srt" }),
      /^1\n00:00:00,460/,
    );
    assert.match(await transcriptions.create({ ...ask, response_format: "vtt" }), /^WEBVTT/);

    const events = await Array.fromAsync(await transcriptions.create({ ...ask, stream: true }));
    const deltas = events.map((event) => event.type === "transcript.text.delta" ? event.delta : "");
    assert.equal(deltas.join(""), CLIP_TEXT);
    const last = events.at(-1)!;
    assert.ok(last.type === "transcript.text.done" && last.text === CLIP_TEXT);

    const controller = new AbortController();
    const long = new File([await readRecording("long_40s.wav")], "long.wav");
    const aborted = transcriptions.create({ ...ask, file: long }, { signal: controller.signal });
    const inFlight = (async () => {
      while (server.app.session.numInFlight === 0) {
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      controller.abort();
    })();
    await assert.rejects(aborted, OpenAI.APIUserAbortError);
    await inFlight;
    await server.untilIdle();

    await assert.rejects(
      transcriptions.create({ ...ask, language: "Klingon" }),
      (error) => error instanceof BadRequestError && error.param === "language",
    );
    await assert.rejects(
      transcriptions.create({ ...ask, file: new File(["x"], "x.wav") }),
      (error) => error instanceof APIError && error.code === "invalid_media",
    );
    // The built-in recogniser was not trained to translate: test/http/translations_test.ts uses one that was.
    await assert.rejects(
      client.audio.translations.create({ model: MODEL, file: ask.file }),
      (error) => error instanceof BadRequestError && error.code === "unsupported_by_model",
    );
    const completion = await client.chat.completions.create({
      model: MODEL,
      messages: [{
        role: "user",
        content: [
          { type: "text", text: "Write it down." },
          {
            type: "input_audio",
            input_audio: { data: bytes.toBase64(), format: "wav" },
          },
        ],
      }],
    });
    assert.equal(completion.choices[0]!.message.content, CLIP_TEXT);
  },
);
