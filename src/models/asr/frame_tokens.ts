/**
 * Tokens that a model assigns to frames of sound: the interface of their decoders, and segments and words made of
 * tokens. Pure.
 *
 * @module
 */
import type { TranscriptWord } from "../task.ts";

export interface FrameToken {
  readonly id: number;
  readonly text: string;
  readonly startFrame: number;
  /** The frame after the token's last one. */
  readonly endFrame: number;
  /** Natural logarithm of the probability in the frame where the token is likeliest. */
  readonly logprob: number;
}

export interface Vocabulary {
  readonly blank: number;
  /** Text of each class; empty for special tokens. A space in it is a boundary between words. */
  readonly texts: readonly string[];
}

/** The frames of one window of a recording. */
export interface Frames {
  /** f32 `[frames, width]`: the logits of the classes, or an encoder's output. */
  readonly rows: Float32Array;
  /** The first frame to decode. */
  readonly from: number;
  /** The frame after the last one to decode. */
  readonly to: number;
  /** Index of the first row among the frames of the recording. */
  readonly firstFrame: number;
}

/** Decodes the frames of one speech region, which arrive in order, in several chunks. */
export interface GreedyDecoder {
  /**
   * Decodes the next frames.
   *
   * @returns the tokens that ended.
   * @throws the signal's reason, if decoding is asynchronous.
   */
  push(frames: Frames, signal: AbortSignal): FrameToken[] | Promise<FrameToken[]>;
  /** Ends and returns the token that is still open, if there is one. */
  end(): FrameToken[];
}

/** Finds the class with the largest logit, and its log-probability. */
export function findLikeliest(logits: Float32Array): { id: number; logprob: number } {
  let id = 0;
  for (let i = 1; i < logits.length; i++) if (logits[i]! > logits[id]!) id = i;
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - logits[id]!);
  return { id, logprob: -Math.log(sum) };
}

interface SegmentRules {
  /** A pause of at least this many frames ends a segment. */
  readonly pauseFrames: number;
  /** A segment of more frames ends before the next word. */
  readonly maxFrames: number;
}

export class FrameSegments {
  readonly #rules: SegmentRules;
  #tokens: FrameToken[] = [];

  constructor(rules: SegmentRules) {
    this.#rules = rules;
  }

  /** Adds tokens. @returns the segments that are complete; each has at least one token with text. */
  push(tokens: readonly FrameToken[]): FrameToken[][] {
    const complete: FrameToken[][] = [];
    for (const token of tokens) {
      if (token.text === "") continue;
      if (this.#isBreak(token)) complete.push(...this.end());
      this.#tokens.push(token);
    }
    return complete;
  }

  /** Ends and returns the last segment, if it has text. */
  end(): FrameToken[][] {
    const tokens = this.#tokens;
    this.#tokens = [];
    return tokens.some(({ text }) => text.trim() !== "") ? [tokens] : [];
  }

  #isBreak(token: FrameToken): boolean {
    // Word separators occur anywhere in a pause, so the pause is measured between tokens with sound.
    if (token.text === " ") return false;
    const lastHeard = this.#tokens.findLast(({ text }) => text !== " ");
    if (lastHeard === undefined) return false;
    const first = this.#tokens.find(({ text }) => text !== " ")!;
    const isNewWord = token.text.startsWith(" ") || this.#tokens.at(-1)!.text === " ";
    return token.startFrame - lastHeard.endFrame >= this.#rules.pauseFrames ||
      (isNewWord && token.endFrame - first.startFrame > this.#rules.maxFrames);
  }
}

/** Settings for joining tokens into words. */
export interface TokenReading {
  readonly frameSeconds: number;
  /** Whether the language puts spaces between words; otherwise each token is a word. */
  readonly hasSpaces: boolean;
}

/** The range of frames for a segment's words. */
interface FrameLimits {
  /** The end of the previous segment; the beginning of the recording if absent. */
  readonly from?: number;
  /** The end of the speech; no limit if absent. Words may exceed it only if there is no room before it. */
  readonly to?: number;
}

/**
 * Joins tokens into the words of a segment: in order, without overlap, each at least one frame long. Transducers may
 * assign several words to one frame, and may end the last word after the sound.
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
  // If there is no room before the end of the speech, words exceed it.
  const last = Math.max(end, start + numWords);
  const within = (frame: number) => Math.min(Math.max(frame, start), last);
  return giveFrames(
    spans.map((span) => ({ start: within(span.start), end: within(span.end) })),
    { start, end: last, frameLength: 1 },
  );
}

/** The time of a word, in seconds or in frames. */
interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * Extends spans to at least one frame and keeps their order. Tokens may share a frame, but a word without duration
 * cannot be shown or played. If a segment is too short for its words, they share it equally.
 */
export function giveFrames(
  spans: readonly Span[],
  { start: first, end: last, frameLength }: Span & { readonly frameLength: number },
): Span[] {
  const isLong = ({ start, end }: Span) => end > start;
  if (spans.every(isLong)) return [...spans];
  const least = Math.min(frameLength, (last - first) / spans.length);
  const given: Span[] = [];
  for (const { start, end } of spans) {
    const from = Math.max(start, given.at(-1)?.end ?? first);
    given.push({ start: from, end: Math.max(end, from + least) });
  }
  // If a word exceeds the end, it and the words before it are moved back.
  for (let i = given.length - 1, limit = last; i >= 0 && given[i]!.end > limit; i--) {
    const start = Math.max(first, Math.min(given[i]!.start, limit - least));
    given[i] = { start, end: limit };
    limit = start;
  }
  return given;
}
