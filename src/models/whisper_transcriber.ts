/**
 * One recording to its segments, window after window.
 *
 * @module
 */
import { setImmediate } from "node:timers";
import {
  cutRow,
  type LogMelRow,
  type LogMelSpec,
  samplesPerRow,
} from "../../kernels/log_mel_spec.ts";
import type { SpeechKernels } from "../backend/speech.ts";
import type { Recording, TranscribedWindow } from "./recogniser.ts";
import type { TranscriptSegment } from "./task.ts";
import type { WhisperBatcher } from "./whisper_batcher.ts";
import { languageNameOf, languageTokenOf, type WhisperConfig } from "./whisper_config.ts";
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

/** Transcribes a recording. */
export async function* transcribe(
  deps: TranscriberDeps,
  recording: Recording,
): AsyncGenerator<TranscribedWindow, void> {
  const { spec, config, batcher } = deps;
  const { language, temperature, signal } = recording;
  const sections = new Sections(deps, recording);
  await sections.measure();
  const sequential = new Sequential({
    numFrames: sections.numFrames,
    windowFrames: spec.frames,
    framesPerSecond: spec.sampleRateHz / spec.hopSamples,
    timestampsStart: config.timestampsStart,
  });
  let languageToken = language === undefined ? undefined : languageTokenOf(config, language);
  let numSegments = 0;
  const textOf = (tokens: readonly number[]) =>
    deps.decode(tokens.filter((token) => token < config.endToken));
  for (let seek = sequential.next(); seek !== undefined; seek = sequential.next()) {
    const window = await batcher.decode({
      row: await sections.row(seek),
      languageToken,
      temperatures: temperaturesFrom(temperature),
      // The same recording gives the same text, whoever else is transcribed.
      seed: seek,
      textOf,
    }, signal);
    languageToken = window.languageToken;
    const segments = sequential.accept(window)
      .map((timed) => ({ timed, text: textOf(timed.tokens) }))
      .filter(({ text }) => text.trim() !== "")
      .map(({ timed, text }) => makeSegment(numSegments++, timed, text, window));
    yield {
      language: languageNameOf(config, languageToken),
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
    const { numSamples: length } = recording;
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
      speech.measure([await this.row(frame)]);
      await new Promise((resolve) => setImmediate(resolve));
      signal.throwIfAborted();
    }
  }

  /** The window that begins at a frame. */
  async row(firstFrame: number): Promise<LogMelRow> {
    const { spec } = this.#deps;
    const { audio, index } = this.#recording;
    // A window reaches back before its first frame, and what lies before the recording mirrors its beginning.
    const marginFrames = Math.ceil(spec.fftSamples / 2 / spec.hopSamples);
    const readFrame = Math.max(0, firstFrame - marginFrames);
    const start = readFrame * spec.hopSamples;
    const samples = await audio.read(start, firstFrame * spec.hopSamples + samplesPerRow(spec));
    return {
      samples: cutRow(spec, samples, {
        firstFrame: firstFrame - readFrame,
        paddedSamples: this.#paddedSamples - start,
      }),
      recording: index,
      // Whisper has silence after a short recording, and nothing at all after a long one.
      contentFrames: this.#isOneWindow ? spec.frames : this.numFrames - firstFrame,
    };
  }
}
