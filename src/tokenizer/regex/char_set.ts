/**
 * Sets of characters, and how patterns spell them: properties and bracket expressions.
 *
 * @module
 */

/** Whether a code point is in a set. */
export type CharTest = (codePoint: number) => boolean;

const NUM_CODE_POINTS = 0x110000;
const ABSENT = 1;
const PRESENT = 2;

/** A set of code points, defined by a test. Each code point is tested once. */
export class CharSet {
  readonly #test: CharTest;
  /** Cached results by code point; 0 means not tested yet. */
  #known = NOTHING_KNOWN;

  constructor(test: CharTest) {
    this.#test = test;
  }

  has(codePoint: number): boolean {
    const known = this.#known[codePoint];
    return known ? known === PRESENT : this.#ask(codePoint);
  }

  #ask(codePoint: number): boolean {
    // Memory pages that are never written to take no space.
    if (this.#known === NOTHING_KNOWN) this.#known = new Uint8Array(NUM_CODE_POINTS);
    const isPresent = this.#test(codePoint);
    this.#known[codePoint] = isPresent ? PRESENT : ABSENT;
    return isPresent;
  }
}

const NOTHING_KNOWN = new Uint8Array(0);

/**
 * The test for a class of {@linkcode POSIX} or a Unicode property of ECMAScript, in upper or lower case; `undefined` if
 * there is neither.
 */
function findPropertyTest(name: string): CharTest | undefined {
  const known = POSIX[name.toLowerCase()];
  if (known !== undefined) return known;
  const words = name.split(/[\s_-]+/).filter(Boolean);
  const capital = words.map((word) => word[0]!.toUpperCase() + word.slice(1).toLowerCase());
  const spellings = [name, capital.join("_"), words.join("_").toUpperCase()];
  for (const spelling of spellings) {
    for (const property of [spelling, `Script=${spelling}`]) {
      const test = toCharTest(`\\p{${property}}`);
      if (test !== undefined) return test;
    }
  }
  return undefined;
}

function toCharTest(pattern: string): CharTest | undefined {
  try {
    const regExp = new RegExp(`^${pattern}$`, "u");
    return (codePoint) => regExp.test(String.fromCodePoint(codePoint));
  } catch {
    return undefined;
  }
}

const isWord = toCharTest("[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}]")!;
const isSpace = toCharTest("\\p{White_Space}")!;
const isDigit = toCharTest("\\p{Nd}")!;
const isHexDigit = toCharTest("[0-9A-Fa-f]")!;

// Classes of characters as the Rust library `tokenizers` uses them.

/** Rust's `char::is_whitespace`. */
export const WHITESPACE = toCharSet("\\p{White_Space}");
/** Rust's `char::is_numeric`. */
export const NUMERIC = toCharSet("\\p{N}");
/** Characters that separate words: Unicode's punctuation, and the symbols of ASCII. */
export const PUNCTUATION = toCharSet("[\\p{P}!-\\/:-@\\[-`{-~]");
/** Control, format and private-use characters. BERT drops them, except tabs and line ends. */
export const CONTROL = toCharSet("[\\p{Cc}\\p{Cf}\\p{Co}]");
export const NONSPACING_MARK = toCharSet("\\p{Mn}");
export const MARK = toCharSet("\\p{M}");
/** `\w` in Rust's `regex` crate. */
export const RUST_WORD = toCharSet("[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]");

function toCharSet(pattern: string): CharSet {
  return new CharSet(toCharTest(pattern)!);
}

