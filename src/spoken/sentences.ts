/**
 * Divides a text into sentences.
 *
 * @module
 */

/** A sentence, and whether the paragraph goes on after it. */
interface Sentence {
  readonly text: string;
  readonly endsParagraph: boolean;
}

/** A blank line, the end of a heading, or a line that begins as a heading, an item of a list or a row of a table does. */
const PARAGRAPH_END =
  /\r?\n(?:[^\S\n]*\r?\n)+|(?<=^[^\S\n]*#{1,6}[^\S\n][^\n]*)\n|\r?\n(?=[^\S\n]*(?:\||```|(?:[-*+\u2022]|#{1,6}|\d{1,3}[.)])[^\S\n]))/m;

/** After these a full stop does not end a sentence, even if a capital follows. */
const ABBREVIATIONS = new Set(
  ("mr mrs ms dr prof st mt gen col sgt lt capt cpl maj adm rep sen gov hon rev fr sr fig figs no nos vol vols " +
    "pp eq ch sec art ed eds trans cf vs approx ca est ext max min p ch jan feb mar apr jun jul aug sept sep oct nov dec " +
    "mon tue tues wed thu thur thurs fri")
    .split(" "),
);
const LAST_WORD = /(?:^|[\s(["'])([\p{L}.]+)\.\s*$/u;
/** Longest sentence, in characters, that continues after an abbreviation. */
const MAX_JOINED_CHARS = 1_000;

/** By language: creating one takes longer than all other text processing of a sentence. */
const segmenters = new Map<string, Intl.Segmenter>();

function segmenterOf(language: string): Intl.Segmenter {
  return segmenters.getOrInsertComputed(
    language,
    () => new Intl.Segmenter(language, { granularity: "sentence" }),
  );
}

/** The sentences of a text in order, none of them blank. */
export function* splitSentences(text: string, language: string): Generator<Sentence> {
  const segmenter = segmenterOf(language);
  for (const paragraph of text.split(PARAGRAPH_END)) {
    // A line break within a paragraph counts as a space; the segmenter would end the sentence there.
    const line = paragraph.replaceAll(/\s+/g, " ");
    let sentence = "";
    for (const { segment } of segmenter.segment(line)) {
      if (sentence !== "" && !goesOn(sentence)) {
        if (sentence.trim() !== "") yield { text: sentence.trim(), endsParagraph: false };
        sentence = "";
      }
      sentence += segment;
    }
    if (sentence.trim() !== "") yield { text: sentence.trim(), endsParagraph: true };
  }
}

/** Whether a sentence does not really end here. */
function goesOn(sentence: string): boolean {
  if (sentence.length > MAX_JOINED_CHARS) return false;
  // Within an address, or before an image: these end a sentence only before a space.
  if (/[.?!]$|!\[$/.test(sentence)) return true;
  // The number of a list's item.
  if (/^\s*\d{1,3}[.)]\s*$/.test(sentence)) return true;
  const word = LAST_WORD.exec(sentence.slice(-24))?.[1]?.toLowerCase();
  if (word === undefined) return false;
  // An initial, or "e.g." and the like; "U.S." may well end a sentence.
  return ABBREVIATIONS.has(word) || /^\p{L}$/u.test(word) && word !== "i" || word === "e.g" ||
    word === "i.e";
}
