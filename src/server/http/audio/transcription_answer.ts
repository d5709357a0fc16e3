/**
 * Answers a transcription with the worker's events, whole or streamed.
 *
 * @module
 */
import { nestedError } from "../../../wire/error_body.ts";
import type { TranscriptionOptions } from "../../../wire/transcription_request.ts";
import {
  segmentEvent,
  type Transcript,
  type TranscriptionEvent,
  type TranscriptSegment,
  transcriptText,
  verboseTranscription,
} from "../../../wire/transcription_response.ts";
import { HearthError } from "../../../base/errors.ts";
import { formatSrt, formatVtt } from "../../../media/subtitles.ts";
import type { TranscribeEvent } from "../../../models/task.ts";
import { formatEvent } from "../sse.ts";

/** Reads all events and builds the transcript. @throws {HearthError} the error of an error event. */
export async function readTranscript(
  events: AsyncIterable<TranscribeEvent>,
): Promise<Transcript> {
  const segments: TranscriptSegment[] = [];
  let recording: Omit<Transcript, "segments"> = { language: "", durationSeconds: 0 };
  for await (const event of events) {
    switch (event.type) {
      case "start":
        recording = event;
        break;
      case "segment":
        segments.push(event.segment);
        break;
      case "error":
        throw HearthError.fromWire(event.error);
      case "done": {
        const { language, durationSeconds, truncated } = recording;
        return { language, durationSeconds, truncated, segments };
      }
    }
  }
  throw new HearthError("inference_failed", "The model ended this request without a result.");
}

/** The transcript in the requested format. A `truncated` header says where a recording ends early. */
export function transcriptAnswer(
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
      return Response.json({ text: transcriptText(segments) });
    case "verbose_json":
      return Response.json(verboseTranscription(transcript, granularities));
    case "text":
      return text(transcriptText(segments), "text/plain");
    case "srt":
      return text(formatSrt(segments), "application/x-subrip");
    case "vtt":
      return text(formatVtt(segments), "text/vtt");
  }
}

/** An event without text. */
export const NO_TRANSCRIPT: string = writeTranscriptEvent({
  type: "transcript.text.delta",
  delta: "",
});

function writeTranscriptEvent(event: TranscriptionEvent): string {
  return formatEvent(JSON.stringify(event));
}

/** Creates the function that turns the worker's events, in order, into the client's. */
export function createTranscriptFormat(
  { hasSegments, onError, onTruncated }: {
    /** Whether segments and their times are sent along with the text. */
    readonly hasSegments: boolean;
    /** Called with the error of an error event, which ends the client's stream. */
    onError: (error: HearthError) => void;
    /** Called when the recording ends early, with what is missing. */
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
        return hasSegments ? shown + writeTranscriptEvent(segmentEvent(event.segment)) : shown;
      }
      case "error": {
        const error = HearthError.fromWire(event.error);
        onError(error);
        return formatEvent(JSON.stringify(nestedError(error)));
      }
      case "done":
        return writeTranscriptEvent({
          type: "transcript.text.done",
          text: transcriptText(segments),
          ...(isTruncated && { truncated: true }),
        });
    }
  };
}
