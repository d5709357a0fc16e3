/**
 * Wraps lines as Python's `textwrap` does.
 *
 * @module
 */
import { charge, chargeText } from "../meter.ts";
import { countChars, sliceChars } from "../python/text.ts";
import { raise } from "../template_error.ts";

interface WrapOptions {
  readonly width: number;
  readonly breaksWords: boolean;
  readonly breaksAtHyphens: boolean;
}

const SPACE = "[\\t\\n\\v\\f\\r ]";
const NOT_SPACE = "[^\\t\\n\\v\\f\\r ]";
const LETTER = "[\\p{L}\\p{N}_](?<!\\p{Nd})";
const CHUNK = new RegExp(
  `(${SPACE}+|(?<=[\\p{L}\\p{N}_!"'&.,?])-{2,}(?=[\\p{L}\\p{N}_])|${NOT_SPACE}+?(?:` +
    `-(?:(?<=(?:${LETTER}){2}-)|(?<=${LETTER}-${LETTER}-))(?=${LETTER}-?${LETTER})|` +
    `(?=${SPACE}|$)|(?<=[\\p{L}\\p{N}_!"'&.,?])(?=-{2,}[\\p{L}\\p{N}_])))`,
  "u",
);
const SIMPLE = new RegExp(`(${SPACE}+)`);

/**
 * Wraps a line.
 *
 * @returns its parts.
 * @throws {TemplateError} when the width is not positive.
 */
export function wrapLine(line: string, options: WrapOptions): string[] {
  const { width } = options;
  chargeText(line.length * 16);
  if (width <= 0) raise("ValueError", `invalid width ${width} (must be > 0)`);
  const chunks = line.split(options.breaksAtHyphens ? CHUNK : SIMPLE).filter((each) => each !== "")
    .reverse();
  const lines: string[] = [];
  while (chunks.length > 0) {
    charge(1);
    const current: string[] = [];
    let length = 0;
    if (lines.length > 0 && isBlank(chunks.at(-1)!)) chunks.pop();
    while (chunks.length > 0 && length + countChars(chunks.at(-1)!) <= width) {
      length += countChars(chunks.at(-1)!);
      current.push(chunks.pop()!);
    }
    if (chunks.length > 0 && countChars(chunks.at(-1)!) > width) {
      breakWord(chunks, current, width - length, options);
    }
    if (current.length > 0 && isBlank(current.at(-1)!)) current.pop();
    if (current.length > 0) lines.push(current.join(""));
  }
  return lines;
}

function isBlank(chunk: string): boolean {
  return chunk.trim() === "";
}

/** Moves as much of a word that is longer than a line onto the current line as fits. */
function breakWord(
  chunks: string[],
  current: string[],
  space: number,
  { breaksWords, breaksAtHyphens }: WrapOptions,
): void {
  if (!breaksWords) {
    if (current.length === 0) current.push(chunks.pop()!);
    return;
  }
  const word = chunks.pop()!;
  let end = space;
  if (breaksAtHyphens && countChars(word) > space) {
    const hyphen = sliceChars(word, 0, space).lastIndexOf("-");
    if (hyphen > 0 && /[^-]/.test(word.slice(0, hyphen))) end = hyphen + 1;
  }
  current.push(sliceChars(word, 0, end));
  chunks.push(sliceChars(word, end, countChars(word)));
}
