/** Whether a code point is in a set. */
export type CharTest = (codePoint: number) => boolean;

const NUM_CODE_POINTS = 0x110000;
const ABSENT = 1;
const PRESENT = 2;

/** A set of code points, known by a test that is asked once for each. */
export class CharSet {
  readonly #test: CharTest;
  /** Answers by code point; 0 if it was not asked yet. */
  #known = NOTHING_KNOWN;

  constructor(test: CharTest) {
    this.#test = test;
  }

  has(codePoint: number): boolean {
    const known = this.#known[codePoint];
    return known ? known === PRESENT : this.#ask(codePoint);
  }

  #ask(codePoint: number): boolean {
    // Pages that are never written to take no memory.
    if (this.#known === NOTHING_KNOWN) this.#known = new Uint8Array(NUM_CODE_POINTS);
    const isPresent = this.#test(codePoint);
    this.#known[codePoint] = isPresent ? PRESENT : ABSENT;
    return isPresent;
  }
}

const NOTHING_KNOWN = new Uint8Array(0);

/** The test of a Unicode property by any name that ECMAScript has for it; `undefined` if it has none. */
export function testOfProperty(name: string): CharTest | undefined {
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

/** Oniguruma's bracket classes and its own properties, for Unicode. */
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

/** What `\w` and its likes stand for. */
export const SHORTHANDS: Readonly<Record<string, CharTest>> = {
  w: isWord,
  s: isSpace,
  d: isDigit,
  h: isHexDigit,
};

/** `\w` outside brackets: superscript digits and fractions of Latin-1, too. */
export function isWordOutside(codePoint: number): boolean {
  return isWord(codePoint) || /[²³¹¼-¾]/.test(String.fromCodePoint(codePoint));
}

export function complement(test: CharTest): CharTest {
  return (codePoint) => !test(codePoint);
}

/** The set with all that differs from its members in case alone, by Unicode's simple case folding. */
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
