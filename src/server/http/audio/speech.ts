/**
 * `POST /audio/speech`.
 *
 * @module
 */
import { z } from "zod";
import { requireEndpoint, requireModelName } from "../../../wire/endpoints.ts";
import { AudioCompletion } from "../../../wire/media_completion.ts";
import { parseSpeech, requireSpeakable, SpeechRequest } from "../../../wire/speech_request.ts";
import { SpeechEvent } from "../../../wire/speech_response.ts";
import { findUnserved } from "../../../wire/unserved_fields.ts";
import { readJson } from "../body/body.ts";
import { type AppDeps, type Call, JSON_ERRORS, type Route } from "../route.ts";
import { isLocal } from "../locality.ts";
import { readPart } from "../media.ts";
import { createSpeechFormat, NO_SPEECH, speechAsJson, speechAsSound } from "./speech_answer.ts";
import { findSpokenText } from "./spoken_text.ts";
import { streamEvents } from "../sse.ts";
import { warn } from "../warnings.ts";
import { logFailure, untilAdmitted } from "../task_events.ts";
import { findVoice } from "./voices.ts";

const PATH = "/audio/speech";

/** Synthesizes speech; as JSON, as sound or as events. */
export function speechRoute(deps: AppDeps): Route {
  const sound = z.string().meta({ format: "binary" });
  return {
    method: "POST",
    path: PATH,
    operation: {
      summary: "Synthesize speech",
      description:
        "With `messages` the answer is a chat completion that holds the sound; an audio part " +
        "beside the text is a recording whose voice is cloned, if the model supports that. With " +
        "`input` it is the sound itself, sent sentence by sentence; an error after the first of " +
        "them breaks it off.",
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
  const wish = parseSpeech(body);
  const info = session.requireReady();
  requireModelName(info, wish.model);
  requireEndpoint(info, PATH);
  warn(call, ...findUnserved(body, "speech"), ...wish.warnings);
  const { text, param, recording: placed } = findSpokenText(wish, info);
  requireSpeakable(text, param);
  const requestId = call.get("requestId");
  const { format, speed, seed } = wish;
  const voice = wish.voice === undefined ? undefined : findVoice(info, wish.voice);
  const { signal } = call.req.raw;
  const recording = placed && {
    audio: await readPart(placed.part, {
      ...deps,
      param: placed.param,
      signal,
      isLocal: isLocal(call.req.raw, call.env, deps.settings),
    }),
    param: placed.param,
  };
  const wanted = { text, param, voice, recording, speed, format, seed };
  const events = await untilAdmitted(
    session.stream({ type: "speak", requestId, ...wanted }, { signal }),
  );
  const onError = logFailure(requestId);
  if (wish.messages !== undefined) {
    return call.json(await speechAsJson(events, { model: info.id, format }));
  }
  if (!wish.isEvents) return await speechAsSound(events, { format, onError });
  return streamEvents(events, createSpeechFormat({ onError }), { emptyEvent: NO_SPEECH });
}
