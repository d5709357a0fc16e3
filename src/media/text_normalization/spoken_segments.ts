/**
 * Divides a text into the pieces that are spoken one by one.
 *
 * @module
 */
import { splitSentences } from "./sentences.ts";

/** A piece of a text. */
export interface SpokenSegment {
  readonly text: string;
  /** Silence after it, if something follows. */
  readonly pauseSeconds: number;
}

const CLAUSE_PAUSE_SECONDS = 0.1;
const SENTENCE_PAUSE_SECONDS = 0.25;
const PARAGRAPH_PAUSE_SECONDS = 0.6;

/** Where a sentence may be split, the best positions first. */
const CUTS: readonly RegExp[] = [
  /[;:\u2014\u2013\u3002\uff1b\uff1a][)"'\u201d\u2019]*\s*|\s-\s|\.\.\.\s/g,
  /[,\u3001\uff0c)\]]["'\u201d\u2019]*\s*/g,
  /\s+/g,
];
/** A cut nearer to the start would leave too little. */
const MIN_SHARE = 0.4;

/** Yields the pieces in order; none is blank, and none is much longer than `maxChars`. */
export function* splitSpokenSegments(
  text: string,
  { language, maxChars }: { readonly language: string; readonly maxChars: number },
): Generator<SpokenSegment> {
  for (const sentence of splitSentences(text, language)) {
    const pause = sentence.endsParagraph ? PARAGRAPH_PAUSE_SECONDS : SENTENCE_PAUSE_SECONDS;
    let rest = sentence.text;
    while (rest.length > maxChars) {
      const at = findCut(rest, maxChars);
      const head = rest.slice(0, at).trim();
      if (head !== "") yield { text: head, pauseSeconds: CLAUSE_PAUSE_SECONDS };
      rest = rest.slice(at).trimStart();
    }
    if (rest !== "") yield { text: rest, pauseSeconds: pause };
  }
}

/** Two halves of a text, cut at the best position near its middle; `undefined` for a single character. */
export function halve(text: string): readonly [string, string] | undefined {
  const characters = [...new Intl.Segmenter().segment(text)];
  if (characters.length < 2) return undefined;
  const at = findCut(text, Math.ceil(text.length * 0.6));
  const halves = [text.slice(0, at).trim(), text.slice(at).trim()] as const;
  if (halves[0] !== "" && halves[1] !== "") return halves;
  const middle = characters[characters.length >> 1]!.index;
  return [text.slice(0, middle), text.slice(middle)];
}

/** The end of the longest prefix of at most `maxChars` characters that ends at a good position. */
function findCut(text: string, maxChars: number): number {
  const head = text.slice(0, maxChars);
  for (const pattern of CUTS) {
    let best = 0;
    for (const match of head.matchAll(pattern)) best = match.index + match[0].length;
    if (best >= maxChars * MIN_SHARE) return best;
  }
  // Not between the surrogates of one character.
  const isHalf = /[\ud800-\udbff]/.test(text[maxChars - 1]!) && maxChars > 1;
  return isHalf ? maxChars - 1 : maxChars;
}
