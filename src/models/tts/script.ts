/**
 * Divides a text into lines. Each line is spoken in one run of the model, with silence between lines.
 *
 * @module
 */
import { loadNormalizer } from "../../media/text_normalization/normalize.ts";
import { halve, splitSegments, type TextSegment } from "../../media/text_normalization/segments.ts";
import type { Synthesizer } from "./synthesizer.ts";
import { yieldToEvents } from "../../base/timing.ts";
import type { Voice } from "../task.ts";

/** Longest line in characters. Long lines sound better, but the sound of short ones starts sooner. */
const MAX_CHARS = 240;
/** Longest line in characters after text normalization, which makes texts longer. */
const MAX_NORMALIZED_CHARS = 2 * MAX_CHARS;

/** The tokens of a line. */
export interface Line {
  readonly tokens: readonly number[];
  /** Silence after the line, if another follows. */
  readonly pauseSeconds: number;
}

/**
 * Yields the lines of a text in order, each made on demand. A text with nothing to say has no lines.
 *
 * @throws the signal's reason when it is aborted.
 */
export async function* writeScript(
  text: string,
  { synthesizer, voice, signal }: {
    readonly synthesizer: Synthesizer;
    readonly voice: Voice;
    readonly signal: AbortSignal;
  },
): AsyncGenerator<Line> {
  const { language } = new Intl.Locale(voice.language);
  const normalize = await loadNormalizer(language);
  for (const segment of splitSegments(text, { language, maxChars: MAX_CHARS })) {
    // A long stretch of a text may yield no line, so other work and cancellations come in here.
    await yieldToEvents();
    signal.throwIfAborted();
    const normalized = normalize(segment.text);
    const parts = normalized.length <= MAX_NORMALIZED_CHARS
      ? [{ text: normalized, pauseSeconds: 0 }]
      : splitSegments(normalized, { language, maxChars: MAX_NORMALIZED_CHARS });
    for (const part of setLastPause(segment.pauseSeconds, parts)) {
      yield* splitToFit(part, { synthesizer, voice });
    }
  }
}

/** Sets the pause after the last part. */
function* setLastPause(
  pauseSeconds: number,
  parts: Iterable<TextSegment>,
): Generator<TextSegment> {
  let held: TextSegment | undefined;
  for (const part of parts) {
    if (held !== undefined) yield held;
    held = part;
  }
  if (held !== undefined) yield { ...held, pauseSeconds };
}

/** Yields one line, or several if the text exceeds the model's token limit. */
async function* splitToFit(
  { text, pauseSeconds }: TextSegment,
  speaker: { readonly synthesizer: Synthesizer; readonly voice: Voice },
): AsyncGenerator<Line> {
  const { synthesizer, voice } = speaker;
  const tokens = await synthesizer.tokenize(text, voice);
  const halves = tokens.length > synthesizer.maxTokens ? halve(text) : undefined;
  if (halves !== undefined) {
    yield* splitToFit({ text: halves[0], pauseSeconds: 0 }, speaker);
    yield* splitToFit({ text: halves[1], pauseSeconds }, speaker);
  } else if (tokens.length > 0 && tokens.length <= synthesizer.maxTokens) {
    yield { tokens, pauseSeconds };
  }
}
