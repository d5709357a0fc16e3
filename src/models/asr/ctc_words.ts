/**
 * Word times from the frames of a CTC model's tokens. Pure.
 *
 * @module
 */
import type { TranscriptWord } from "../task.ts";
import type { CtcToken } from "./ctc.ts";

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
