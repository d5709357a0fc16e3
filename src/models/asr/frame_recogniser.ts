/**
 * Recognisers for models that assign tokens to frames: models with a CTC head, and transducers.
 *
 * A long recording is transcribed in overlapping windows. Frames near a seam are taken from the window that has more
 * context around them. All frames form one sequence, as if the recording had been encoded in one window.
 *
 * @see https://huggingface.co/blog/asr-chunking
 * @module
 */
import {
  type Frames,
  FrameSegments,
  type FrameToken,
  type GreedyDecoder,
  type TokenReading,
  toWords,
} from "./frame_tokens.ts";
import {
  computeCompressionRatio,
  type Recogniser,
  type Recording,
  type SampleRange,
  type SpeechMetrics,
  toLanguageName,
  type TranscribedWindow,
  UNSPACED_LANGUAGES,
} from "./recogniser.ts";
import type { TranscriptSegment } from "../task.ts";

/** The parts of a recogniser. It owns the model that `run` and `dispose` use. */
interface FrameRecogniserParts
  extends Pick<Recogniser, "dtype" | "sampleRateHz" | "languages" | "dispose"> {
  /** Number of samples from one frame to the next. */
  readonly samplesPerFrame: number;
  readonly metrics: SpeechMetrics;
  /** Runs the model on samples. @returns f32 `[numFrames, width]`. */
  readonly run: (samples: Float32Array) => Promise<{ rows: Float32Array; numFrames: number }>;
  readonly openDecoder: () => GreedyDecoder;
}

const WINDOW_SECONDS = 30;
/** Overlap of two windows on either side of the seam. */
const MARGIN_SECONDS = 3;
/** Shorter sounds are padded with silence to this length, which gives at least one frame. */
const SHORTEST_SECONDS = 0.1;
const PAUSE_SECONDS = 0.5;
const LONGEST_SEGMENT_SECONDS = 10;

/** Makes a recogniser that transcribes overlapping windows into one transcript. */
export function openFrameRecogniser(parts: FrameRecogniserParts): Recogniser {
  return {
    ...parts,
    maxSpeechSeconds: WINDOW_SECONDS,
    whyNoTranslation: "its architecture only transcribes",
    transcribe: (recording) => transcribe(recording, parts),
  };
}

async function* transcribe(
  recording: Recording,
  parts: FrameRecogniserParts,
): AsyncGenerator<TranscribedWindow, void> {
  const { languages, samplesPerFrame, sampleRateHz, openDecoder } = parts;
  const { speech = [{ start: 0, end: recording.numSamples }] } = recording;
  const language = recording.language ?? (languages.length === 1 ? languages[0]! : "");
  const transcript = new Transcript({
    frameSeconds: samplesPerFrame / sampleRateHz,
    hasSpaces: !UNSPACED_LANGUAGES.includes(language),
    timesWords: recording.timesWords,
  });
  for (const range of speech) {
    const decoder = openDecoder();
    for (const window of splitWindows(range, parts)) {
      const ended = await decoder.push(
        await computeFrames(window, recording, parts),
        recording.signal,
      );
      const isLast = window.end === range.end;
      const tokens = isLast ? [...ended, ...decoder.end()] : ended;
      yield {
        language: toLanguageName(language),
        numPromptTokens: 0,
        numTokens: tokens.length,
        segments: transcript.push(tokens, {
          isOver: isLast,
          endFrame: Math.max(1, Math.ceil(range.end / samplesPerFrame)),
        }),
      };
    }
  }
}

/**
 * Runs the model on a window.
 *
 * @returns the window's frames, and the range of those to keep.
 */
