/**
 * Text out of a CTC model's logits: the likeliest token of each frame, repetitions of one token as one, blanks left
 * out. Each token keeps its frames, so that words have times. Pure.
 *
 * @see A. Graves et al.: Connectionist Temporal Classification, 2006, section 3.2 (best path decoding)
 * @module
 */
import type { TranscriptWord } from "../task.ts";

/** The model's output classes. */
export interface CtcVocabulary {
  /** The blank. */
  readonly blank: number;
  /** By class; empty for special tokens, a space where a word ends or begins. */
  readonly texts: readonly string[];
}

/** A token and its frames. */
export interface CtcToken {
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

/** Reads frames in order, which may come in several pieces: a token that continues in the next piece stays one. */
export class CtcReader {
  readonly #vocabulary: CtcVocabulary;
  #last: { id: number; startFrame: number; endFrame: number; logprob: number } | undefined;

  constructor(vocabulary: CtcVocabulary) {
    this.#vocabulary = vocabulary;
  }

  /** @returns the tokens that ended. */
  push({ rows, from, to, firstFrame }: Frames): CtcToken[] {
    const numClasses = this.#vocabulary.texts.length;
    const ended: CtcToken[] = [];
    for (let frame = from; frame < to; frame++) {
      const row = rows.subarray(frame * numClasses, (frame + 1) * numClasses);
      const { id, logprob } = likeliest(row);
      const position = firstFrame + frame;
      if (this.#last?.id === id) {
        this.#last.endFrame = position + 1;
        this.#last.logprob = Math.max(this.#last.logprob, logprob);
        continue;
      }
      ended.push(...this.end());
      if (id !== this.#vocabulary.blank) {
        this.#last = { id, startFrame: position, endFrame: position + 1, logprob };
      }
    }
    return ended;
  }

  /** Ends the open token. */
  end(): CtcToken[] {
    const last = this.#last;
    this.#last = undefined;
    return last === undefined ? [] : [{ ...last, text: this.#vocabulary.texts[last.id]! }];
  }
}

/** The argmax and its log-probability. */
export function likeliest(logits: Float32Array): { id: number; logprob: number } {
  let id = 0;
  for (let i = 1; i < logits.length; i++) if (logits[i]! > logits[id]!) id = i;
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - logits[id]!);
  return { id, logprob: -Math.log(sum) };
}

/** When to begin a new segment. */
interface SegmentRules {
  /** After a pause of at least this many frames. */
  readonly pauseFrames: number;
  /** At the first word after this many frames. */
  readonly maxFrames: number;
}

/** Gathers tokens into segments. */
export class CtcSegments {
  readonly #rules: SegmentRules;
  #tokens: CtcToken[] = [];

  constructor(rules: SegmentRules) {
    this.#rules = rules;
  }

  /** @returns segments that are complete, each at least one token that is text. */
  push(tokens: readonly CtcToken[]): CtcToken[][] {
    const complete: CtcToken[][] = [];
    for (const token of tokens) {
      if (token.text === "") continue;
      if (this.#isBreak(token)) complete.push(...this.end());
      this.#tokens.push(token);
    }
    return complete;
  }

  /** The remaining segment, if it has text. */
  end(): CtcToken[][] {
    const tokens = this.#tokens;
    this.#tokens = [];
    return tokens.some(({ text }) => text.trim() !== "") ? [tokens] : [];
  }

  #isBreak(token: CtcToken): boolean {
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
export interface CtcReading {
  readonly frameSeconds: number;
  /** Whether the language puts spaces between its words; else each token is a word. */
  readonly hasSpaces: boolean;
}

/** The words of a segment: in order, not overlapping, within it. */
export function wordsOfCtc(
  tokens: readonly CtcToken[],
  { frameSeconds, hasSpaces }: CtcReading,
): TranscriptWord[] {
  const words: CtcToken[][] = [];
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
