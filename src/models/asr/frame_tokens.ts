/**
 * Tokens that a model assigns to frames of sound, and the segments and words that they make. Pure.
 *
 * @module
 */
import type { TranscriptWord } from "../task.ts";

export interface Vocabulary {
  readonly blank: number;
  /** By class; empty for special tokens, a space where a word ends or begins. */
  readonly texts: readonly string[];
}

/** A token and its frames. */
export interface FrameToken {
  readonly id: number;
  readonly text: string;
  readonly startFrame: number;
  /** The frame after its last. */
  readonly endFrame: number;
  /** Natural logarithm, of the frame where it is likeliest. */
  readonly logprob: number;
}

/** Frames of a recording. */
export interface Frames {
  /** f32 `[frames, width]`: the classes' logits, or what an encoder gives. */
  readonly rows: Float32Array;
  /** The range of frames to read. */
  readonly from: number;
  readonly to: number;
  /** Index in the recording of the rows' frame 0. */
  readonly firstFrame: number;
}

/** Reads the frames of one stretch of speech in order, which come in several pieces. */
export interface FrameReader {
  /** @returns the tokens that ended. @throws the signal's reason, if it is asynchronous. */
  push(frames: Frames, signal: AbortSignal): FrameToken[] | Promise<FrameToken[]>;
  /** Ends the open token. */
  end(): FrameToken[];
}

/** The argmax and its log-probability. */
export function likeliest(logits: Float32Array): { id: number; logprob: number } {
  let id = 0;
  for (let i = 1; i < logits.length; i++) if (logits[i]! > logits[id]!) id = i;
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - logits[id]!);
  return { id, logprob: -Math.log(sum) };
}

interface SegmentRules {
  /** After a pause of at least this many frames. */
  readonly pauseFrames: number;
  /** At the first word after this many frames. */
  readonly maxFrames: number;
}

export class FrameSegments {
  readonly #rules: SegmentRules;
  #tokens: FrameToken[] = [];

  constructor(rules: SegmentRules) {
    this.#rules = rules;
  }

  /** @returns segments that are complete, each at least one token that is text. */
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

/** How tokens are read. */
export interface TokenReading {
  readonly frameSeconds: number;
  /** Whether the language puts spaces between its words; else each token is a word. */
  readonly hasSpaces: boolean;
}

/** The words of a segment: in order, not overlapping, within it. */
export function wordsOfTokens(
  tokens: readonly FrameToken[],
  { frameSeconds, hasSpaces }: TokenReading,
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
  return words.map((word) => ({
    text: word.map(({ text }) => text).join("").trim(),
    startSeconds: word[0]!.startFrame * frameSeconds,
    endSeconds: word.at(-1)!.endFrame * frameSeconds,
  }));
}
