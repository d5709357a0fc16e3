/**
 * The interface of speech synthesis models.
 *
 * @module
 */
import type { Refusal } from "../../base/errors.ts";
import type { OpenContext } from "../folder/open_context.ts";
import type { Voice } from "../task.ts";

interface Utterance {
  /** One of the synthesizer's. */
  readonly voice: Voice;
  /** 1 is the model's own pace. */
  readonly speed: number;
  /** Offset of the model's noise: equal offsets sound the same. */
  readonly noiseOffset: number;
  readonly signal: AbortSignal;
}

export interface ClonedVoice {
  readonly voice: Voice;
  /** Its memory. */
  readonly numBytes: number;
}

export interface VoiceCloner {
  /** Sample rate of its input. */
  readonly sampleRateHz: number;
  /**
   * @param samples f32 of one channel, some seconds of speech.
   * @throws {HearthError} `invalid_media` when no voice can be cloned from them.
   */
  clone(samples: Float32Array<ArrayBuffer>): Promise<ClonedVoice>;
}

export interface Synthesizer {
  readonly sampleRateHz: number;
  /** The first is the default. Empty if the model only clones voices. */
  readonly voices: readonly Voice[];
  /** Absent if the model cannot clone voices. */
  readonly cloner?: VoiceCloner | undefined;
  /** What it lacks for that; absent if impossible. */
  readonly clonerWanted?: Refusal | undefined;
  /** Most tokens of one utterance. */
  readonly maxTokens: number;
  /** Whether the model itself supports speed; otherwise its sound is time-stretched. */
  readonly hasSpeed: boolean;
  /**
   * The tokens of a text whose words are written out.
   *
   * @returns none if the model can speak nothing of the text.
   */
  tokenize(text: string, voice: Voice): readonly number[] | Promise<readonly number[]>;
  /**
   * Speaks 1 to `maxTokens` tokens.
   *
   * @returns f32 of one channel, the caller's.
   * @throws the signal's reason when it is aborted on the way.
   */
  synthesize(tokens: readonly number[], utterance: Utterance): Promise<Float32Array<ArrayBuffer>>;
  dispose(): Promise<void>;
}

/** Opens the graphs of one family. @throws {StartupError} when the folder lacks a part. */
export type LoadSynthesizer = (context: OpenContext) => Promise<Synthesizer>;
