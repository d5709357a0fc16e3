/**
 * Transcribes one recording into segments, window by window.
 *
 * @module
 */
import {
  cutRow,
  type LogMelRow,
  type LogMelSpec,
  samplesPerRow,
} from "../../../kernels/log_mel/log_mel_spec.ts";
import { LANGUAGES } from "../../media/languages.ts";
import type { SpeechKernels } from "../../device/media.ts";
import type { Recording, TranscribedWindow } from "./recogniser.ts";
import type { WindowDecoder } from "./window_decoder.ts";
import { findLanguageToken, getLanguageName, type WhisperConfig } from "./whisper_config.ts";
import { type FrameRange, Sequential } from "./whisper_sequential.ts";
import { joinIntoWords } from "./timed_words.ts";

interface TranscriberDeps {
  readonly spec: LogMelSpec;
  readonly config: WhisperConfig;
  readonly speech: SpeechKernels;
  readonly decoder: WindowDecoder;
  /** Decodes text tokens. */
  readonly decode: (tokens: number[]) => string;
}

export async function* transcribe(
  deps: TranscriberDeps,
  recording: Recording,
): AsyncGenerator<TranscribedWindow, void> {
  const { spec, config, decoder } = deps;
  const { language, translates, temperature, timesWords, signal } = recording;
  const rows = new RecordingRows(deps, recording);
  await rows.measure();
  const framesPerSecond = spec.sampleRateHz / spec.hopSamples;
  const sequential = new Sequential({
    numFrames: rows.numFrames,
    windowFrames: spec.frames,
    framesPerSecond,
    timestampsStart: config.timestampsStart,
    speech: rows.speech,
  });
  let languageToken = language === undefined ? undefined : findLanguageToken(config, language);
  let numSegments = 0;
  const getText = (tokens: readonly number[]) =>
    deps.decode(tokens.filter((token) => token < config.endToken));
  for (let range = sequential.next(); range !== undefined; range = sequential.next()) {
    const window = await decoder.decode({
      row: await rows.row(range),
      languageToken,
      translates,
      temperature,
      // The seed makes the same recording give the same text, regardless of other requests.
      seed: range.start,
      getText,
      timedSeconds: timesWords ? (range.end - range.start) / framesPerSecond : undefined,
      signal,
    });
    languageToken = window.languageToken;
    const chunks = sequential.accept(window);
    const words = joinIntoWords(chunks, window, {
      ...deps,
      offsetSeconds: range.start / framesPerSecond,
    });
    const { temperature: used, meanLogprob, compressionRatio, noSpeechProbability } = window;
    const segments = chunks
      .map((chunk, i) => ({ ...chunk, text: getText(chunk.tokens), words: words?.[i] }))
      .filter(({ text }) => text.trim() !== "")
      .map(({ words, ...chunk }) => ({
        ...chunk,
        id: numSegments++,
        temperature: used,
        meanLogprob,
        compressionRatio,
        noSpeechProbability,
        ...(words && { words }),
      }));
    yield {
      language: translates ? LANGUAGES["en"]! : getLanguageName(config, languageToken),
      numPromptTokens: config.transcribeToken === undefined ? 1 : 3,
      numTokens: window.tokens.length + 1,
      segments,
    };
  }
}

/** Cuts a recording into the inputs of the encoder. */
class RecordingRows {
  readonly numFrames: number;
  /** Speech regions, if known. */
  readonly speech: readonly FrameRange[] | undefined;
  readonly #deps: TranscriberDeps;
  readonly #recording: Recording;
  /** Number of samples of the recording and of the silence after it. */
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
    this.speech = recording.speech?.map(({ start, end }) => ({
      start: Math.floor(start / hopSamples),
      end: Math.min(this.numFrames, Math.ceil(end / hopSamples)),
    }));
  }

  /** Measures the maximum of the whole recording's spectrum, which bounds the features of all its windows. */
  async measure(): Promise<void> {
    const { spec, speech } = this.#deps;
    const { index, signal } = this.#recording;
    speech.forget(index);
    // A single window measures its own maximum.
    if (this.#isOneWindow) return;
    for (const { start, end } of this.speech ?? [{ start: 0, end: this.numFrames }]) {
      for (let frame = start; frame < end; frame += spec.frames) {
        speech.measure([await this.row({ start: frame, end: Math.min(frame + spec.frames, end) })]);
        signal.throwIfAborted();
      }
    }
  }

  /** The input for a window. If the window ends with a speech region, silence follows it. */
  async row({ start, end }: FrameRange): Promise<LogMelRow> {
    const { spec } = this.#deps;
    const { read, index } = this.#recording;
    const { hopSamples } = spec;
    // A window needs samples before its first frame; at the recording's beginning they are mirrored.
    const marginFrames = Math.ceil(spec.fftSamples / 2 / hopSamples);
    const readFrame = Math.max(0, start - marginFrames);
    const readStart = readFrame * hopSamples;
    const whole = start * hopSamples + samplesPerRow(spec);
    const readEnd = this.speech === undefined ? whole : end * hopSamples;
    return {
      samples: cutRow(spec, await read(readStart, readEnd), {
        firstFrame: start - readFrame,
        paddedSamples: this.speech === undefined ? this.#paddedSamples - readStart : whole,
      }),
      recording: index,
      // Whisper pads a short recording with silence, and a long one not at all.
      contentFrames: this.#isOneWindow || this.speech !== undefined
        ? spec.frames
        : this.numFrames - start,
    };
  }
}
