/**
 * Speech recognition.
 *
 * @module
 */
import type { TranscriptSegment } from "../../api/transcription_response.ts";
import type { AdmittedEvent, ErrorEvent, TokenUsage } from "./ending.ts";

export type { TranscriptSegment, TranscriptWord } from "../../api/transcription_response.ts";

/** Transcribes an audio file. */
export interface TranscribeTask {
  readonly type: "transcribe";
  readonly requestId: string;
  /** The file's bytes, of any supported format; transferred to the worker. */
  readonly audio: Uint8Array<ArrayBuffer>;
  /** The recording's path in the request, for messages: `messages[0].content[1]`. */
  readonly param: string;
  /** One of the API's codes; detected from the audio if absent. */
  readonly language?: string | undefined;
  /** Whether to translate to English. */
  readonly translates?: boolean | undefined;
  /** 0 starts greedily; parts that fail are retried at higher temperatures. */
  readonly temperature: number;
  /** Whether segments have word times. */
  readonly timesWords?: boolean | undefined;
}

/** Worker to server, on a transcribe task's port, in this order: admitted, start, segments, done; or error at any point, which ends it. */
export type TranscribeEvent =
  | AdmittedEvent
  | {
    readonly type: "start";
    /** The language's name: `english`. */
    readonly language: string;
    readonly durationSeconds: number;
  }
  | { readonly type: "segment"; readonly segment: TranscriptSegment }
  | { readonly type: "done"; readonly usage: TokenUsage }
  | ErrorEvent;
