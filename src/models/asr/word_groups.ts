/**
 * Groups the tokens of a text into words. Pure.
 *
 * @module
 */

/** How tokens are read. */
export interface WordDivision {
  /** The text of tokens; incomplete characters are U+FFFD. */
  readonly decode: (tokens: number[]) => string;
  /** Whether the language puts spaces between its words; else each character stands for itself. */
  readonly hasSpaces: boolean;
}

/** A word, with the punctuation that belongs to it. */
export interface WordGroup {
  /** As it is written, with what spaces there are around it. */
  readonly text: string;
  readonly numTokens: number;
}

const BROKEN = "\uFFFD";
/** A character has at most four bytes, so at most four tokens. */
const MOST_TOKENS_OF_PIECE = 4;
const IS_PUNCTUATION = /^[\s\p{P}]*$/u;
/** Opening punctuation, or punctuation before a word. */
const OPENS = /^(\s*[\p{Ps}\p{Pi}¿¡]|\s+["'\p{Pd}])/u;

/** All tokens, in words one after the other. */
export function groupWords(tokens: readonly number[], reading: WordDivision): WordGroup[] {
  const pieces = readPieces(tokens, reading.decode);
  const words: WordGroup[][] = [];
  let isOpen = false;
  for (const [index, piece] of pieces.entries()) {
    const text = index === 0 ? ` ${piece.text}` : piece.text;
    const isPunctuation = IS_PUNCTUATION.test(text);
    const opens = isPunctuation && OPENS.test(text);
    const begins = !reading.hasSpaces || /^\s/.test(text);
    if (words.length > 0 && (isOpen || !begins || (isPunctuation && !opens))) {
      words.at(-1)!.push(piece);
    } else words.push([piece]);
    isOpen = opens;
  }
  return words.map((word) => ({
    text: word.map(({ text }) => text).join(""),
    numTokens: word.reduce((sum, { numTokens }) => sum + numTokens, 0),
  }));
}

/** Groups of the fewest tokens that form whole characters. */
function readPieces(tokens: readonly number[], decode: WordDivision["decode"]): WordGroup[] {
  const pieces: WordGroup[] = [];
  for (let first = 0, end = 1; end <= tokens.length; end++) {
    const text = decode(tokens.slice(first, end));
    const isCut = text.endsWith(BROKEN) && end - first < MOST_TOKENS_OF_PIECE;
    if (isCut && end < tokens.length) continue;
    pieces.push({ text, numTokens: end - first });
    first = end;
  }
  return pieces;
}
