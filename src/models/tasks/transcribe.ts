/**
 * Writing down what is said.
 *
 * @module
 */
import type { TranscriptSegment } from "../../api/transcription_response.ts";
import type { AdmittedEvent, ErrorEvent, TokenUsage } from "./ending.ts";

export type { TranscriptSegment, TranscriptWord } from "../../api/transcription_response.ts";

/** Writes down what is said in an audio file. */
export interface TranscribeTask {
  readonly type: "transcribe";
  readonly requestId: string;
  /** The file's bytes, of any format that is known; its memory goes to the worker. */
  readonly audio: Uint8Array<ArrayBuffer>;
  /** The recording's place in the request, for messages: `messages[0].content[1]`. */
  readonly param: string;
  /** One of the API's codes; told from the sound if absent. */
  readonly language?: string | undefined;
  /** English is written, whatever is spoken. */
  readonly translates?: boolean | undefined;
  /** 0 always takes the most likely token at first; parts that go wrong are tried again at higher ones. */
  readonly temperature: number;
  /** Whether segments come with the times of their words. */
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
