/**
 * Models that generate text without times (Moonshine, Cohere's) as recognisers: one segment per piece of sound.
 *
 * @module
 */
import type { Dtype } from "../../config.ts";
import { findQuietCut } from "./quiet_cut.ts";
import {
  noTranslation,
  noWordTimes,
  type Recogniser,
  type Recording,
  type SampleRange,
  type TranscribedWindow,
} from "./recogniser.ts";
import type { SpeechMetrics } from "./speech_metrics.ts";
import {
  languageName,
  requireLanguage,
  type SpokenLanguages,
  UNSPACED_LANGUAGES,
} from "./spoken_languages.ts";
import { compressionRatioOf } from "./whisper_quality.ts";

/** A model's transcript of a piece. */
export interface HeardPiece {
  readonly text: string;
  /** Generated tokens, without the prompt and the end. */
  readonly tokens: readonly number[];
  readonly numPromptTokens: number;
  /** Natural logarithm, the mean over the tokens and the end. */
  readonly meanLogprob: number;
}

/** How to transcribe a piece. */
export interface HearOptions {
  readonly language: string | undefined;
  readonly temperature: number;
  readonly metrics: SpeechMetrics;
  /** Aborting it ends the text at the next token. */
  readonly signal: AbortSignal;
}

/** Its parts; it owns the model. */
export interface GeneratingParts {
  readonly dtype: Dtype;
  readonly sampleRateHz: number;
  readonly languages: SpokenLanguages;
  /** Language where a request names none; detected from the audio if absent. */
  readonly defaultLanguage?: string | undefined;
  readonly maxRecordings: number;
  readonly maxPieceSeconds: number;
  readonly metrics: SpeechMetrics;
  readonly hear: (samples: Float32Array, options: HearOptions) => Promise<HeardPiece>;
  readonly dispose: () => Promise<void>;
}

export class GeneratingRecogniser implements Recogniser {
  readonly dtype: Dtype;
  readonly sampleRateHz: number;
  readonly maxRecordings: number;
  readonly maxSpeechSeconds: number;
  readonly #parts: GeneratingParts;

  constructor(parts: GeneratingParts) {
    this.dtype = parts.dtype;
    this.sampleRateHz = parts.sampleRateHz;
    this.maxRecordings = parts.maxRecordings;
    this.maxSpeechSeconds = parts.maxPieceSeconds;
    this.#parts = parts;
  }

  requireLanguage(code: string): void {
    requireLanguage(this.#parts.languages, code);
  }

  requireTranslation(): void {
    throw noTranslation("its architecture writes what is spoken");
  }

  requireWordTimes(): void {
    throw noWordTimes("its architecture writes text without any times");
  }

  async *transcribe(recording: Recording): AsyncGenerator<TranscribedWindow, void> {
    const { defaultLanguage, metrics, hear } = this.#parts;
    const { language = defaultLanguage, temperature, signal } = recording;
    const space = UNSPACED_LANGUAGES.includes(language ?? "") ? "" : " ";
    let numSegments = 0;
    for await (const { start, end, samples } of this.#pieces(recording)) {
      signal.throwIfAborted();
      const heard = await hear(samples, { language, temperature, metrics, signal });
      signal.throwIfAborted();
      const text = heard.text.trim();
      const startSeconds = start / this.sampleRateHz;
      const segment = {
        id: numSegments,
        seekFrame: Math.round(startSeconds * 100),
        startSeconds,
        endSeconds: end / this.sampleRateHz,
        text: `${space}${text}`,
        tokens: heard.tokens,
        temperature,
        meanLogprob: heard.meanLogprob,
        compressionRatio: compressionRatioOf(text),
        noSpeechProbability: 0,
      };
      if (text !== "") numSegments++;
      yield {
        language: languageName(language),
        numPromptTokens: heard.numPromptTokens,
        numTokens: heard.tokens.length + 1,
        segments: text === "" ? [] : [segment],
      };
    }
  }

  async dispose(): Promise<void> {
    await this.#parts.dispose();
  }

  /** The speech regions if known, else the whole recording cut at quiet points. */
  async *#pieces(
    { audio, numSamples, speech }: Recording,
  ): AsyncGenerator<SampleRange & { readonly samples: Float32Array }> {
    const maxSamples = Math.floor(this.#parts.maxPieceSeconds * this.sampleRateHz);
    const options = { sampleRateHz: this.sampleRateHz, maxSamples };
    for (const range of speech ?? [{ start: 0, end: numSamples }]) {
      for (let start = range.start; start < range.end;) {
        const next = await audio.read(start, Math.min(start + maxSamples, range.end));
        const isRest = start + next.length === range.end;
        const length = isRest ? next.length : findQuietCut(next, options);
        yield { start, end: start + length, samples: next.subarray(0, length) };
        start += length;
      }
    }
  }
}
