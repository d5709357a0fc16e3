/**
 * Divides a text into sentences.
 *
 * @module
 */
import { isAbbreviation, isOrdinal } from "./sentence_abbreviations.ts";

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
  if (isOrdinal(end, next, language)) return true;
  const word = LAST_WORD.exec(end)?.[1]?.toLowerCase();
  if (word === undefined) return false;
  // An initial.
  return isAbbreviation(word, next, language) || /^\p{L}$/u.test(word) && word !== "i";
}
