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

/** The test for a Unicode property, by any name that ECMAScript knows; `undefined` if it knows none. */
export function findPropertyTest(name: string): CharTest | undefined {
  const known = POSIX[name.toLowerCase()];
  if (known !== undefined) return known;
  const words = name.split(/[\s_-]+/).filter(Boolean);
  const capital = words.map((word) => word[0]!.toUpperCase() + word.slice(1).toLowerCase());
  const spellings = [name, capital.join("_"), words.join("_").toUpperCase()];
  for (const spelling of spellings) {
    for (const property of [spelling, `Script=${spelling}`]) {
      const test = testOfPattern(`\\p{${property}}`);
      if (test !== undefined) return test;
    }
  }
  return undefined;
}

function testOfPattern(pattern: string): CharTest | undefined {
  try {
    const regExp = new RegExp(`^${pattern}$`, "u");
    return (codePoint) => regExp.test(String.fromCodePoint(codePoint));
  } catch {
    return undefined;
  }
}

const isWord = testOfPattern("[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}]")!;
const isSpace = testOfPattern("\\p{White_Space}")!;
const isDigit = testOfPattern("\\p{Nd}")!;
const isHexDigit = testOfPattern("[0-9A-Fa-f]")!;

/** Oniguruma's bracket classes and its additional properties, for Unicode. */
const POSIX: Readonly<Record<string, CharTest>> = {
  alnum: testOfPattern("[\\p{Alphabetic}\\p{Nd}]")!,
  alpha: testOfPattern("\\p{Alphabetic}")!,
  any: () => true,
  ascii: (codePoint) => codePoint < 0x80,
  blank: testOfPattern("[\\t\\p{Zs}]")!,
  cntrl: testOfPattern("\\p{Cc}")!,
  digit: isDigit,
  graph: testOfPattern("[^\\p{White_Space}\\p{Cc}\\p{Cs}\\p{Cn}]")!,
  lower: testOfPattern("\\p{Lowercase}")!,
  print: testOfPattern("[^\\p{Cc}\\p{Cs}\\p{Cn}\\p{Zl}\\p{Zp}]")!,
  punct: testOfPattern("[\\p{P}\\p{S}]")!,
  space: isSpace,
  upper: testOfPattern("\\p{Uppercase}")!,
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

/** Whether a letter folds to another. */
function foldsTo(char: string, other: string): boolean {
  return new RegExp(`^${char}$`, "iu").test(other);
}
