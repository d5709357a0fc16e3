/**
 * Speech synthesis and recognition.
 *
 * @module
 */
import type { TranscriptSegment } from "../../wire/transcription_response.ts";
import type { SoundFormat } from "../../media/sound_format.ts";
import type { AdmittedEvent, ErrorEvent, TokenUsage } from "./common_events.ts";

/** A voice of a model. */
export interface Voice {
  readonly id: string;
  /** What the voice speaks, as in BCP 47: `en-US`. */
  readonly language: string;
}

/** An audio file of somebody speaking. */
export interface VoiceRecording {
  /** The file's bytes, transferred to the worker. */
  readonly audio: Uint8Array<ArrayBuffer>;
  /** The recording's path in the request, for messages: `messages[0].content[1]`. */
  readonly param: string;
}

/** Synthesizes a text. */
export interface SpeakTask {
  readonly type: "speak";
  readonly requestId: string;
  readonly text: string;
  /** The text's path in the request, for messages: `input`. */
  readonly param: string;
  /** One of the model's voices; its first if absent. */
  readonly voice?: string | undefined;
  /** A recording whose voice is cloned, instead of one of the model's. */
  readonly recording?: VoiceRecording | undefined;
  /** 1 is the model's own pace; 0.25 to 4. */
  readonly speed: number;
  readonly format: SoundFormat;
  /** Unsigned 32-bit: equal tasks with equal seeds sound the same. */
  readonly seed: number;
}

/**
 * Worker to server, on a speak task's port: admitted, audio once per piece of text, done. An error may come at any
 * point, and is the last event.
 */
export type SpeakEvent =
  | AdmittedEvent
  | {
    readonly type: "audio";
    /** The next bytes of a file, transferred to the server. */
    readonly bytes: Uint8Array<ArrayBuffer>;
    /** Whether these complete the file. */
    readonly isLast: boolean;
  }
  | {
    readonly type: "done";
    /** Tokens of all the text. */
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
  /** The transcript ends before the first segment with more tokens than are left of these. */
  readonly maxTokens?: number | undefined;
}

/**
 * Worker to server, on a transcribe task's port: admitted, start, segments, done. An error may come at any point, and is
 * the last event.
 */
export type TranscribeEvent =
  | AdmittedEvent
  | {
    readonly type: "start";
    /** The language's name: `english`. */
    readonly language: string;
    readonly durationSeconds: number;
    /** Says what is missing of a file that ends early. */
    readonly truncated?: string | undefined;
  }
  | { readonly type: "segment"; readonly segment: TranscriptSegment }
  | {
    readonly type: "done";
    readonly usage: TokenUsage;
    /** Whether `maxTokens` ended it; what is left of the recording was not listened to. */
    readonly isCut?: boolean | undefined;
  }
  | ErrorEvent;

/** How a voice activity model goes on with sound. */
export interface VoiceState {
  /** The graph's own state. */
  readonly memory: Float32Array;
  /** The context and the next window's samples so far. */
  readonly window: Float32Array;
  /** How much of it is there. */
  readonly filled: number;
}

/** Finds speech in the next piece of a sound. */
export interface DetectTask {
  readonly type: "detect";
  readonly requestId: string;
  /** At the rate of the model's `voiceActivity`. */
  readonly samples: Float32Array;
  /** Of the piece before; absent for the first. */
  readonly state?: VoiceState | undefined;
}

/** The single answer to a detect task. */
export type DetectEvent =
  | {
    readonly type: "done";
    /** That somebody speaks, 0 to 1, in each window that is complete. */
    readonly likelihoods: readonly number[];
    readonly state: VoiceState;
  }
  | ErrorEvent;

/** The sound that a voice activity model hears. */
export interface VoiceWindows {
  readonly sampleRateHz: number;
  /** Samples of each window. */
  readonly windowSamples: number;
}
