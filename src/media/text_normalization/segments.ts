/**
 * Divides a text into the pieces that are spoken one by one.
 *
 * @module
 */
import { readMonths } from "./date_rules.ts";
import { COUNTED, DETERMINER } from "./languages/german.ts";
import { matchAny } from "./numbers.ts";
import english from "./languages/english.json" with { type: "json" };
import data from "./sentence_abbreviations.json" with { type: "json" };

/** A piece of a text. */
export interface TextSegment {
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
export function* splitSegments(
  text: string,
  { language, maxChars }: { readonly language: string; readonly maxChars: number },
): Generator<TextSegment> {
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

/**
 * Abbreviations in lower case, without their last full stop: those that hardly ever end a sentence, then those that may.
 * Single letters, initials, need not be here.
 */
const ABBREVIATIONS: Readonly<Record<string, readonly string[]>> = data;
/** First words of sentences that are hardly ever names. */
const STARTERS = new Set(english.commonWords.split(" "));

/** A blank line, the end of a heading, or a line that begins as a heading, an item of a list or a row of a table does. */
const PARAGRAPH_END =
  /\r?\n(?:[^\S\n]*\r?\n)+|(?<=^[^\S\n]*#{1,6}[^\S\n][^\n]*)\n|\r?\n(?=[^\S\n]*(?:\||```|(?:[-*+\u2022]|#{1,6}|\d{1,3}[.)])[^\S\n]))/m;

const LAST_WORD = /(?:^|[\s(["'])([\p{L}.]+)\.\s*$/u;
/** Longest sentence, in characters, that continues after an abbreviation. */
const MAX_JOINED_CHARS = 1_000;

/** By language: creating one takes longer than all other text processing of a sentence. */
const segmenters = new Map<string, Intl.Segmenter>();

/** The sentences of a text in order, none of them blank, and whether the paragraph ends with them. */
function* splitSentences(
  text: string,
  language: string,
): Generator<{ text: string; endsParagraph: boolean }> {
  const segmenter = segmenters.getOrInsertComputed(
    language,
    () => new Intl.Segmenter(language, { granularity: "sentence" }),
  );
  for (const paragraph of text.split(PARAGRAPH_END)) {
    // A line break within a paragraph counts as a space; the segmenter would end the sentence there.
    const line = paragraph.replaceAll(/\s+/g, " ");
    let sentence = "";
    for (const { segment } of segmenter.segment(line)) {
      if (sentence !== "" && !goesOn(sentence, segment, language)) {
        if (sentence.trim() !== "") yield { text: sentence.trim(), endsParagraph: false };
        sentence = "";
      }
      sentence += segment;
    }
    if (sentence.trim() !== "") yield { text: sentence.trim(), endsParagraph: true };
  }
}

/** Whether a sentence does not really end where the next segment begins. */
function goesOn(sentence: string, next: string, language: string): boolean {
  if (sentence.length > MAX_JOINED_CHARS) return false;
  // Within an address, or before an image: these end a sentence only before a space.
  if (/[.?!]$|!\[$/.test(sentence)) return true;
  // The number of a list's item.
  if (/^\s*\d{1,3}[.)]\s*$/.test(sentence)) return true;
  const end = sentence.slice(-24);
  if (language === "de" && GERMAN_ORDINAL.test(`${end}|${next}`)) return true;
  const word = LAST_WORD.exec(end)?.[1]?.toLowerCase();
  if (word === undefined) return false;
  // An initial.
  return isAbbreviation(word, next, language) || /^\p{L}$/u.test(word) && word !== "i";
}

/** Whether the full stop behind a word, in lower case, is part of it rather than the end of a sentence. */
function isAbbreviation(word: string, next: string, language: string): boolean {
  const [known = "", mayEnd = ""] = ABBREVIATIONS[language] ?? ABBREVIATIONS["en"]!;
  // German streets: Hauptstr.
  if (language === "de" && /\p{L}str$/u.test(word)) return true;
  const isKnown = known.split(" ").includes(word);
  const isInitials = /^\p{L}(?:\.\p{L})+$/u.test(word);
  const isEnd = mayEnd.split(" ").includes(word) || isInitials && !isKnown;
  const first = /^["'(\[\u201c\u2018]*([\p{L}']+)/u.exec(next)?.[1]?.toLowerCase() ?? "";
  return isEnd ? !STARTERS.has(first) : isKnown;
}

/** Ordinals with a full stop: the end of a sentence, a stroke, and the beginning of the next. */
const GERMAN_ORDINAL = new RegExp(
  String.raw`(?<!\p{L})(?:${DETERMINER}|bis|seit|ab)\s\d{1,3}\.\s*\||` +
    String.raw`(?<!\d)\d{1,2}\.\s*\|(?:${matchAny(readMonths("de").keys())}|${COUNTED})\b`,
  "iu",
);
