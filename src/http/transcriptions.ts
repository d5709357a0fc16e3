/**
 * `POST /audio/transcriptions`.
 *
 * @module
 */
import { z } from "zod";
import { requireEndpoint } from "../api/endpoints.ts";
import {
  parseTranscription,
  type TranscriptionOptions,
  TranscriptionRequest,
} from "../api/transcription_request.ts";
import {
  Transcription,
  TranscriptionEvent,
  VerboseTranscription,
} from "../api/transcription_response.ts";
import { HearthError } from "../errors.ts";
import { isMultipart, readMultipart } from "./multipart.ts";
import { type AppDeps, type Call, type Route, UPLOAD_ERRORS } from "./route.ts";
import { streamEvents } from "./sse.ts";
import { noteFailure, untilAdmitted } from "./task_events.ts";
import {
  createTranscriptFormat,
  readTranscript,
  transcriptAnswer,
} from "./transcription_answer.ts";

const PATH = "/audio/transcriptions";
/** Name of the form's file. */
const FIELD = "file";

/** Transcriptions of uploaded files, whole or streamed. */
export function transcriptionsRoute(deps: AppDeps): Route {
  return {
    method: "POST",
    path: PATH,
    operation: {
      summary: "Write down what is said in an audio file",
      description:
        "Recordings may be hours long. With `stream` each segment comes as an event as " +
        "soon as it is certain, with its times where `response_format` is `verbose_json`.",
      request: { "multipart/form-data": TranscriptionRequest },
      response: {
        description: "The transcript, in the format asked for",
        content: {
          "application/json": z.union([Transcription, VerboseTranscription]),
          "text/plain": z.string(),
          "application/x-subrip": z.string(),
          "text/vtt": z.string(),
          "text/event-stream": TranscriptionEvent,
        },
      },
      errors: [...UPLOAD_ERRORS, "unsupported_format"],
    },
    handle: (call) => answerTranscription(call, deps),
  };
}

async function answerTranscription(
  call: Call,
  { session, bodyLimits }: AppDeps,
): Promise<Response> {
  requireEndpoint(session.requireRoom(), PATH);
  const { audio, options } = await readUpload(call.req.raw, bodyLimits);
  const requestId = call.get("requestId");
  const { language, temperature, granularities } = options;
  const events = await untilAdmitted(session.stream({
    type: "transcribe",
    requestId,
    audio,
    param: FIELD,
    language,
    temperature,
    timesWords: granularities.has("word"),
  }, { signal: call.req.raw.signal }));
  if (!options.stream) return transcriptAnswer(await readTranscript(events), options);
  return streamEvents(
    events,
    createTranscriptFormat({
      hasSegments: options.format === "verbose_json",
      onError: noteFailure(requestId),
    }),
  );
}

async function readUpload(
  request: Request,
  limits: AppDeps["bodyLimits"],
): Promise<{ audio: Uint8Array<ArrayBuffer>; options: TranscriptionOptions }> {
  if (!isMultipart(request)) {
    const seen = request.headers.get("content-type")?.slice(0, 100) ?? "none";
    throw new HearthError(
      "missing_file",
      `No file was sent: want multipart/form-data with a part named file, saw Content-Type ${seen}.`,
      { param: FIELD },
    );
  }
  const { fields, file } = await readMultipart(request, { fileName: FIELD, limits });
  const options = parseTranscription(fields);
  if (file !== undefined) return { audio: file, options };
  throw new HearthError("missing_file", "No file was sent: the form has no part named file.", {
    param: FIELD,
  });
}
