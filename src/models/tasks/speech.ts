/**
 * The tasks of speech synthesis and recognition.
 *
 * @module
 */
import type { TranscriptSegment } from "../../wire/transcription_response.ts";
import type { SoundFormat } from "../../media/sound_format.ts";
import type { AdmittedEvent, ErrorEvent, TokenUsage } from "./chat.ts";

/** A voice of a model. */
export interface Voice {
  readonly id: string;
  /** The language of the voice as a BCP 47 tag: `en-US`. */
  readonly language: string;
}

/** An audio file in which one person speaks. */
export interface VoiceRecording {
  /** The file's bytes, transferred to the worker. */
  readonly audio: Uint8Array<ArrayBuffer>;
  /** JSON path of the recording in the request, for error messages: `messages[0].content[1]`. */
  readonly param: string;
}

/** Synthesizes a text. */
export interface SpeakTask {
  readonly type: "speak";
  readonly requestId: string;
  readonly text: string;
  /** JSON path of the text in the request, for error messages: `input`. */
  readonly param: string;
  /** One of the model's voices; its first if absent. */
  readonly voice?: string | undefined;
  /** A recording whose voice is cloned, in place of one of the model's voices. */
  readonly recording?: VoiceRecording | undefined;
  /** Factor on the model's own pace, 0.25 to 4. */
  readonly speed: number;
  readonly format: SoundFormat;
  /** Unsigned 32-bit. Equal tasks with equal seeds sound the same. */
  readonly seed: number;
}

/**
 * Events from worker to server on a speak task's port: admitted, audio once per line of text, done. An error may come
 * at any point, and is the last event.
 */
export type SpeakEvent =
  | AdmittedEvent
  | {
    readonly type: "audio";
    /** The next bytes of a file, transferred to the server. */
    readonly bytes: Uint8Array<ArrayBuffer>;
    /** Whether the file is complete with these bytes. */
    readonly isLast: boolean;
  }
  | {
    readonly type: "done";
    /** Number of tokens of the whole text. */
    readonly textTokens: number;
    readonly audioSeconds: number;
  }
  | ErrorEvent;

export type { TranscriptSegment, TranscriptWord } from "../../wire/transcription_response.ts";

/** Transcribes an audio file. */
export interface TranscribeTask {
  readonly type: "transcribe";
  readonly requestId: string;
  /** The file's bytes, of any supported format; transferred to the worker. */
  readonly audio: Uint8Array<ArrayBuffer>;
  /** JSON path of the recording in the request, for error messages: `messages[0].content[1]`. */
  readonly param: string;
  /** One of the API's codes; detected from the audio if absent. */
  readonly language?: string | undefined;
  /** Whether to translate to English. */
  readonly translates?: boolean | undefined;
  /** 0 starts with greedy decoding; windows with a bad result are retried at higher temperatures. */
  readonly temperature: number;
  /** Whether segments have word times. */
  readonly timesWords?: boolean | undefined;
  /** Maximum number of tokens: the transcript ends before the segment that would exceed them. */
  readonly maxTokens?: number | undefined;
}

/**
 * Events from worker to server on a transcribe task's port: admitted, start, segments, done. An error may come at any
 * point, and is the last event.
 */
export type TranscribeEvent =
  | AdmittedEvent
  | {
    readonly type: "start";
    /** The name of the language: `english`. */
    readonly language: string;
    readonly durationSeconds: number;
    /** Describes what is missing, if the file ends early. */
    readonly truncated?: string | undefined;
  }
  | { readonly type: "segment"; readonly segment: TranscriptSegment }
  | {
    readonly type: "done";
    readonly usage: TokenUsage;
    /** Whether `maxTokens` ended the transcript; the rest of the recording was not transcribed. */
    readonly isCut?: boolean | undefined;
  }
  | ErrorEvent;

/** The state from which a voice activity model continues with a sound. */
export interface VoiceState {
  /** The graph's own state. */
  readonly memory: Float32Array;
  /** The context of the next window, followed by its samples so far. */
  readonly window: Float32Array;
  /** Number of samples in `window` so far. */
  readonly filled: number;
}

/** Finds speech in the next chunk of a sound. */
export interface DetectTask {
  readonly type: "detect";
  readonly requestId: string;
  /** Samples at the rate given in the model's `voiceActivity`. */
  readonly samples: Float32Array;
  /** The state after the previous chunk; absent for the first. */
  readonly state?: VoiceState | undefined;
}

/** The single answer to a detect task. */
export type DetectEvent =
  | {
    readonly type: "done";
    /** Speech probability, 0 to 1, of each window that is complete. */
    readonly likelihoods: readonly number[];
    readonly state: VoiceState;
  }
  | ErrorEvent;

/** The windows that a voice activity model takes. */
export interface VoiceWindows {
  readonly sampleRateHz: number;
  /** Number of samples in a window. */
  readonly windowSamples: number;
}
