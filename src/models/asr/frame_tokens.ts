/**
 * Tokens that a model assigns to frames of sound, and the segments and words that they make. Pure.
 *
 * @module
 */
import type { TranscriptWord } from "../task.ts";

export interface FrameToken {
  readonly id: number;
  readonly text: string;
  readonly startFrame: number;
  /** The frame after its last. */
  readonly endFrame: number;
  /** Natural logarithm of its probability in the frame where it is likeliest. */
  readonly logprob: number;
}

interface SegmentRules {
  /** A pause of at least this many frames ends a segment. */
  readonly pauseFrames: number;
  /** A segment longer than this ends at the next word. */
  readonly maxFrames: number;
}

export class FrameSegments {
  readonly #rules: SegmentRules;
  #tokens: FrameToken[] = [];

  constructor(rules: SegmentRules) {
    this.#rules = rules;
  }

  /** @returns segments that are complete; each has at least one token with text. */
  push(tokens: readonly FrameToken[]): FrameToken[][] {
    const complete: FrameToken[][] = [];
    for (const token of tokens) {
      if (token.text === "") continue;
      if (this.#isBreak(token)) complete.push(...this.end());
      this.#tokens.push(token);
    }
    return complete;
  }

  /** The remaining segment, if it has text. */
  end(): FrameToken[][] {
    const tokens = this.#tokens;
    this.#tokens = [];
    return tokens.some(({ text }) => text.trim() !== "") ? [tokens] : [];
  }

  #isBreak(token: FrameToken): boolean {
    // Word separators occur anywhere in a pause, so a pause is measured between sounds.
    if (token.text === " ") return false;
    const lastHeard = this.#tokens.findLast(({ text }) => text !== " ");
    if (lastHeard === undefined) return false;
    const first = this.#tokens.find(({ text }) => text !== " ")!;
    const isNewWord = token.text.startsWith(" ") || this.#tokens.at(-1)!.text === " ";
    return token.startFrame - lastHeard.endFrame >= this.#rules.pauseFrames ||
      (isNewWord && token.endFrame - first.startFrame > this.#rules.maxFrames);
  }
}

/** How tokens are joined into words. */
export interface TokenReading {
  readonly frameSeconds: number;
  /** Whether the language puts spaces between its words; else each token is a word. */
  readonly hasSpaces: boolean;
}

/** The range of frames into which a segment's words must fit. */
interface FrameLimits {
  /** The end of the previous segment; the recording's beginning if absent. */
  readonly from?: number;
  /** The end of the speech. Words go beyond it only if they have no room before it. No limit if absent. */
  readonly to?: number;
}

/**
 * The words of a segment, in order, without overlap, each at least one frame long. A transducer may put several words
 * into one frame, and may let the last one end after the sound.
 */
export function toWords(
  tokens: readonly FrameToken[],
  { frameSeconds, hasSpaces }: TokenReading,
  { from = 0, to = Infinity }: FrameLimits = {},
): TranscriptWord[] {
  const words: FrameToken[][] = [];
  let isApart = true;
  for (const token of tokens) {
    isApart ||= token.text.startsWith(" ") || !hasSpaces;
    if (token.text.trim() === "") continue;
    if (isApart) words.push([]);
    words.at(-1)!.push(token);
    isApart = token.text.endsWith(" ");
  }
  const spans = words.map((word) => ({ start: word[0]!.startFrame, end: word.at(-1)!.endFrame }));
  return fitSpans(spans, { from, to }).map(({ start, end }, index) => ({
    text: words[index]!.map(({ text }) => text).join("").trim(),
    startSeconds: start * frameSeconds,
    endSeconds: end * frameSeconds,
  }));
}

/** Fits spans of frames between the limits, in order. */
function fitSpans(
  spans: readonly { readonly start: number; readonly end: number }[],
  { from, to }: Required<FrameLimits>,
): ReturnType<typeof giveFrames> {
  if (spans.length === 0) return [];
  const numWords = spans.length;
  const first = Math.max(from, spans[0]!.start);
  const end = Math.min(to, Math.max(spans.at(-1)!.end, first + numWords));
  const start = Math.max(from, Math.min(first, end - numWords));
  // If there is no room before the end of the speech, words go beyond it.
  const last = Math.max(end, start + numWords);
  const within = (frame: number) => Math.min(Math.max(frame, start), last);
  return giveFrames(
    spans.map((span) => ({ start: within(span.start), end: within(span.end) })),
    { startSeconds: start, endSeconds: last, frameSeconds: 1 },
  );
}

/** The time of a word, in seconds. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * Gives each span at least one frame and keeps their order: tokens may share a frame, and a word without duration
 * cannot be shown or played. If a segment is too short for its words, they share it equally.
 */
export function giveFrames(
  spans: readonly Span[],
  { startSeconds, endSeconds, frameSeconds }: {
    readonly startSeconds: number;
    readonly endSeconds: number;
    readonly frameSeconds: number;
  },
): Span[] {
  const isLong = ({ start, end }: Span) => end > start;
  if (spans.every(isLong)) return [...spans];
  const least = Math.min(frameSeconds, (endSeconds - startSeconds) / spans.length);
  const given: Span[] = [];
  for (const { start, end } of spans) {
    const from = Math.max(start, given.at(-1)?.end ?? startSeconds);
    given.push({ start: from, end: Math.max(end, from + least) });
  }
  // A word that went beyond the end moves the words before it back.
  for (let i = given.length - 1, limit = endSeconds; i >= 0 && given[i]!.end > limit; i--) {
    const start = Math.max(startSeconds, Math.min(given[i]!.start, limit - least));
    given[i] = { start, end: limit };
    limit = start;
  }
  return given;
}
