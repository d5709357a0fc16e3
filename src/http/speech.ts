/**
 * `POST /audio/speech`.
 *
 * @module
 */
import { z } from "zod";
import { requireEndpoint, requireModelName } from "../api/endpoints.ts";
import { AudioCompletion } from "../api/media_completion.ts";
import {
  parseSpeech,
  requireSpeakable,
  SpeechRequest,
  type SpeechWish,
} from "../api/speech_request.ts";
import { SpeechEvent } from "../api/speech_response.ts";
import { HearthError } from "../errors.ts";
import { log } from "../log.ts";
import type { ModelInfo } from "../worker/protocol.ts";
import { readJson } from "./body.ts";
import { type AppDeps, type Call, JSON_ERRORS, type Route } from "./route.ts";
import { createSpeechFormat, speechAsJson, speechAsSound } from "./speech_answer.ts";
import { streamEvents } from "./sse.ts";
import { untilBegun } from "./task_events.ts";
import { findVoice } from "./voices.ts";

const PATH = "/audio/speech";

/** Texts in, speech out; as JSON, as sound or as events. */
export function speechRoute(deps: AppDeps): Route {
  const sound = z.string().meta({ format: "binary" });
  return {
    method: "POST",
    path: PATH,
    operation: {
      summary: "Speak a text",
      description: "With `messages` the answer is a chat completion that holds the sound. With " +
        "`input` it is the sound itself, sent sentence by sentence; an error after the first of " +
        "them breaks it off.",
      request: { "application/json": SpeechRequest },
      requestExample: { model: "kokoro-82m", input: "Hello there.", voice: "af_heart" },
      response: {
        description: "The speech, in the format asked for",
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
      errors: [...JSON_ERRORS, "unsupported_format", "model_not_found"],
    },
    handle: (call) => answerSpeech(call, deps),
  };
}

async function answerSpeech(call: Call, { session, bodyLimits }: AppDeps): Promise<Response> {
  session.requireRoom();
  const wish = parseSpeech(await readJson(call.req.raw, bodyLimits));
  const info = session.requireReady();
  requireModelName(info, wish.model);
  requireEndpoint(info, PATH);
  const { text, param } = findText(wish, info);
  requireSpeakable(text, param);
  const requestId = call.get("requestId");
  const { format, speed, seed } = wish;
  const voice = wish.voice === undefined ? undefined : findVoice(info, wish.voice);
  const task = { type: "speak", requestId, text, param, voice, speed, format, seed } as const;
  const events = await untilBegun(session.stream(task, { signal: call.req.raw.signal }));
  const onError = (error: HearthError) =>
    log.warn("a stream ended in an error", { requestId, error });
  if (wish.messages !== undefined) {
    return call.json(await speechAsJson(events, { model: info.id, format }));
  }
  if (!wish.isEvents) return await speechAsSound(events, { format, onError });
  return streamEvents(events, createSpeechFormat({ onError }));
}

/** The text to speak, and its place in the request. */
function findText(wish: SpeechWish, info: ModelInfo): { text: string; param: string } {
  const { input, messages = [] } = wish;
  if (input !== undefined) return { text: input, param: "input" };
  const index = messages.findLastIndex(({ role }) => role === "user");
  const content = messages[index]?.content;
  if (content === undefined) {
    throw new HearthError("invalid_value", "messages: want a user message, saw none.", {
      param: "messages",
    });
  }
  const param = `messages[${index}].content`;
  if (typeof content === "string") return { text: content, param };
  const texts = content.map((part, place) => {
    if (part.type === "text") return part.text;
    throw refuseMedia(part.type, { info, param: `${param}[${place}]` });
  });
  return { text: texts.join("\n\n"), param };
}

function refuseMedia(
  type: string,
  { info, param }: { readonly info: ModelInfo; readonly param: string },
): HearthError {
  const why = type.includes("image")
    ? `takes text, saw a part of type ${type}`
    : "speaks in voices of its own and cannot take on that of a recording, as none of the families that Hearth " +
      "serves can (Kokoro, Supertonic, SpeechT5, VITS); name one of its voices with voice";
  return new HearthError(
    "unsupported_by_model",
    `${param}: the loaded model ${info.id} (${info.kind}) ${why}.`,
    { param },
  );
}