/** Oniguruma's bracket classes and its additional properties, for Unicode. */
const POSIX: Readonly<Record<string, CharTest>> = {
  alnum: toCharTest("[\\p{Alphabetic}\\p{Nd}]")!,
  alpha: toCharTest("\\p{Alphabetic}")!,
  any: () => true,
  ascii: (codePoint) => codePoint < 0x80,
  blank: toCharTest("[\\t\\p{Zs}]")!,
  cntrl: toCharTest("\\p{Cc}")!,
  digit: isDigit,
  graph: toCharTest("[^\\p{White_Space}\\p{Cc}\\p{Cs}\\p{Cn}]")!,
  lower: toCharTest("\\p{Lowercase}")!,
  print: toCharTest("[^\\p{Cc}\\p{Cs}\\p{Cn}\\p{Zl}\\p{Zp}]")!,
  punct: toCharTest("[\\p{P}\\p{S}]")!,
  space: isSpace,
  upper: toCharTest("\\p{Uppercase}")!,
  word: isWord,
  xdigit: isHexDigit,
};

/** The sets for `\w` and similar escapes. */
export const SHORTHANDS: Readonly<Record<string, CharTest>> = {
  w: isWord,
  s: isSpace,
  d: isDigit,
  h: isHexDigit,
};

/** `\w` outside of brackets, which also includes the superscript digits and fractions of Latin-1. */
export function isWordOutside(codePoint: number): boolean {
  return isWord(codePoint) || /[²³¹¼-¾]/.test(String.fromCodePoint(codePoint));
}

export function complement(test: CharTest): CharTest {
  return (codePoint) => !test(codePoint);
}

/** Makes a set case-insensitive, by Unicode's simple case folding. */
export function withoutCase(test: CharTest): CharTest {
  return (codePoint) => {
    const char = String.fromCodePoint(codePoint);
    const upper = char.toUpperCase();
    const lower = char.toLowerCase();
    return [char, upper, lower, upper.toLowerCase(), lower.toUpperCase()].some((variant) => {
      const other = variant.codePointAt(0)!;
      const isOne = variant.length === String.fromCodePoint(other).length;
      return isOne && test(other) && (other === codePoint || foldsTo(char, variant));
    });
  };
}

/** Whether two characters are equal without regard to case. */
function foldsTo(char: string, other: string): boolean {
  return new RegExp(`^${char}$`, "iu").test(other);
}

const MAX_DEPTH = 64;

/** Parses `[...]`, with nested sets and intersections. */
export function parseBracket(reader: PatternReader, depth = 0): CharTest {
  if (depth > MAX_DEPTH) throw reader.error("brackets that are too deep");
  reader.next();
  const isNegative = reader.take("^");
  const intersected: CharTest[] = [];
  let members = new Members();
  for (let isFirst = true;; isFirst = false) {
    if (reader.isAtEnd) throw reader.error("a [ that is not closed");
    if (!isFirst && reader.take("]")) break;
    if (reader.take("&&")) {
      intersected.push(members.test);
      members = new Members();
    } else parseMember(reader, members, depth);
  }
  const all = [...intersected, members.test];
  const test: CharTest = all.length === 1
    ? all[0]!
    : (codePoint) => all.every((has) => has(codePoint));
  return isNegative ? complement(test) : test;
}

/** Collects the members of one bracket expression. */
class Members {
  readonly #ranges: (readonly [first: number, last: number])[] = [];
  readonly #sets: CharTest[] = [];

  addRange(first: number, last: number): void {
    this.#ranges.push([first, last]);
  }

  addSet(test: CharTest): void {
    this.#sets.push(test);
  }

  readonly test: CharTest = (codePoint) =>
    this.#ranges.some(([first, last]) => codePoint >= first && codePoint <= last) ||
    this.#sets.some((has) => has(codePoint));
}

