/**
 * Whisper as a recogniser: its encoder and decoder, and the kernels beside them.
 *
 * @module
 */
import type { Dtype } from "../../config.ts";
import {
  noTranslation,
  noWordTimes,
  type Recogniser,
  type Recording,
  type TranscribedWindow,
} from "./recogniser.ts";
import type { FeatureEncoder } from "./feature_encoder.ts";
import { languageTokenOf } from "./whisper_config.ts";
import { transcribe, type TranscriberDeps } from "./whisper_transcriber.ts";

/** What it is made of; it owns all of it. */
export interface WhisperParts extends TranscriberDeps {
  /** Of the decoder. */
  readonly dtype: Dtype;
  readonly encoder: FeatureEncoder;
  /** Whether the cross-attention weights are available. */
  readonly hasAlignment: boolean;
  /** Most recordings at a time. */
  readonly maxRecordings: number;
}

export class WhisperRecogniser implements Recogniser {
  readonly dtype: Dtype;
  readonly sampleRateHz: number;
  readonly maxRecordings: number;
  readonly maxSpeechSeconds: number;
  readonly #parts: WhisperParts;

  constructor(parts: WhisperParts) {
    const { dtype, spec, maxRecordings } = parts;
    this.dtype = dtype;
    this.sampleRateHz = spec.sampleRateHz;
    this.maxRecordings = maxRecordings;
    // Less two frames: speech may begin and end within a frame.
    this.maxSpeechSeconds = (spec.frames - 2) * spec.hopSamples / spec.sampleRateHz;
    this.#parts = parts;
  }

  requireLanguage(code: string): void {
    languageTokenOf(this.#parts.config, code);
  }

  requireTranslation(): void {
    const { translateToken, languages } = this.#parts.config;
    if (translateToken !== undefined) return;
    throw noTranslation(
      languages.size === 0
        ? "it knows English alone"
        : "its generation_config.json has no task translate",
    );
  }

  requireWordTimes(): void {
    if (this.#parts.hasAlignment) return;
    throw noWordTimes("its decoder's graph is not cut, which hides where the model looks");
  }

  transcribe(recording: Recording): AsyncGenerator<TranscribedWindow, void> {
    return transcribe(this.#parts, recording);
  }

  async dispose(): Promise<void> {
    const { decoder, speech, encoder } = this.#parts;
    await decoder.dispose();
    speech.dispose();
    await encoder.release();
  }
}
