/**
 * Divides a text into sentences.
 *
 * @module
 */
import { readMonths } from "./date_rules.ts";
import { COUNTED, DETERMINER } from "./languages/german.ts";
import { matchAny } from "./numbers.ts";
import english from "./languages/english.json" with { type: "json" };
import data from "./sentence_abbreviations.json" with { type: "json" };

/** Abbreviations in lower case, without their last full stop. Single letters, initials, need not be here. */
interface Abbreviations {
  /** Those that hardly ever end a sentence, and those that may well end one. */
  readonly abbreviations: string;
  readonly mayEnd?: string;
}

const ABBREVIATIONS: Readonly<Record<string, Abbreviations>> = data;
/** First words of sentences that are hardly ever names. */
const STARTERS = new Set(english.commonWords.split(" "));

/** A sentence, and whether the paragraph goes on after it. */
interface Sentence {
  readonly text: string;
  readonly endsParagraph: boolean;
}

/** A blank line, the end of a heading, or a line that begins as a heading, an item of a list or a row of a table does. */
const PARAGRAPH_END =
  /\r?\n(?:[^\S\n]*\r?\n)+|(?<=^[^\S\n]*#{1,6}[^\S\n][^\n]*)\n|\r?\n(?=[^\S\n]*(?:\||```|(?:[-*+\u2022]|#{1,6}|\d{1,3}[.)])[^\S\n]))/m;

const LAST_WORD = /(?:^|[\s(["'])([\p{L}.]+)\.\s*$/u;
/** Longest sentence, in characters, that continues after an abbreviation. */
const MAX_JOINED_CHARS = 1_000;

/** By language: creating one takes longer than all other text processing of a sentence. */
const segmenters = new Map<string, Intl.Segmenter>();

function getSegmenter(language: string): Intl.Segmenter {
  return segmenters.getOrInsertComputed(
    language,
    () => new Intl.Segmenter(language, { granularity: "sentence" }),
  );
}

/** The sentences of a text in order, none of them blank. */
export function* splitSentences(text: string, language: string): Generator<Sentence> {
  const segmenter = getSegmenter(language);
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
  const { abbreviations, mayEnd = "" } = ABBREVIATIONS[language] ?? ABBREVIATIONS["en"]!;
  // German streets: Hauptstr.
  if (language === "de" && /\p{L}str$/u.test(word)) return true;
  const isKnown = abbreviations.split(" ").includes(word);
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
