/**
 * `POST /audio/speech`: speech as JSON, audio or server-sent events. `GET /audio/voices`: the voices for it.
 *
 * @module
 */
import { z } from "zod";
import { requireEndpoint, requireModelName } from "../../../wire/models.ts";
import {
  AudioCompletion,
  makeAudioCompletion,
  makeCompletionHead,
} from "../../../wire/chat_response.ts";
import {
  makeVoiceList,
  type ParsedSpeechRequest,
  parseSpeech,
  requireSpeakable,
  SpeechEvent,
  SpeechRequest,
  VoiceList,
} from "../../../wire/speech.ts";
import { findUnserved } from "../../../wire/unserved_fields.ts";
import { readJson } from "../body/body.ts";
import { type AppDeps, type Call, JSON_ERRORS, type Route } from "../route.ts";
import { type LocatedPart, readPart, toMedium } from "../media.ts";
import {
  formatErrorEvent,
  formatEvent,
  logFailure,
  prepend,
  streamEvents,
  type TaskEvents,
  waitForAdmission,
} from "../sse.ts";
import { getMediaDeps, warn } from "../requests.ts";
import { isWords } from "../../../wire/chat_message.ts";
import { HearthError } from "../../../base/errors.ts";
import type { ModelInfo } from "../../../worker/protocol.ts";
import { joinBytes } from "../../../base/bytes.ts";
import { closeWavHeader, CONTENT_TYPES, type SoundFormat } from "../../../media/sound_format.ts";
import type { SpeakEvent } from "../../../models/task.ts";
import { requireSuccess } from "../../session/task_stream.ts";

const PATH = "/audio/speech";

/** The endpoint that synthesizes speech, and answers with JSON, audio or events. */
export function speechRoute(deps: AppDeps): Route {
  const sound = z.string().meta({ format: "binary" });
  return {
    method: "POST",
    path: PATH,
    operation: {
      summary: "Synthesize speech",
      description:
        "With `messages` the answer is a chat completion that holds the audio. An audio part " +
        "next to the text is a recording whose voice is cloned, if the model supports it. With " +
        "`input` the answer is the audio itself, sent sentence by sentence. An error after the " +
        "first sentence cuts the answer short.",
      request: SpeechRequest,
      requestExamples: {
        "a text": { model: "hearth-demo-tts", input: "Hello there.", voice: "af_alloy" },
      },
      response: {
        description: "The speech, in the requested format",
        content: {
          "application/json": AudioCompletion,
          "audio/mpeg": sound,
          "audio/ogg": sound,
          "audio/flac": sound,
          "audio/wav": sound,
          "audio/pcm": sound,
          "text/event-stream": SpeechEvent,
        },
      },
      errors: [...JSON_ERRORS, "invalid_media", "unsupported_format", "model_not_found"],
    },
    handle: (call) => answerSpeech(call, deps),
  };
}

async function answerSpeech(call: Call, deps: AppDeps): Promise<Response> {
  const { session, bodyLimits } = deps;
  session.requireRoom();
  const body = await readJson(call.req.raw, bodyLimits);
  const request = parseSpeech(body);
  const info = session.requireReady();
  requireModelName(info, request.model);
  requireEndpoint(info, PATH);
  warn(call, ...findUnserved(body, "speech"), ...request.warnings);
  const { text, param, recording: located } = findSpokenText(request, info);
  requireSpeakable(text, param);
  const requestId = call.get("requestId");
  const { format, speed, seed } = request;
  const voice = request.voice === undefined ? undefined : findVoice(info, request.voice);
  const { signal } = call.req.raw;
  const recording = located && {
    audio: await readPart(located.part, { ...getMediaDeps(call, deps), param: located.param }),
    param: located.param,
  };
  const wanted = { text, param, voice, recording, speed, format, seed };
  const events = await waitForAdmission(
    session.stream({ type: "speak", requestId, ...wanted }, { signal }),
  );
  if (request.messages !== undefined) {
    return call.json(await makeCompletion(events, { model: info.id, format }));
  }
  if (!request.sendsEvents) return await streamSound(events, { format, requestId });
  return streamEvents(events, formatSpeech, { requestId, emptyEvent: NO_SPEECH });
}

