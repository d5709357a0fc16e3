/**
 * Transcribes a recording into segments, window by window, as Whisper's `transcribe.py` does it. Each window begins
 * where the last complete segment of the previous one ended, so that no word is cut at a seam.
 *
 * @see A. Radford et al.: Robust Speech Recognition via Large-Scale Weak Supervision, 2022, section 3.8
 * @module
 */
import {
  countSamplesPerRow,
  cutRow,
  type LogMelRow,
  type LogMelSpec,
} from "../../../kernels/log_mel/log_mel_spec.ts";
import { LANGUAGES } from "../../media/languages.ts";
import type { SpeechKernels } from "../../device/media.ts";
import type { Recording, TranscribedWindow } from "./recogniser.ts";
import { type DecodingResult, isSilence, type WindowDecoder } from "./window_decoder.ts";
import {
  findLanguageToken,
  getLanguageName,
  TIMESTAMP_SECONDS,
  type WhisperConfig,
} from "./whisper_config.ts";
import { joinIntoWords, type TimedTokens } from "./timed_words.ts";

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
      row: await rows.makeRow(range),
      languageToken,
      translates,
      temperature,
      // With this seed the same recording gives the same text, whatever else runs.
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
  /** Number of samples in the recording and the silence after it. */
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

  /** Measures the maximum of the recording's spectrum. The features of all windows are clamped relative to it. */
  async measure(): Promise<void> {
    const { spec, speech } = this.#deps;
    const { index, signal } = this.#recording;
    speech.forget(index);
    // The kernel measures the maximum of a single window itself.
    if (this.#isOneWindow) return;
    for (const { start, end } of this.speech ?? [{ start: 0, end: this.numFrames }]) {
      for (let frame = start; frame < end; frame += spec.frames) {
        speech.measure([
          await this.makeRow({ start: frame, end: Math.min(frame + spec.frames, end) }),
        ]);
        signal.throwIfAborted();
      }
    }
  }

  /** Makes the encoder's input for a window. If speech regions are known, silence follows the window's end. */
  async makeRow({ start, end }: FrameRange): Promise<LogMelRow> {
    const { spec } = this.#deps;
    const { read, index } = this.#recording;
    const { hopSamples } = spec;
    // A window needs samples before its first frame. At the beginning of the recording they are mirrored.
    const marginFrames = Math.ceil(spec.fftSamples / 2 / hopSamples);
    const readFrame = Math.max(0, start - marginFrames);
    const readStart = readFrame * hopSamples;
    const whole = start * hopSamples + countSamplesPerRow(spec);
    const readEnd = this.speech === undefined ? whole : end * hopSamples;
    return {
      samples: cutRow(spec, await read(readStart, readEnd), {
        firstFrame: start - readFrame,
        paddedSamples: this.speech === undefined ? this.#paddedSamples - readStart : whole,
      }),
      recording: index,
      // As in Whisper, short recordings are padded with silence, and long ones are not.
      contentFrames: this.#isOneWindow || this.speech !== undefined
        ? spec.frames
        : this.numFrames - start,
    };
  }
}

interface SequentialOptions {
  /** Number of frames in the recording. */
  readonly numFrames: number;
  readonly windowFrames: number;
  readonly framesPerSecond: number;
  readonly timestampsStart: number;
  /** Speech regions, in order, without overlap, if known. Windows begin and end at their boundaries. */
  readonly speech?: readonly FrameRange[] | undefined;
}

/** A range of a recording, in frames. */
export interface FrameRange {
  readonly start: number;
  /** The frame after the last one. */
  readonly end: number;
}

/** A remainder shorter than this is too short for a word. */
const SHORTEST_SECONDS = 0.1;
/** A window ends before a silence longer than this, as models hallucinate in silence. */
const LONGEST_SILENCE_SECONDS = 3;

/** Divides one recording into windows. Call `next()` and `accept()` alternately. Pure. */
export class Sequential {
  readonly #options: SequentialOptions;
  #seekFrame = 0;

  constructor(options: SequentialOptions) {
    this.#options = options;
  }

