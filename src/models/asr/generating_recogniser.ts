/**
 * Models that generate text without times (Moonshine, Cohere's) as recognisers: one segment per piece of sound.
 *
 * @module
 */
import type { Recogniser, Recording, SampleRange, TranscribedWindow } from "./recogniser.ts";
import { languageName, UNSPACED_LANGUAGES } from "./spoken_languages.ts";
import { compressionRatioOf } from "./whisper_quality.ts";

/** A model's transcript of a piece. */
export interface TranscribedPiece {
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
  /** Aborting it ends the text at the next token. */
  readonly signal: AbortSignal;
}

/** Its parts; it owns the model. */
export interface GeneratingParts
  extends Pick<Recogniser, "dtype" | "sampleRateHz" | "languages" | "dispose"> {
  /** What is written where a request names no language; told from the sound if absent. */
  readonly defaultLanguage?: string | undefined;
  readonly maxPieceSeconds: number;
  readonly hear: (samples: Float32Array, options: HearOptions) => Promise<TranscribedPiece>;
}

/** Hears a recording piece by piece. */
export function openGeneratingRecogniser(parts: GeneratingParts): Recogniser {
  return {
    ...parts,
    maxSpeechSeconds: parts.maxPieceSeconds,
    whyNoTranslation: "its architecture only transcribes",
    whyNoWordTimes: "its architecture generates text without times",
    transcribe: (recording) => transcribe(recording, parts),
  };
}

async function* transcribe(
  recording: Recording,
  { defaultLanguage, sampleRateHz, maxPieceSeconds, hear }: GeneratingParts,
): AsyncGenerator<TranscribedWindow, void> {
  const { language = defaultLanguage, temperature, signal } = recording;
  const space = UNSPACED_LANGUAGES.includes(language ?? "") ? "" : " ";
  const maxSamples = Math.floor(maxPieceSeconds * sampleRateHz);
  let numSegments = 0;
  for await (const { start, end, samples } of piecesOf(recording, { sampleRateHz, maxSamples })) {
    signal.throwIfAborted();
    const heard = await hear(samples, { language, temperature, signal });
    signal.throwIfAborted();
    const text = heard.text.trim();
    const startSeconds = start / sampleRateHz;
    const segment = {
      id: numSegments,
      seekFrame: Math.round(startSeconds * 100),
      startSeconds,
      endSeconds: end / sampleRateHz,
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

/** The speech regions if known, else the whole recording cut at quiet points. */
async function* piecesOf(
  { audio, numSamples, speech }: Recording,
  options: QuietCutOptions,
): AsyncGenerator<SampleRange & { readonly samples: Float32Array }> {
  for (const range of speech ?? [{ start: 0, end: numSamples }]) {
    for (let start = range.start; start < range.end;) {
      const next = await audio.read(start, Math.min(start + options.maxSamples, range.end));
      const isRest = start + next.length === range.end;
      const length = isRest ? next.length : findQuietCut(next, options);
      yield { start, end: start + length, samples: next.subarray(0, length) };
      start += length;
    }
  }
}

/** A model's limits. */
export interface QuietCutOptions {
  readonly sampleRateHz: number;
  /** Most samples of a piece. */
  readonly maxSamples: number;
}

/** How far back from the longest piece's end to look. */
const SEARCH_SECONDS = 5;
const QUIET_SECONDS = 0.1;

/**
 * The length of the next piece, which ends in the quietest tenth of a second near a piece's end. Pure.
 *
 * @param samples what comes next, as much as a piece may be at most, all of it if less is left.
 */
export function findQuietCut(
  samples: Float32Array,
  { sampleRateHz, maxSamples }: QuietCutOptions,
): number {
  if (samples.length < maxSamples) return samples.length;
  const window = Math.round(QUIET_SECONDS * sampleRateHz);
  const searched = Math.min(SEARCH_SECONDS * sampleRateHz, maxSamples / 2);
  let [quietest, least] = [maxSamples, Infinity];
  // The last among equals, so that pieces are long.
  for (let start = maxSamples - window; start >= maxSamples - searched; start -= window) {
    let energy = 0;
    for (let i = start; i < start + window; i++) energy += samples[i]! ** 2;
    if (energy < least) [quietest, least] = [start + Math.floor(window / 2), energy];
  }
  return quietest;
}