/** The text to speak, and its path in the request. */
interface SpokenText {
  readonly text: string;
  readonly param: string;
  /** The recording whose voice is to be cloned. */
  readonly recording?: LocatedPart | undefined;
}

/**
 * Finds the text to speak: `input`, or the text parts of the last user message, which may also have an audio part.
 *
 * @throws {HearthError} `invalid_value` when there is no such message, more than one recording, or both a recording and
 * a voice; `unsupported_by_model` for images and files, and for recordings if the model cannot clone voices.
 */
function findSpokenText(request: ParsedSpeechRequest, info: ModelInfo): SpokenText {
  const { input, messages = [] } = request;
  if (input !== undefined) return { text: input, param: "input" };
  const index = messages.findLastIndex(({ role }) => role === "user");
  const content = messages[index]?.content;
  if (content === undefined || content === null) {
    throw invalid("messages", "want a user message, saw none");
  }
  const param = `messages[${index}].content`;
  if (typeof content === "string") return { text: content, param };
  const texts: string[] = [];
  const recordings: LocatedPart[] = [];
  for (const [index, part] of content.entries()) {
    if (part.type === "text") texts.push(part.text);
    else if (!isWords(part)) recordings.push({ part, param: `${param}[${index}]` });
  }
  const [recording, another] = recordings;
  for (const each of recordings) requireCloning(each, info);
  if (another !== undefined) {
    throw invalid(another.param, `want at most one recording, saw ${recordings.length}`);
  }
  if (recording !== undefined && request.voice !== undefined) {
    throw invalid("voice", "want it left out, because the voice of the recording is cloned");
  }
  return { text: texts.join("\n\n"), param, recording };
}

/**
 * Checks that a part is audio, and that the model can clone the voice in it.
 *
 * @throws {HearthError} `unsupported_by_model` if not.
 */
function requireCloning(
  { part, param }: LocatedPart,
  { id, kind, noRecordings }: ModelInfo,
): void {
  const why = toMedium(part) !== "audio"
    ? `takes text and recordings here, saw a part of type ${part.type}`
    : noRecordings && `cannot clone the voice of a recording: ${noRecordings}`;
  if (why === undefined) return;
  throw new HearthError(
    "unsupported_by_model",
    `${param}: the loaded model ${id} (${kind}) ${why}.`,
    { param },
  );
}

function invalid(param: string, message: string): HearthError {
  return new HearthError("invalid_value", `${param}: ${message}.`, { param });
}

/** Maximum number of voices that an error message names. */
const MAX_SHOWN = 20;

/** The endpoint that lists the voices of the loaded model. */
export function voicesRoute({ session }: AppDeps): Route {
  return {
    method: "GET",
    path: "/audio/voices",
    operation: {
      summary: "The voices of the loaded model",
      response: { description: "The list", content: VoiceList },
      errors: ["unsupported_by_model", "model_not_loaded", "shutting_down"],
    },
    handle: (call) => {
      const info = session.requireReady();
      requireEndpoint(info, "/audio/speech", "/audio/voices");
      return call.json(makeVoiceList(info.voices ?? []));
    },
  };
}

/**
 * Finds the id of the voice called `name`. A name matches an id regardless of case, or the part of an id after `_` if
 * only one id has that part: `alloy` is `af_alloy`. `default` is the first voice.
 *
 * @throws {HearthError} `invalid_value`, naming the voices that the model has.
 */
export function findVoice({ id: model, voices = [] }: ModelInfo, name: string): string {
  const wanted = name.toLowerCase();
  const exact = voices.find(({ id }) => id.toLowerCase() === wanted);
  const similar = voices.filter(({ id }) => id.toLowerCase().endsWith(`_${wanted}`));
  const found = exact ?? (similar.length === 1 ? similar[0] : undefined) ??
    (wanted === "default" ? voices[0] : undefined);
  if (found !== undefined) return found.id;
  if (voices.length === 0) {
    const advice = "to clone a voice, send text and a recording in messages";
    throw invalid("voice", `${model} has no voice of its own; ${advice}`);
  }
  const shown = voices.slice(0, MAX_SHOWN).map(({ id }) => id).join(", ");
  const more = voices.length > MAX_SHOWN ? ` and ${voices.length - MAX_SHOWN} more` : "";
  const seen = JSON.stringify(name.slice(0, 40));
  throw invalid(
    "voice",
    `want a voice of ${model}: ${shown}${more} (see /audio/voices), saw ${seen}`,
  );
}

