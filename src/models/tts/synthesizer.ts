/**
 * What makes sound of tokens, whatever the family of the model.
 *
 * @module
 */

import type { VoiceInfo } from "../task.ts";

/** Somebody to speak as. */
export type Voice = VoiceInfo;

/** How a piece of text is to be spoken. */
export interface Utterance {
  /** One of the synthesizer's. */
  readonly voice: Voice;
  /** 1 is the model's own pace. */
  readonly speed: number;
  /** Where the noise begins that the model works with: equal places sound the same. */
  readonly noiseOffset: number;
  readonly signal: AbortSignal;
}

/** A voice made of a recording. */
export interface ClonedVoice {
  readonly voice: Voice;
  /** Memory that it takes. */
  readonly numBytes: number;
}

/** Makes voices of recordings. */
export interface VoiceCloner {
  /** Of the samples that it takes. */
  readonly sampleRateHz: number;
  /**
   * @param samples f32 of one channel, seconds of somebody speaking.
   * @throws {HearthError} `invalid_media` when no voice can be made of them.
   */
  clone(samples: Float32Array<ArrayBuffer>): Promise<ClonedVoice>;
}

export interface Synthesizer {
  readonly sampleRateHz: number;
  /** The first is the default. None where the model speaks with the voices of recordings only. */
  readonly voices: readonly Voice[];
  /** Absent where the model does not take on the voices of recordings. */
  readonly cloner?: VoiceCloner | undefined;
  /** What it lacks for that, and how it gets it; absent where nothing helps. */
  readonly clonerWanted?: string | undefined;
  /** Most tokens of one utterance. */
  readonly maxTokens: number;
  /** Whether the model itself speaks faster and slower; otherwise its sound is stretched. */
  readonly hasSpeed: boolean;
  /**
   * The tokens of a text whose words are written out.
   *
   * @returns none where there is nothing in the text that the model can say.
   */
  tokenize(text: string, voice: Voice): Promise<readonly number[]>;
  /**
   * Speaks 1 to `maxTokens` tokens.
   *
   * @returns f32 of one channel, the caller's.
   * @throws the signal's reason when it is aborted on the way.
   */
  synthesize(tokens: readonly number[], utterance: Utterance): Promise<Float32Array<ArrayBuffer>>;
  dispose(): Promise<void>;
}
