/**
 * `POST /audio/transcriptions` and `/audio/translations`.
 *
 * @module
 */
import { z } from "zod";
import { requireEndpoint } from "../../../wire/models.ts";
import {
  parseTranscription,
  parseTranslation,
  type TranscriptionOptions,
  TranscriptionRequest,
  TranslationRequest,
} from "../../../wire/transcription_request.ts";
import {
  joinTranscript,
  makeSegmentEvent,
  makeVerboseTranscription,
  type Transcript,
  Transcription,
  TranscriptionEvent,
  type TranscriptSegment,
  VerboseTranscription,
} from "../../../wire/transcription_response.ts";
import { LANGUAGES } from "../../../media/languages.ts";
import { HearthError } from "../../../base/errors.ts";
import { log } from "../../../base/log.ts";
import { isMultipart, readMultipart } from "../body/multipart.ts";
import { type AppDeps, type Call, type Route, UPLOAD_ERRORS } from "../route.ts";
import { formatErrorEvent, formatEvent, streamEvents, waitForAdmission } from "../sse.ts";
import { requireSuccess } from "../../session/task_stream.ts";
import { warn } from "../requests.ts";
import type { ModelInfo } from "../../../worker/protocol.ts";
import { formatSrt, formatVtt } from "../../../media/subtitles.ts";
import type { TranscribeEvent } from "../../../models/task.ts";

/** Name of the form field that holds the file. */
const FIELD = "file";

/** An endpoint that transcribes or translates uploaded recordings. */
interface UploadEndpoint {
  readonly path: "/audio/transcriptions" | "/audio/translations";
  readonly summary: string;
  readonly request: z.ZodType;
  readonly parse: typeof parseTranscription;
  /** Whether the text is translated to English. */
  readonly translates: boolean;
}

const ENDPOINTS: readonly UploadEndpoint[] = [{
  path: "/audio/transcriptions",
  summary: "Transcribe an audio file",
  request: TranscriptionRequest,
  parse: parseTranscription,
  translates: false,
}, {
  path: "/audio/translations",
  summary: "Translate the speech of an audio file to English",
  request: TranslationRequest,
  parse: parseTranslation,
  translates: true,
}];

