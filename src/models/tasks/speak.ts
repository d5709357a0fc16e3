/**
 * Reading a text aloud.
 *
 * @module
 */
import type { SoundFormat } from "../../media/sound_format.ts";
import type { AdmittedEvent, ErrorEvent } from "./ending.ts";

/** Somebody whom a model can speak as. */
export interface VoiceInfo {
  readonly id: string;
  /** What the voice speaks, as in BCP 47: `en-US`. */
  readonly language: string;
}

/** An audio file of somebody speaking. */
export interface VoiceRecording {
  /** The file's bytes; their memory goes to the worker. */
  readonly audio: Uint8Array<ArrayBuffer>;
  /** The recording's place in the request, for messages: `messages[0].content[1]`. */
  readonly param: string;
}

/** Reads a text aloud. */
export interface SpeakTask {
  readonly type: "speak";
  readonly requestId: string;
  readonly text: string;
  /** The text's place in the request, for messages: `input`. */
  readonly param: string;
  /** One of the model's voices; its first if absent. */
  readonly voice?: string | undefined;
  /** Somebody whose voice is taken on, in place of one of the model's. */
  readonly recording?: VoiceRecording | undefined;
  /** 1 is the model's own pace; 0.25 to 4. */
  readonly speed: number;
  readonly format: SoundFormat;
  /** Unsigned 32-bit: equal tasks with equal seeds sound the same. */
  readonly seed: number;
}

/** Worker to server, on a speak task's port, in this order: admitted, audio, once per piece of text, and done; or error at any point, which ends it. */
export type SpeakEvent =
  | AdmittedEvent
  | {
    readonly type: "audio";
    /** The next bytes of a file; their memory goes to the server. */
    readonly bytes: Uint8Array<ArrayBuffer>;
    /** The file is whole with these. */
    readonly isLast: boolean;
  }
  | {
    readonly type: "done";
    /** Tokens of all the text. */
    readonly textTokens: number;
    readonly audioSeconds: number;
  }
  | ErrorEvent;
