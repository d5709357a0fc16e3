/**
 * One recording to its segments, window after window.
 *
 * @module
 */
import { setImmediate } from "node:timers";
import { cutRow, type LogMelRow, type LogMelSpec } from "../../kernels/log_mel_spec.ts";
import type { SpeechKernels } from "../backend/speech.ts";
import type { TranscriptSegment } from "./task.ts";
import type { WhisperBatcher } from "./whisper_batcher.ts";
import type { WhisperConfig } from "./whisper_config.ts";
import { temperaturesFrom } from "./whisper_quality.ts";
import { Sequential, type TimedTokens } from "./whisper_sequential.ts";
import type { DecodedWindow } from "./whisper_window.ts";

/** What transcribing works with. */
export interface TranscriberDeps {
  readonly spec: LogMelSpec;
  readonly config: WhisperConfig;
  readonly speech: SpeechKernels;
  readonly batcher: WhisperBatcher;
  /** The text of tokens that are text. */
  readonly decode: (tokens: number[]) => string;
}

/** A recording and what is asked of it. */
export interface Recording {
  /** f32, at the model's sample rate, at least one. */
  readonly samples: Float32Array;
  /** A free place among the recordings whose loudness the device remembers. */
  readonly index: number;
  /** Told from the first window if absent. */
  readonly languageToken: number | undefined;
  /** Of the first attempt at a window. */
  readonly temperature: number;
  /** Aborting it ends the work before the next token. */
  readonly signal: AbortSignal;
}

/** What one window gave. */
export interface TranscribedWindow {
  readonly languageToken: number | undefined;
  /** Tokens that the decoder was given: the start, the language and the task. */
  readonly numPromptTokens: number;
  /** Tokens chosen. */
  readonly numTokens: number;
  readonly segments: readonly TranscriptSegment[];
}

/** Transcribes a recording. */
export async function* transcribe(
  deps: TranscriberDeps,
  recording: Recording,
): AsyncGenerator<TranscribedWindow, void> {
  const { spec, config, batcher } = deps;
  const sections = new Sections(deps, recording);
  await sections.measure();
  const sequential = new Sequential({
    numFrames: sections.numFrames,
    windowFrames: spec.frames,
    framesPerSecond: spec.sampleRateHz / spec.hopSamples,
    timestampsStart: config.timestampsStart,
  });
  let languageToken = recording.languageToken;
  let numSegments = 0;
  const textOf = (tokens: readonly number[]) =>
    deps.decode(tokens.filter((token) => token < config.endToken));
  for (let seek = sequential.next(); seek !== undefined; seek = sequential.next()) {
    const window = await batcher.decode({
      row: sections.row(seek),
      languageToken,
      temperatures: temperaturesFrom(recording.temperature),
      // The same recording gives the same text, whoever else is transcribed.
      seed: seek,
      textOf,
    }, recording.signal);
    languageToken = window.languageToken;
    const segments = sequential.accept(window)
      .map((timed) => ({ timed, text: textOf(timed.tokens) }))
      .filter(({ text }) => text.trim() !== "")
      .map(({ timed, text }) => makeSegment(numSegments++, timed, text, window));
    yield {
      languageToken,
      numPromptTokens: config.transcribeToken === undefined ? 1 : 3,
      numTokens: window.tokens.length + 1,
      segments,
    };
  }
}

function makeSegment(
  id: number,
  { startSeconds, endSeconds, tokens, seekFrame }: TimedTokens,
  text: string,
  window: DecodedWindow,
): TranscriptSegment {
  return {
    id,
    seekFrame,
    startSeconds,
    endSeconds,
    text,
    tokens,
    temperature: window.temperature,
    meanLogprob: window.meanLogprob,
    compressionRatio: window.compressionRatio,
    noSpeechProbability: window.noSpeechProbability,
  };
}

/** Cuts a recording into the rows of the encoder's input. */
class Sections {
  readonly numFrames: number;
  readonly #deps: TranscriberDeps;
  readonly #recording: Recording;
  /** With the silence that is to follow the recording. */
  readonly #paddedSamples: number;
  readonly #isOneWindow: boolean;

  constructor(deps: TranscriberDeps, recording: Recording) {
    const { hopSamples, frames } = deps.spec;
    const { length } = recording.samples;
    const windowSamples = frames * hopSamples;
    this.#deps = deps;
    this.#recording = recording;
    this.#isOneWindow = length <= windowSamples;
    this.#paddedSamples = this.#isOneWindow ? windowSamples : length + windowSamples;
    this.numFrames = Math.max(1, Math.floor(length / hopSamples));
  }

  /** Learns how loud the whole recording is: its loudest place bounds the features of all its windows. */
  async measure(): Promise<void> {
    const { spec, speech } = this.#deps;
    const { index, signal } = this.#recording;
    speech.forget(index);
    // What a single window needs of it, its own features tell.
    if (this.#isOneWindow) return;
    for (let frame = 0; frame < this.numFrames; frame += spec.frames) {
      speech.measure([this.row(frame)]);
      await new Promise((resolve) => setImmediate(resolve));
      signal.throwIfAborted();
    }
  }

  /** The window that begins at a frame. */
  row(firstFrame: number): LogMelRow {
    const { spec } = this.#deps;
    const { samples, index } = this.#recording;
    const paddedSamples = this.#paddedSamples;
    return {
      samples: cutRow(spec, samples, { firstFrame, paddedSamples }),
      recording: index,
      // Whisper has silence after a short recording, and nothing at all after a long one.
      contentFrames: this.#isOneWindow ? spec.frames : this.numFrames - firstFrame,
    };
  }
}
