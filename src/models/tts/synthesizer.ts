/**
 * The interface of speech synthesis models.
 *
 * @module
 */
import type { Refusal } from "../../base/errors.ts";
import type { OpenContext } from "../folder/open_context.ts";
import type { Voice } from "../task.ts";

interface Utterance {
  /** One of the synthesizer's voices, or a cloned one. */
  readonly voice: Voice;
  /** Factor on the model's own pace. */
  readonly speed: number;
  /** Offset of the model's noise: with equal offsets, equal texts sound the same. */
  readonly noiseOffset: number;
  readonly signal: AbortSignal;
}

export interface ClonedVoice {
  readonly voice: Voice;
  /** Bytes that the voice takes in memory. */
  readonly numBytes: number;
}

export interface VoiceCloner {
  /** Sample rate of the recordings it takes. */
  readonly sampleRateHz: number;
  /**
   * @param samples f32 of one channel, some seconds of speech.
   * @throws {HearthError} `invalid_media` when no voice can be cloned from them.
   */
  clone(samples: Float32Array<ArrayBuffer>): Promise<ClonedVoice>;
}

export interface Synthesizer {
  readonly sampleRateHz: number;
  /** The voices, the default first. Empty if the model only clones voices. */
  readonly voices: readonly Voice[];
  /** Absent if the model cannot clone voices. */
  readonly cloner?: VoiceCloner | undefined;
  /** What is missing to clone voices; absent if it is impossible. */
  readonly clonerWanted?: Refusal | undefined;
  /** Most tokens of one utterance. */
  readonly maxTokens: number;
  /** Whether the model itself supports speed; otherwise its sound is time-stretched. */
  readonly hasSpeed: boolean;
  /**
   * Tokenizes a normalized text, in which numbers and abbreviations are spelled as words.
   *
   * @returns no tokens if the model can speak nothing of the text.
   */
  tokenize(text: string, voice: Voice): readonly number[] | Promise<readonly number[]>;
  /**
   * Speaks 1 to `maxTokens` tokens.
   *
   * @returns f32 of one channel, owned by the caller.
   * @throws the signal's reason when it is aborted.
   */
  synthesize(tokens: readonly number[], utterance: Utterance): Promise<Float32Array<ArrayBuffer>>;
  dispose(): Promise<void>;
}

/**
 * Opens the graphs of one family.
 *
 * @throws {StartupError} when a file is missing from the folder.
 */
export type LoadSynthesizer = (context: OpenContext) => Promise<Synthesizer>;
