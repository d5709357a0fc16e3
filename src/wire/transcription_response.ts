/**
 * Transcripts as models return them, and the responses to a transcription request.
 *
 * @module
 */
import { z } from "zod";
import { integerFrom } from "./fields.ts";
import type { Granularity } from "./transcription_request.ts";

/** The response in the format `json`. */
export const Transcription = z.object({ text: z.string() }).meta({ id: "Transcription" });

const Segment = z.object({
  id: integerFrom(0),
  seek: integerFrom(0).describe("First frame of the segment's window, in hundredths of a second"),
  start: z.number().describe("Seconds"),
  end: z.number().describe("Seconds"),
  text: z.string(),
  tokens: z.array(integerFrom(0)),
  temperature: z.number(),
  avg_logprob: z.number(),
  compression_ratio: z.number(),
  no_speech_prob: z.number(),
}).meta({ id: "TranscriptionSegment" });

const Word = z.object({
  word: z.string().describe("The word and its punctuation"),
  start: z.number().describe("Seconds"),
  end: z.number().describe("Seconds"),
}).meta({ id: "TranscriptionWord" });

/** The response in the format `verbose_json`. */
export const VerboseTranscription = z.object({
  task: z.literal("transcribe"),
  language: z.string().describe("English name of the language, in lower case; empty if unknown"),
  duration: z.number().describe("Duration of the audio in seconds"),
  text: z.string(),
  truncated: z.literal(true).optional().describe(
    "The file ends early; the text covers what there is",
  ),
  words: z.array(Word).optional().describe("Present if timestamp_granularities includes word"),
  segments: z.array(Segment).optional().describe("Absent if only words are requested"),
}).meta({ id: "VerboseTranscription" });

/** One event of a stream. */
export const TranscriptionEvent = z.discriminatedUnion("type", [
  z.object({ type: z.literal("transcript.text.delta"), delta: z.string() }),
  z.object({
    type: z.literal("transcript.text.segment"),
    id: integerFrom(0),
    start: z.number().describe("Seconds"),
    end: z.number().describe("Seconds"),
    text: z.string(),
    words: z.array(Word).optional().describe("Present if timestamp_granularities includes word"),
  }).describe("Sent after each delta if response_format is verbose_json"),
  z.object({
    type: z.literal("transcript.text.done"),
    text: z.string(),
    truncated: z.literal(true).optional().describe(
      "The file ends early; the text covers what there is",
    ),
  }),
]).meta({ id: "TranscriptionEvent" });

export type VerboseTranscription = z.output<typeof VerboseTranscription>;
export type TranscriptionEvent = z.output<typeof TranscriptionEvent>;

/** A segment of a transcript, as the model returns it. */
export interface TranscriptSegment {
  readonly id: number;
  /** First frame of the window that the segment was decoded from, in hundredths of a second. */
  readonly seekFrame: number;
  readonly startSeconds: number;
  readonly endSeconds: number;
  /** Text as the model writes it: with a leading space if its language uses spaces. */
  readonly text: string;
  /** The segment's tokens, including the timestamps around them. */
  readonly tokens: readonly number[];
  /** Temperature at which the window's text was accepted. */
  readonly temperature: number;
  readonly meanLogprob: number;
  readonly compressionRatio: number;
  readonly noSpeechProbability: number;
  /** Words, if requested: in order, not overlapping, and within the segment. */
  readonly words?: readonly TranscriptWord[] | undefined;
}

export interface TranscriptWord {
  /** The word with its punctuation, without spaces around it. */
  readonly text: string;
  readonly startSeconds: number;
  readonly endSeconds: number;
}

/** A whole transcript, as the model returns it. */
export interface Transcript {
  readonly language: string;
  readonly durationSeconds: number;
  /** Says what is missing if the file ends early. */
  readonly truncated?: string | undefined;
  readonly segments: readonly TranscriptSegment[];
}

/** Joins the text of all segments. */
export function joinTranscript(segments: readonly Pick<TranscriptSegment, "text">[]): string {
  return segments.map(({ text }) => text).join("").trimStart();
}

/** Builds the `verbose_json` response, with the requested times. */
export function makeVerboseTranscription(
  transcript: Transcript,
  granularities: ReadonlySet<Granularity>,
): VerboseTranscription {
  const { language, durationSeconds, segments, truncated } = transcript;
  return {
    task: "transcribe",
    language,
    duration: roundTo(durationSeconds, 3),
    text: joinTranscript(segments),
    ...(truncated !== undefined && { truncated: true }),
    ...(granularities.has("word") && {
      words: segments.flatMap(({ words = [] }) => words.map(describeWord)),
    }),
    ...(granularities.has("segment") && { segments: segments.map(describeSegment) }),
  };
}

/** Builds the event for a segment of a streamed transcript. */
export function makeSegmentEvent(
  { id, startSeconds, endSeconds, text, words }: TranscriptSegment,
): TranscriptionEvent {
  return {
    type: "transcript.text.segment",
    id,
    start: roundTo(startSeconds, 2),
    end: roundTo(endSeconds, 2),
    text,
    ...(words && { words: words.map(describeWord) }),
  };
}

function describeWord({ text, startSeconds, endSeconds }: TranscriptWord): z.output<typeof Word> {
  return { word: text, start: roundTo(startSeconds, 2), end: roundTo(endSeconds, 2) };
}

function describeSegment(segment: TranscriptSegment): z.output<typeof Segment> {
  return {
    id: segment.id,
    seek: segment.seekFrame,
    start: roundTo(segment.startSeconds, 2),
    end: roundTo(segment.endSeconds, 2),
    text: segment.text,
    tokens: [...segment.tokens],
    temperature: roundTo(segment.temperature, 2),
    avg_logprob: segment.meanLogprob,
    compression_ratio: segment.compressionRatio,
    no_speech_prob: segment.noSpeechProbability,
  };
}

/** Rounds to decimal digits: sums of hundredths of a second have floating-point errors. */
function roundTo(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}
