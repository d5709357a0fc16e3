/**
 * From the tokens of a text to its words. Pure.
 *
 * @module
 */

/** How tokens are read. */
export interface Reading {
  /** The text of tokens; what is no whole character is U+FFFD. */
  readonly decode: (tokens: number[]) => string;
  /** Whether the language puts spaces between its words; else each character stands for itself. */
  readonly hasSpaces: boolean;
}

/** A word, with the punctuation that belongs to it. */
export interface WordGroup {
  /** As it is written, with what spaces there are around it. */
  readonly text: string;
  /** Those of its tokens that come first and are spoken, or stand before what is. */
  readonly numSpoken: number;
  /** With the punctuation behind it. */
  readonly numTokens: number;
}

const BROKEN = "\uFFFD";
/** A character has at most four bytes; what more tokens do not complete is none. */
const MOST_TOKENS_OF_PIECE = 4;
const IS_PUNCTUATION = /^[\s\p{P}]*$/u;
/** What opens, or stands apart in front of a word. */
const OPENS = /^(\s*[\p{Ps}\p{Pi}¿¡]|\s+["'\p{Pd}])/u;

interface Piece {
  text: string;
  numTokens: number;
}

/** All tokens, in words one after the other. */
export function groupWords(tokens: readonly number[], reading: Reading): WordGroup[] {
  const pieces = readPieces(tokens, reading.decode);
  const words: Piece[][] = [];
  for (const piece of pieces) {
    const isPunctuation = IS_PUNCTUATION.test(piece.text);
    const last = words.at(-1);
    const isOpened = last?.every(({ text }) => OPENS.test(text) && IS_PUNCTUATION.test(text));
    const begins = reading.hasSpaces ? /^\s/.test(piece.text) : true;
    const goesOn = isOpened || (isPunctuation ? !OPENS.test(piece.text) : !begins);
    if (last !== undefined && goesOn) last.push(piece);
    else words.push([piece]);
  }
  return words.map(toGroup);
}

function toGroup(pieces: readonly Piece[]): WordGroup {
  const count = (some: readonly Piece[]) => some.reduce((sum, { numTokens }) => sum + numTokens, 0);
  const lastSpoken = pieces.findLastIndex(({ text }) => !IS_PUNCTUATION.test(text));
  return {
    text: pieces.map(({ text }) => text).join(""),
    // Where nothing is spoken, all of it is what there is.
    numSpoken: count(lastSpoken < 0 ? pieces : pieces.slice(0, lastSpoken + 1)),
    numTokens: count(pieces),
  };
}

/** The fewest tokens at a time that are whole characters. */
function readPieces(tokens: readonly number[], decode: Reading["decode"]): Piece[] {
  const pieces: Piece[] = [];
  for (let first = 0, end = 1; end <= tokens.length; end++) {
    const text = decode(tokens.slice(first, end));
    const isCut = text.endsWith(BROKEN) && end - first < MOST_TOKENS_OF_PIECE;
    if (isCut && end < tokens.length) continue;
    pieces.push({ text, numTokens: end - first });
    first = end;
  }
  return pieces;
}