  /** Returns the next window, from its first frame to the end of its audio; `undefined` at the end of the recording. */
  next(): FrameRange | undefined {
    const { numFrames, framesPerSecond, speech = [{ start: 0, end: numFrames }] } = this.#options;
    const range = speech.find(({ start, end }) => {
      const isBegun = this.#seekFrame > start;
      return end - Math.max(this.#seekFrame, start) >=
        (isBegun ? SHORTEST_SECONDS * framesPerSecond : 1);
    });
    if (range === undefined) return undefined;
    this.#seekFrame = Math.max(this.#seekFrame, range.start);
    return { start: this.#seekFrame, end: this.#findEnd(this.#seekFrame) };
  }

  /**
   * Takes the result of a window and advances.
   *
   * @returns the window's segments, including those without text.
   */
  accept(window: DecodingResult): TimedTokens[] {
    const { numFrames, framesPerSecond, speech } = this.#options;
    const seekFrame = this.#seekFrame;
    const end = this.#findEnd(seekFrame);
    const ownFrames = end - seekFrame;
    if (isSilence(window)) {
      this.#seekFrame += ownFrames;
      return [];
    }
    const goesOn = speech === undefined
      ? end < numFrames
      : speech.some((range) => range.start < end && end < range.end);
    const { segments, seenSeconds } = this.#cut(window.tokens, goesOn);
    const seenFrames = Math.round((seenSeconds ?? Infinity) * framesPerSecond);
    // Always advances, even if the model places its first words at the window's start.
    this.#seekFrame += seenFrames > 0 ? Math.min(seenFrames, ownFrames) : ownFrames;
    const offsetSeconds = seekFrame / framesPerSecond;
    const ownSeconds = ownFrames / framesPerSecond;
    return segments.map((tokens) => {
      const { start, end } = this.#readTimes(tokens, ownSeconds);
      return {
        startSeconds: offsetSeconds + start,
        endSeconds: offsetSeconds + end,
        tokens,
        seekFrame,
      };
    });
  }

  /**
   * Finds the end of the window: the end of the last speech region that fits into it. A region that does not fit, or
   * that follows a long silence, goes to the next window. Only a region longer than a window is cut.
   */
  #findEnd(seekFrame: number): number {
    const { numFrames, windowFrames, framesPerSecond, speech } = this.#options;
    const limit = Math.min(seekFrame + windowFrames, numFrames);
    if (speech === undefined) return limit;
    let last: FrameRange | undefined;
    for (const range of speech) {
      if (range.end <= seekFrame) continue;
      const silence = last === undefined ? 0 : range.start - last.end;
      if (range.end > limit || silence > LONGEST_SILENCE_SECONDS * framesPerSecond) break;
      last = range;
    }
    return last?.end ?? limit;
  }

  /**
   * Divides the tokens into segments between pairs of adjacent timestamps.
   *
   * @param goesOn whether the recording continues after the window.
   * @returns the segments. If the last text has no end timestamp, `seenSeconds` is the time at which the segments before
   * it end, and the next window begins there.
   */
  #cut(
    tokens: readonly number[],
    goesOn: boolean,
  ): { segments: readonly number[][]; seenSeconds?: number } {
    const { timestampsStart } = this.#options;
    const isTimestamp = (position: number) => (tokens[position] ?? -1) >= timestampsStart;
    const cuts = [...tokens.keys()].filter((position) =>
      position > 0 && isTimestamp(position) && isTimestamp(position - 1)
    );
    const hasEnd = isTimestamp(tokens.length - 1) && !isTimestamp(tokens.length - 2);
    if (cuts.length === 0) {
      // Whisper itself keeps a text without end timestamp, and so cuts off a sentence at the end of the window.
      const beginSeconds = isTimestamp(0) ? this.#toSeconds(tokens[0]!) : 0;
      if (goesOn && !hasEnd && tokens.length > 1 && beginSeconds > 0) {
        return { segments: [], seenSeconds: beginSeconds };
      }
      return { segments: tokens.length > 0 ? [[...tokens]] : [] };
    }
    if (hasEnd) cuts.push(tokens.length);
    const segments = cuts.map((end, index) => tokens.slice(cuts[index - 1] ?? 0, end));
    if (hasEnd) return { segments };
    return { segments, seenSeconds: this.#toSeconds(tokens[cuts.at(-1)! - 1]!) };
  }

  #readTimes(tokens: readonly number[], ownSeconds: number): { start: number; end: number } {
    const { timestampsStart, speech } = this.#options;
    const first = tokens[0]!;
    const last = tokens.at(-1)!;
    // After the speech the window holds only silence, so no segment ends later than the speech.
    const latest = speech === undefined ? Infinity : ownSeconds;
    const start = first >= timestampsStart ? Math.min(this.#toSeconds(first), latest) : 0;
    const hasEnd = tokens.length > 1 && last >= timestampsStart;
    const end = hasEnd ? Math.min(this.#toSeconds(last), latest) : ownSeconds;
    return { start, end: Math.max(start, end) };
  }

  #toSeconds(token: number): number {
    return (token - this.#options.timestampsStart) * TIMESTAMP_SECONDS;
  }
}
