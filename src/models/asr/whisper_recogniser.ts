/**
 * Whisper as a recogniser: its graphs, the kernels beside them, and the batcher that all recordings share.
 *
 * @module
 */
import type { SiteHeads } from "../../backend/cross_alignment.ts";
import type { Sampler } from "../../backend/backend.ts";
import type { Dtype } from "../../config.ts";
import {
  noWordTimes,
  type Recogniser,
  type Recording,
  type TranscribedWindow,
} from "./recogniser.ts";
import type { SpeechMetrics } from "./speech_metrics.ts";
import { WhisperBatcher } from "./whisper_batcher.ts";
import { languageTokenOf } from "./whisper_config.ts";
import type { WhisperGraphs } from "./whisper_graphs.ts";
import { transcribe, type TranscriberDeps } from "./whisper_transcriber.ts";

/** What it is made of; it owns all of it. */
export interface WhisperParts extends Omit<TranscriberDeps, "batcher"> {
  readonly graphs: WhisperGraphs;
  readonly sampler: Sampler;
  /** Most recordings at a time. */
  readonly maxRecordings: number;
  /** Most windows that the encoder takes in one piece. */
  readonly maxGroupRows: number;
  /** Those that tell when tokens are spoken. */
  readonly alignmentHeads: readonly SiteHeads[];
  readonly metrics: SpeechMetrics;
}

/** See the module. */
export class WhisperRecogniser implements Recogniser {
  readonly dtype: Dtype;
  readonly sampleRateHz: number;
  readonly maxRecordings: number;
  readonly maxSpeechSeconds: number;
  readonly #parts: WhisperParts;
  readonly #batcher: WhisperBatcher;

  constructor(parts: WhisperParts) {
    const { graphs, spec, maxRecordings } = parts;
    this.dtype = graphs.dtype;
    this.sampleRateHz = spec.sampleRateHz;
    this.maxRecordings = maxRecordings;
    // Speech begins and ends within frames, and is to fit into a window with both.
    this.maxSpeechSeconds = (spec.frames - 2) * spec.hopSamples / spec.sampleRateHz;
    this.#parts = parts;
    this.#batcher = new WhisperBatcher({ ...parts, maxRows: maxRecordings });
  }

  requireLanguage(code: string): void {
    languageTokenOf(this.#parts.config, code);
  }

  requireWordTimes(): void {
    if (this.#parts.graphs.cutDecoder !== undefined) return;
    throw noWordTimes("its decoder's graph is not cut, which hides where the model looks");
  }

  transcribe(recording: Recording): AsyncGenerator<TranscribedWindow, void> {
    return transcribe({ ...this.#parts, batcher: this.#batcher }, recording);
  }

  async dispose(): Promise<void> {
    const { sampler, speech, graphs } = this.#parts;
    await this.#batcher.close();
    sampler.dispose();
    speech.dispose();
    await graphs.dispose();
  }
}