/** The endpoints that transcribe and translate uploaded files. They return the transcript as a whole, or stream it. */
export function transcriptionsRoutes(deps: AppDeps): Route[] {
  return ENDPOINTS.map((endpoint) => ({
    method: "POST",
    path: endpoint.path,
    operation: {
      summary: endpoint.summary,
      description:
        "Recordings may be hours long. With `stream` each segment comes as an event as " +
        "soon as it is final, with its times if `response_format` is `verbose_json`.",
      request: { "multipart/form-data": endpoint.request },
      response: {
        description: "The transcript, in the requested format",
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
    handle: (call) => answerUpload(call, deps, endpoint),
  }));
}

async function answerUpload(
  call: Call,
  { session, bodyLimits }: AppDeps,
  { path, parse, translates }: UploadEndpoint,
): Promise<Response> {
  requireEndpoint(session.requireRoom(), path);
  const { audio, fields } = await readUpload(call.req.raw, bodyLimits);
  const options = parse(fields);
  warn(call, ...options.warnings);
  if (audio === undefined) {
    throw new HearthError("missing_file", "No file was sent: the form has no part named file.", {
      param: FIELD,
    });
  }
  const requestId = call.get("requestId");
  const { temperature, granularities } = options;
  const language = chooseLanguage(call, session.requireReady(), options.language);
  const events = await waitForAdmission(session.stream({
    type: "transcribe",
    requestId,
    audio,
    param: FIELD,
    language,
    translates,
    temperature,
    timesWords: granularities.has("word"),
  }, { signal: call.req.raw.signal }));
  const logTruncated = (message: string) =>
    log.warn("a recording ends early", { requestId, message });
  if (!options.stream) {
    const transcript = await readTranscript(events);
    if (transcript.truncated !== undefined) logTruncated(transcript.truncated);
    return toResponse(transcript, options);
  }
  return streamEvents(
    events,
    createTranscriptFormat({
      hasSegments: options.format === "verbose_json",
      onTruncated: logTruncated,
    }),
    { requestId, emptyEvent: NO_TRANSCRIPT },
  );
}

/**
 * Chooses the language to give to the model. A valid language code that the model does not know is ignored with a
 * warning, because many clients always send their user's language.
 */
function chooseLanguage(
  call: Call,
  { id, languages = [] }: ModelInfo,
  code: string | undefined,
): string | undefined {
  if (code === undefined || languages.includes(code) || !(code in LANGUAGES)) return code;
  warn(call, `language is ignored: ${id} does not know ${code}`);
  return undefined;
}

/** Reads the form. `audio` is absent if no file was sent. */
async function readUpload(
  request: Request,
  limits: AppDeps["bodyLimits"],
): Promise<{
  audio: Uint8Array<ArrayBuffer> | undefined;
  fields: readonly (readonly [name: string, value: string])[];
}> {
  if (!isMultipart(request)) {
    const seen = request.headers.get("content-type")?.slice(0, 100) ?? "none";
    throw new HearthError(
      "missing_file",
      `No file was sent: want multipart/form-data with a part named file, saw Content-Type ${seen}.`,
      { param: FIELD },
    );
  }
  const { fields, file: audio } = await readMultipart(request, { fileField: FIELD, limits });
  return { audio, fields };
}

/** Reads all events and builds the transcript. @throws {HearthError} the error of an error event. */
async function readTranscript(
  events: AsyncIterable<TranscribeEvent>,
): Promise<Transcript> {
  const segments: TranscriptSegment[] = [];
  let recording: Omit<Transcript, "segments"> = { language: "", durationSeconds: 0 };
  for await (const event of requireSuccess(events)) {
    if (event.type === "start") recording = event;
    if (event.type === "segment") segments.push(event.segment);
  }
  const { language, durationSeconds, truncated } = recording;
  return { language, durationSeconds, truncated, segments };
}

/** Makes the response in the requested format. If the recording ends early, the response has a header `truncated`. */
function toResponse(
  transcript: Transcript,
  options: TranscriptionOptions,
): Response {
  const answer = formatTranscript(transcript, options);
  if (transcript.truncated !== undefined) answer.headers.set("truncated", "true");
  return answer;
}

function formatTranscript(
  transcript: Transcript,
  { format, granularities }: TranscriptionOptions,
): Response {
  const { segments } = transcript;
  const text = (body: string, type: string) =>
    new Response(body, { headers: { "content-type": `${type}; charset=utf-8` } });
  switch (format) {
    case "json":
      return Response.json({ text: joinTranscript(segments) });
    case "verbose_json":
      return Response.json(makeVerboseTranscription(transcript, granularities));
    case "text":
      return text(joinTranscript(segments), "text/plain");
    case "srt":
      return text(formatSrt(segments), "application/x-subrip");
    case "vtt":
      return text(formatVtt(segments), "text/vtt");
  }
}

/** An event without text. */
const NO_TRANSCRIPT: string = writeTranscriptEvent({
  type: "transcript.text.delta",
  delta: "",
});

function writeTranscriptEvent(event: TranscriptionEvent): string {
  return formatEvent(JSON.stringify(event));
}

/** Creates the function that turns the worker's events, in order, into the client's events. */
function createTranscriptFormat(
  { hasSegments, onTruncated }: {
    /** Whether segments and their times are sent along with the text. */
    readonly hasSegments: boolean;
    /** Called if the recording ends early, with a message that says what is missing. */
    onTruncated: (message: string) => void;
  },
): (event: TranscribeEvent) => string {
  const segments: TranscriptSegment[] = [];
  let isTruncated = false;
  return (event) => {
    switch (event.type) {
      case "admitted":
        return "";
      case "start":
        isTruncated = event.truncated !== undefined;
        if (isTruncated) onTruncated(event.truncated!);
        return "";
      case "segment": {
        segments.push(event.segment);
        const { text } = event.segment;
        const delta = segments.length === 1 ? text.trimStart() : text;
        const shown = writeTranscriptEvent({ type: "transcript.text.delta", delta });
        return hasSegments ? shown + writeTranscriptEvent(makeSegmentEvent(event.segment)) : shown;
      }
      case "error":
        return formatErrorEvent(event.error);
      case "done":
        return writeTranscriptEvent({
          type: "transcript.text.done",
          text: joinTranscript(segments),
          ...(isTruncated && { truncated: true }),
        });
    }
  };
}