const MIB = 1024 * 1024;
/**
 * Maximum number of bytes of audio in a response that is not streamed. As base64 in JSON, more would approach the
 * length of JavaScript's longest string.
 */
const MAX_WHOLE_BYTES = 100 * MIB;

/**
 * Reads all the audio and returns it as a chat completion.
 *
 * @throws {HearthError} the error of an error event; `invalid_value` when the audio is too long for JSON.
 */
async function makeCompletion(
  events: TaskEvents<SpeakEvent>,
  { model, format }: { readonly model: string; readonly format: SoundFormat },
): Promise<AudioCompletion> {
  const { file, numTokens } = await readWhole(events, format);
  const head = makeCompletionHead(model);
  return makeAudioCompletion(head, { file, contentType: CONTENT_TYPES[format], numTokens });
}

/**
 * Streams audio as it is generated. If all audio comes in one event, the response has a `content-length`. An error
 * after the first audio is logged, and cuts the response off.
 *
 * @throws {HearthError} the error of an error event that comes first.
 */
async function streamSound(
  events: TaskEvents<SpeakEvent>,
  { format, requestId }: { readonly format: SoundFormat; readonly requestId: string },
): Promise<Response> {
  const headers = { "content-type": CONTENT_TYPES[format] };
  let result = await events.next();
  if (result.value?.type === "admitted") result = await events.next();
  const { value: first } = result;
  const all = prepend(Promise.resolve(result), events);
  if (first?.type !== "audio" || first.isLast) {
    const { file } = await readWhole(all, format);
    return new Response(file, { headers: { ...headers, "content-length": `${file.length}` } });
  }
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value: event } = await all.next();
      if (done || event.type === "done") return controller.close();
      if (event.type === "audio") return controller.enqueue(event.bytes);
      if (event.type === "admitted") return;
      const error = HearthError.fromWire(event.error);
      logFailure(requestId, error);
      controller.error(error);
    },
    async cancel() {
      await all.return();
    },
  }, { highWaterMark: 0 });
  return new Response(body, {
    // Neither caches nor proxies may buffer the audio.
    headers: { ...headers, "cache-control": "no-cache, no-transform", "x-accel-buffering": "no" },
  });
}

/** An event without audio. */
const NO_SPEECH: string = writeSpeechEvent({ type: "speech.audio.delta", audio: "" });

function writeSpeechEvent(event: SpeechEvent): string {
  return formatEvent(JSON.stringify(event));
}

/** Formats an event of the worker for the client. */
function formatSpeech(event: SpeakEvent): string {
  switch (event.type) {
    case "admitted":
      return "";
    case "audio":
      return writeSpeechEvent({ type: "speech.audio.delta", audio: event.bytes.toBase64() });
    case "error":
      return formatErrorEvent(event.error);
    case "done": {
      const { textTokens: tokens } = event;
      const usage = { input_tokens: tokens, output_tokens: 0, total_tokens: tokens };
      return writeSpeechEvent({ type: "speech.audio.done", usage });
    }
  }
}

/**
 * Reads all the audio into one file. The header of a WAV file gets the length.
 *
 * @throws {HearthError} the error of an error event; `invalid_value` when the audio is too long for one response.
 */
async function readWhole(
  events: TaskEvents<SpeakEvent>,
  format: SoundFormat,
): Promise<{ file: Uint8Array<ArrayBuffer>; numTokens: number }> {
  const parts: Uint8Array[] = [];
  let numBytes = 0;
  let numTokens = 0;
  for await (const event of requireSuccess(events)) {
    if (event.type === "done") numTokens = event.textTokens;
    if (event.type !== "audio") continue;
    parts.push(event.bytes);
    numBytes += event.bytes.length;
    if (numBytes <= MAX_WHOLE_BYTES) continue;
    throw new HearthError(
      "invalid_value",
      `The speech is longer than the ${MAX_WHOLE_BYTES / MIB} MiB that one answer may hold. ` +
        "Send the text as input, so that the audio is streamed, or request mp3 or opus.",
    );
  }
  const file = joinBytes(parts);
  if (format === "wav") closeWavHeader(file);
  return { file, numTokens };
}
