/**
 * Writing down what is said.
 *
 * @module
 */
import type { ErrorEvent, TokenUsage } from "./ending.ts";

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
  /** 0 always takes the most likely token at first; parts that go wrong are tried again at higher ones. */
  readonly temperature: number;
  /** Whether segments come with the times of their words. */
  readonly timesWords?: boolean | undefined;
}

/** Worker to server, on a transcribe task's port, in this order: start, segments, done; or error at any point, which ends it. */
export type TranscribeEvent =
  | {
    readonly type: "start";
    /** The language's name: `english`. */
    readonly language: string;
    readonly durationSeconds: number;
  }
  | { readonly type: "segment"; readonly segment: TranscriptSegment }
  | { readonly type: "done"; readonly usage: TokenUsage }
  | ErrorEvent;

/** A piece of a transcript. */
export interface TranscriptSegment {
  readonly id: number;
  /** First frame of the window it was heard in, a hundredth of a second each. */
  readonly seekFrame: number;
  readonly startSeconds: number;
  readonly endSeconds: number;
  /** As the model writes it: with a space in front where its language has spaces. */
  readonly text: string;
  /** Its tokens, with the timestamps around them. */
  readonly tokens: readonly number[];
  /** At which the window was decoded in the end. */
  readonly temperature: number;
  readonly meanLogprob: number;
  readonly compressionRatio: number;
  readonly noSpeechProbability: number;
  /** Where they are asked for: in order, apart, and within the segment. */
  readonly words?: readonly TranscriptWord[] | undefined;
}

/** A word of a transcript. */
export interface TranscriptWord {
  /** With the punctuation that belongs to it, and no space around it. */
  readonly text: string;
  readonly startSeconds: number;
  readonly endSeconds: number;
}