function parseMember(reader: PatternReader, members: Members, depth: number): void {
  const posix = reader.takeMatch(/\[:(\^?)(\w+):\]/y);
  if (posix !== undefined) {
    const test = findPropertyTest(posix[2]!);
    if (test === undefined) throw reader.error(`an unknown class ${posix[0]}`);
    return members.addSet(posix[1] === "^" ? complement(test) : test);
  }
  if (reader.sees("[")) return members.addSet(parseBracket(reader, depth + 1));
  const first = parseClassChar(reader);
  if (typeof first !== "number") return members.addSet(first);
  if (!reader.takeMatch(/-(?!\]|&&)/y)) return members.addRange(first, first);
  if (reader.sees("[")) {
    members.addRange(first, first);
    return members.addRange(0x2d, 0x2d);
  }
  const last = parseClassChar(reader);
  if (typeof last !== "number") {
    members.addRange(first, first);
    members.addRange(0x2d, 0x2d);
    return members.addSet(last);
  }
  if (last < first) throw reader.error("a range whose ends are the wrong way round");
  members.addRange(first, last);
}

function parseClassChar(reader: PatternReader): number | CharTest {
  if (!reader.take("\\")) return reader.next().codePointAt(0)!;
  const property = parseProperty(reader);
  if (property !== undefined) return property;
  const letter = reader.peek();
  const shorthand = SHORTHANDS[letter.toLowerCase()];
  if (shorthand !== undefined) {
    reader.next();
    return letter < "a" ? complement(shorthand) : shorthand;
  }
  if (reader.take("b")) return 0x08;
  return reader.escapedChar().codePointAt(0)!;
}

/** Parses `p{...}` or `P{...}`, after the backslash. */
export function parseProperty(reader: PatternReader): CharTest | undefined {
  const found = reader.takeMatch(/([pP])(?:\{(\^?)([^{}^]+)\}|([A-Z]))/y);
  if (found === undefined) return undefined;
  const [text, letter, caret, name, short] = found;
  const test = findPropertyTest(name ?? short!);
  if (test === undefined) throw reader.error(`an unknown property \\${text}`);
  return (letter === "P") !== (caret === "^") ? complement(test) : test;
}

/** Reads the text of a regular expression from left to right. */
export class PatternReader {
  readonly #pattern: string;
  #at = 0;

  constructor(pattern: string) {
    this.#pattern = pattern;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#pattern.length;
  }

  /** The next character; empty at the end. */
  peek(): string {
    const codePoint = this.#pattern.codePointAt(this.#at);
    return codePoint === undefined ? "" : String.fromCodePoint(codePoint);
  }

  next(): string {
    const char = this.peek();
    if (char === "") throw this.error("an end where more is expected");
    this.#at += char.length;
    return char;
  }

  sees(text: string): boolean {
    return this.#pattern.startsWith(text, this.#at);
  }

  take(text: string): boolean {
    const isThere = this.sees(text);
    if (isThere) this.#at += text.length;
    return isThere;
  }

  /** @param expression must have the flag `y`. */
  takeMatch(expression: RegExp): RegExpExecArray | undefined {
    expression.lastIndex = this.#at;
    const found = expression.exec(this.#pattern) ?? undefined;
    if (found !== undefined) this.#at += found[0].length;
    return found;
  }

  /** Reads an escape, after its backslash, and returns the character that it stands for. */
  escapedChar(): string {
    const hex = this.takeMatch(/x\{([0-9A-Fa-f]+)\}|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{4})/y);
    if (hex !== undefined) {
      const codePoint = Number.parseInt(hex[1] ?? hex[2] ?? hex[3]!, 16);
      if (codePoint > 0x10ffff) throw this.error(`\\${hex[0]}, which is no character`);
      return String.fromCodePoint(codePoint);
    }
    const octal = this.takeMatch(/0[0-7]{0,2}/y);
    if (octal !== undefined) return String.fromCodePoint(Number.parseInt(octal[0], 8));
    const control = this.takeMatch(/c([A-Za-z])/y);
    if (control !== undefined) return String.fromCodePoint(control[1]!.charCodeAt(0) & 0x1f);
    const char = this.next();
    return CONTROLS[char] ?? char;
  }

  error(found: string): SyntaxError {
    return new SyntaxError(`saw ${found} at character ${this.#at} of ${this.#pattern}`);
  }
}

const CONTROLS: Readonly<Record<string, string>> = {
  a: "\x07",
  e: "\x1b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};
