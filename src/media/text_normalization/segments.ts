/**
 * Divides a text into segments that are spoken one by one.
 *
 * @module
 */
import { readMonths } from "./common_rules.ts";
import { COUNTED, DETERMINER } from "./languages/german.ts";
import { matchAny } from "./numbers.ts";
import english from "./languages/english.json" with { type: "json" };

/** A segment of a text. */
export interface TextSegment {
  readonly text: string;
  /** Silence after the segment, if another follows. */
  readonly pauseSeconds: number;
}

const CLAUSE_PAUSE_SECONDS = 0.1;
const SENTENCE_PAUSE_SECONDS = 0.25;
const PARAGRAPH_PAUSE_SECONDS = 0.6;

/** Positions at which a sentence may be split, the best first. */
const CUTS: readonly RegExp[] = [
  /[;:\u2014\u2013\u3002\uff1b\uff1a][)"'\u201d\u2019]*\s*|\s-\s|\.\.\.\s/g,
  /[,\u3001\uff0c)\]]["'\u201d\u2019]*\s*/g,
  /\s+/g,
];
/** Least length of a segment before a cut, as a share of the maximum length. */
const MIN_SHARE = 0.4;

/** Yields the segments in order; none is blank, and none is longer than `maxChars`. */
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

/** Splits a text at the best position near its middle; `undefined` if it is a single character. */
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
  // Avoids a cut between the two surrogates of a character.
  const isHalf = /[\ud800-\udbff]/.test(text[maxChars - 1]!) && maxChars > 1;
  return isHalf ? maxChars - 1 : maxChars;
}

/**
 * Abbreviations by language, in lower case without the final full stop: first those that hardly ever end a sentence,
 * then those that may. Single letters need not be listed.
 */
const ABBREVIATIONS: Readonly<Record<string, readonly string[]>> = {
  de: [
    "abb abs aufl bd bsp bspw bzw ca dipl dr evtl fam fr geb gest ggf hl hr hrsg ing inkl feb apr " +
    "aug sept sep okt nov dez jh kap mio mrd nr prof sog st std str tel tsd vgl zzgl",
  ],
  en: [
    "mr mrs ms dr prof st mt gen col sgt lt capt cpl maj adm rep sen gov hon rev fr sr fig figs " +
    "no nos vol vols pp eq eqs ch sec art ed eds trans cf vs approx ca est ext max min p jan feb " +
    "mar apr jun jul aug sept sep oct nov dec mon tue tues wed thu thur thurs fri e.g i.e maj cpl " +
    "ft apt ste rm tel b.i.d al",
    "ave blvd rd ln hwy st dr inc ltd corp co bros jr sr esq etc dept univ ft apt ste al tues " +
    "thurs",
  ],
  es: [
    "aprox art av avda cap dr dra dras dres ee ej fig ing lic núm pág págs prof profa sr sra sras " +
    "sres srta sta sto tel ud uds vol p.ej",
  ],
  fr: [
    "av bd chap dr env fig janv févr avr juil sept oct nov déc me mlle mm mme mmes mgr pp pr prof " +
    "réf st ste tél",
  ],
  it: [
    "art avv cap ca dott dr es fig ing nn pag pagg prof rag sig sigg tel vol",
  ],
  nl: [
    "art bijv blz ca dhr dl dr drs fam fig gem ing ir jl mevr mr mw nr prof resp st str tel vgl " +
    "feb mrt apr jun jul aug sept okt nov dec",
  ],
  pl: [
    "al bł dr godz hab im inż mgr min np nr os pkt płk prof rozdz rys str św tel tj tys tzn tzw " +
    "ul zob",
  ],
  pt: [
    "art av cap dr dra ex fig núm pág págs prof profa sr sra sras srs srta sta sto tel vol",
  ],
  ru: [
    "акад гл гр им илл напр обл пер пл пр просп проф рис св см стр тел ул",
  ],
  sv: [
    "bl ca dir dr fig fr hr jfr kap kl nr prof resp st tel vol bl.a d.v.s t.ex",
  ],
  tr: [
    "av bkz cad dr gen mah ord örn prof sn sok tel yrd",
  ],
  uk: [
    "акад вул гр грн див ім напр обл пл просп проф рис св стор тел",
  ],
};
/** Words that begin sentences and are hardly ever names. */
const STARTERS = new Set(english.commonWords.split(" "));

/**
 * Ends of paragraphs: a blank line, the end of a heading, or the beginning of a heading, list item, table row or code
 * block.
 */
const PARAGRAPH_END =
  /\r?\n(?:[^\S\n]*\r?\n)+|(?<=^[^\S\n]*#{1,6}[^\S\n][^\n]*)\n|\r?\n(?=[^\S\n]*(?:\||```|(?:[-*+\u2022]|#{1,6}|\d{1,3}[.)])[^\S\n]))/m;

const LAST_WORD = /(?:^|[\s(["'])([\p{L}.]+)\.\s*$/u;
/** Longest sentence, in characters, that may continue after an abbreviation. */
const MAX_JOINED_CHARS = 1_000;

/** Segmenters by language: creating one takes longer than all other processing of a sentence. */
const segmenters = new Map<string, Intl.Segmenter>();

/** Yields a text's sentences in order, without blank ones, and whether each ends a paragraph. */
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
      if (sentence !== "" && !continuesIn(sentence, segment, language)) {
        if (sentence.trim() !== "") yield { text: sentence.trim(), endsParagraph: false };
        sentence = "";
      }
      sentence += segment;
    }
    if (sentence.trim() !== "") yield { text: sentence.trim(), endsParagraph: true };
  }
}

/** Whether a sentence continues in the next segment. */
function continuesIn(sentence: string, next: string, language: string): boolean {
  if (sentence.length > MAX_JOINED_CHARS) return false;
  // Within an address or before an image: punctuation ends a sentence only if a space follows.
  if (/[.?!]$|!\[$/.test(sentence)) return true;
  // The number of a list item.
  if (/^\s*\d{1,3}[.)]\s*$/.test(sentence)) return true;
  const end = sentence.slice(-24);
  if (language === "de" && GERMAN_ORDINAL.test(`${end}|${next}`)) return true;
  const word = LAST_WORD.exec(end)?.[1]?.toLowerCase();
  if (word === undefined) return false;
  const isInitial = /^\p{L}$/u.test(word) && word !== "i";
  return isInitial || isAbbreviation(word, next, language);
}

/** Whether the full stop after a word (in lower case) belongs to the word, rather than ending a sentence. */
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

/** Matches `end|next` if the full stop at the end belongs to an ordinal, as in `am 3.|Mai`. */
const GERMAN_ORDINAL = new RegExp(
  String.raw`(?<!\p{L})(?:${DETERMINER}|bis|seit|ab)\s\d{1,3}\.\s*\||` +
    String.raw`(?<!\d)\d{1,2}\.\s*\|(?:${matchAny(readMonths("de").keys())}|${COUNTED})\b`,
  "iu",
);
