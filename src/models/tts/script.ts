/**
 * Divides a text into lines, each spoken in one run of the model, with silence between them.
 *
 * @module
 */
import { loadNormalizer } from "../../media/text_normalization/normalize.ts";
import { halve, splitSegments, type TextSegment } from "../../media/text_normalization/segments.ts";
import type { Synthesizer } from "./synthesizer.ts";
import { yieldToEvents } from "../../base/timing.ts";
import type { Voice } from "../task.ts";

/** Longest line in characters: long lines sound better, short ones start sooner. */
const MAX_CHARS = 240;
const MAX_SAID_CHARS = 2 * MAX_CHARS;

/** Tokens that are spoken in one run. */
export interface Line {
  readonly tokens: readonly number[];
  /** Silence after the line, if another follows. */
  readonly pauseSeconds: number;
}

/**
 * The lines of a text in order, each made on demand; none if there is nothing to say.
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
    // A long text may go without a line for a long time.
    await yieldToEvents();
    signal.throwIfAborted();
    const said = normalize(segment.text);
    // Normalized text is longer than the original.
    const parts = said.length <= MAX_SAID_CHARS
      ? [{ text: said, pauseSeconds: 0 }]
      : splitSegments(said, { language, maxChars: MAX_SAID_CHARS });
    for (const part of endingWith(segment.pauseSeconds, parts)) {
      yield* fit(part, { synthesizer, voice });
    }
  }
}

/** Moves the pause that follows all parts to the last of them. */
function* endingWith(
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

/** Yields one line, or several if it exceeds the model's token limit. */
async function* fit(
  { text, pauseSeconds }: TextSegment,
  speaker: { readonly synthesizer: Synthesizer; readonly voice: Voice },
): AsyncGenerator<Line> {
  const { synthesizer, voice } = speaker;
  const tokens = await synthesizer.tokenize(text, voice);
  const halves = tokens.length > synthesizer.maxTokens ? halve(text) : undefined;
  if (halves !== undefined) {
    yield* fit({ text: halves[0], pauseSeconds: 0 }, speaker);
    yield* fit({ text: halves[1], pauseSeconds }, speaker);
  } else if (tokens.length > 0 && tokens.length <= synthesizer.maxTokens) {
    yield { tokens, pauseSeconds };
  }
}