async function computeFrames(
  window: Window,
  { read, signal }: Recording,
  { samplesPerFrame, sampleRateHz, metrics, run }: FrameRecogniserParts,
): Promise<Frames> {
  signal.throwIfAborted();
  const heard = await read(window.start, window.end);
  const samples = new Float32Array(
    Math.max(heard.length, Math.ceil(SHORTEST_SECONDS * sampleRateHz)),
  );
  samples.set(heard);
  const { rows, numFrames } = await metrics.measureEncoding(() => run(samples));
  signal.throwIfAborted();
  const toFrame = (sample: number) => Math.round((sample - window.start) / samplesPerFrame);
  const to = window.keep.end === window.end ? numFrames : toFrame(window.keep.end);
  return {
    rows,
    from: toFrame(window.keep.start),
    to: Math.min(to, numFrames),
    firstFrame: Math.round(window.start / samplesPerFrame),
  };
}

/** Divides a range into windows. They begin a whole number of frames apart, so all frames form one regular sequence. */
function* splitWindows(
  { start, end }: SampleRange,
  { samplesPerFrame, sampleRateHz }: FrameRecogniserParts,
): Generator<Window> {
  const toSamples = (seconds: number) =>
    Math.round(seconds * sampleRateHz / samplesPerFrame) * samplesPerFrame;
  const [length, margin] = [toSamples(WINDOW_SECONDS), toSamples(MARGIN_SECONDS)];
  for (let from = start;; from += length - 2 * margin) {
    const to = Math.min(end, from + length);
    const keep = {
      start: from === start ? from : from + margin,
      end: to === end ? to : to - margin,
    };
    yield { start: from, end: to, keep };
    if (to === end) return;
  }
}

interface Window extends SampleRange {
  /** The range of samples whose frames are kept. */
  readonly keep: SampleRange;
}

class Transcript {
  readonly #reading: TokenReading & { readonly timesWords: boolean };
  readonly #segments: FrameSegments;
  #numSegments = 0;
  /** Whether a space is put before the next segment, even if its text does not begin with one. */
  #isApart = true;
  /** The frame after the last word. */
  #endFrame = 0;

  constructor(reading: TokenReading & { readonly timesWords: boolean }) {
    const { frameSeconds } = reading;
    this.#reading = reading;
    this.#segments = new FrameSegments({
      pauseFrames: PAUSE_SECONDS / frameSeconds,
      maxFrames: LONGEST_SEGMENT_SECONDS / frameSeconds,
    });
  }

  /**
   * Adds tokens.
   *
   * @param options.isOver whether the speech ends after these tokens.
   * @param options.endFrame the frame after the last frame of the speech.
   * @returns the segments that are complete.
   */
  push(
    tokens: readonly FrameToken[],
    { isOver, endFrame }: { readonly isOver: boolean; readonly endFrame: number },
  ): TranscriptSegment[] {
    const complete = this.#segments.push(tokens);
    if (isOver) complete.push(...this.#segments.end());
    const segments = complete.map((segment) => this.#make(segment, endFrame));
    this.#isApart ||= isOver;
    return segments;
  }

  #make(tokens: readonly FrameToken[], endFrame: number): TranscriptSegment {
    const heard = tokens.filter(({ text }) => text.trim() !== "");
    const whole = tokens.map(({ text }) => text).join("").replaceAll(/\s+/g, " ");
    const text = `${this.#isApart || whole.startsWith(" ") ? " " : ""}${whole.trim()}`;
    this.#isApart = whole.endsWith(" ");
    const { frameSeconds, timesWords } = this.#reading;
    const words = toWords(tokens, this.#reading, { from: this.#endFrame, to: endFrame });
    const [{ startSeconds }, { endSeconds }] = [words[0]!, words.at(-1)!];
    // The tiny offset keeps rounding errors from adding a frame.
    this.#endFrame = Math.ceil(endSeconds / frameSeconds - 1e-6);
    return {
      id: this.#numSegments++,
      seekFrame: Math.round(startSeconds * 100),
      startSeconds,
      endSeconds,
      text,
      tokens: heard.map(({ id }) => id),
      temperature: 0,
      meanLogprob: heard.reduce((sum, { logprob }) => sum + logprob, 0) / heard.length,
      compressionRatio: computeCompressionRatio(text.trim()),
      noSpeechProbability: 0,
      ...(timesWords && { words }),
    };
  }
}
