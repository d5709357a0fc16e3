/**
 * Parses regular expressions of ECMA-262, with some syntax of Python and Rust: flags, named groups and the anchors of
 * the whole text.
 *
 * @module
 */
import {
  ALL_CODE_POINTS,
  closeCase,
  type CodePoints,
  complementPoints,
  findCodePoints,
  toCodePoints,
  unite,
} from "./code_points.ts";
import { GrammarError } from "./grammar.ts";

/** An item of a sequence. `options` are alternatives, and `ahead` is a lookahead. */
export type Item =
  | { readonly kind: "set"; readonly points: CodePoints }
  | { readonly kind: "group"; readonly options: readonly Sequence[] }
  | { readonly kind: "repeat"; readonly item: Item; readonly min: number; readonly max: number }
  | { readonly kind: "ahead"; readonly options: readonly Sequence[]; readonly isNegative: boolean }
  | { readonly kind: "start" | "end" };
export type Sequence = readonly Item[];

const MAX_DEPTH = 200;
/** Longest group of flags. */
const MAX_FLAGS = 16;
/** Maximum number of items of a pattern. */
const MAX_ITEMS = 50_000;

/**
 * Parses a pattern.
 *
 * @returns the alternatives of the whole pattern.
 * @throws {GrammarError} with the position of the fault.
 */
export function parsePattern(pattern: string): Sequence[] {
  return new PatternParser(pattern).parse();
}

const DIGITS: CodePoints = [[0x30, 0x39]];
const WORD = unite([[0x30, 0x39], [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]]);
const SPACE = toCodePoints(
  "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007" +
    "\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff",
);
const NOT_NEWLINE = complementPoints(toCodePoints("\n\r\u2028\u2029"));
const CLASSES: Readonly<Record<string, CodePoints>> = {
  d: DIGITS,
  D: complementPoints(DIGITS),
  w: WORD,
  W: complementPoints(WORD),
  s: SPACE,
  S: complementPoints(SPACE),
};
const CONTROLS: Readonly<Record<string, string>> = {
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
  f: "\f",
  0: "\0",
};

/** Flags of a group. Other flags are refused, or do not change what matches. */
interface Flags {
  readonly ignoresCase: boolean;
  /** Whether a dot matches line breaks too. */
  readonly dotsAll: boolean;
}

class PatternParser {
  readonly #chars: readonly string[];
  #flags: Flags = { ignoresCase: false, dotsAll: false };
  #at = 0;
  #depth = 0;
  #numItems = 0;

  constructor(pattern: string) {
    this.#chars = [...pattern];
  }

  parse(): Sequence[] {
    const options = this.#readOptions();
    if (this.#at < this.#chars.length) throw this.#fault(`saw "${this.#chars[this.#at]}"`);
    return options;
  }

  #readOptions(): Sequence[] {
    if (++this.#depth > MAX_DEPTH) throw this.#fault("its groups are nested too deeply");
    const options: Sequence[] = [];
    const outer = this.#flags;
    do {
      const items: Item[] = [];
      while (this.#at < this.#chars.length && !"|)".includes(this.#chars[this.#at]!)) {
        if (++this.#numItems > MAX_ITEMS) throw this.#fault("it is too long");
        if (this.#takeFlags()) continue;
        items.push(this.#readQuantified());
      }
      options.push(items);
    } while (this.#take("|"));
    this.#flags = outer;
    this.#depth--;
    return options;
  }

  #readQuantified(): Item {
    const item = this.#readItem();
    const bounds = this.#readBounds();
    if (bounds === undefined) return item;
    if (item.kind === "start" || item.kind === "end") {
      throw this.#fault("there is nothing to repeat before the quantifier");
    }
    this.#take("?");
    if (this.#readBounds() !== undefined) throw this.#fault("a quantifier follows a quantifier");
    // Looking ahead twice is the same as once. If the lookahead is optional, it demands nothing.
    if (item.kind === "ahead") return bounds.min === 0 ? { kind: "group", options: [[]] } : item;
    return { kind: "repeat", item, ...bounds };
  }

  #readBounds(): { min: number; max: number } | undefined {
    if (this.#take("*")) return { min: 0, max: Infinity };
    if (this.#take("+")) return { min: 1, max: Infinity };
    if (this.#take("?")) return { min: 0, max: 1 };
    if (this.#chars[this.#at] !== "{") return undefined;
    const text = this.#chars.slice(this.#at, this.#at + 24).join("");
    const found = /^\{(\d{1,9})(?:(,)(\d{1,9})?)?\}/.exec(text);
    if (found === null) return undefined;
    this.#at += found[0].length;
    const min = Number(found[1]);
    const max = found[2] === undefined ? min : found[3] === undefined ? Infinity : Number(found[3]);
    if (max < min) throw this.#fault(`the bounds ${found[0]} are out of order`);
    return { min, max };
  }

  #readItem(): Item {
    const char = this.#chars[this.#at++]!;
    switch (char) {
      case "^":
        return { kind: "start" };
      case "$":
        return { kind: "end" };
      case ".":
        return { kind: "set", points: this.#flags.dotsAll ? ALL_CODE_POINTS : NOT_NEWLINE };
      case "(":
        return this.#readGroup();
      case "[":
        return { kind: "set", points: this.#readClass() };
      case "\\":
        return this.#readAnchor() ?? { kind: "set", points: this.#cased(this.#readEscape()) };
      case "*":
      case "+":
      case "?":
        throw this.#fault(`there is nothing to repeat before "${char}"`);
      default:
        return { kind: "set", points: this.#cased(toCodePoints(char)) };
    }
  }

  /** Reads the anchors of the whole text that Python and Rust have. */
  #readAnchor(): Item | undefined {
    if (this.#take("A")) return { kind: "start" };
    return this.#take("z") || this.#take("Z") ? { kind: "end" } : undefined;
  }

  #cased(points: CodePoints): CodePoints {
    return this.#flags.ignoresCase ? closeCase(points) : points;
  }

  /** Reads a group that only sets flags. They apply up to the end of the enclosing group. */
  #takeFlags(): boolean {
    const start = this.#at;
    if (!/^\(\?[a-z-]+\)/.test(this.#chars.slice(start, start + MAX_FLAGS).join(""))) return false;
    this.#at += 2;
    this.#flags = this.#readFlags();
    return this.#take(")");
  }

  /** Reads the flags of `(?i)` or `(?i:…)`, up to the character after them. */
  #readFlags(): Flags {
    const flags = { ...this.#flags };
    let isOn = true;
    for (; !":)".includes(this.#chars[this.#at] ?? ")"); this.#at++) {
      const flag = this.#chars[this.#at]!;
      if (flag === "-") isOn = false;
      else if (flag === "i") flags.ignoresCase = isOn;
      else if (flag === "s") flags.dotsAll = isOn;
      else if (!"ua".includes(flag)) {
        throw this.#fault(`saw "(?${flag}", want (?:, (?=, (?!, (?< or the flags i, s, u and a`);
      }
    }
    return flags;
  }

  #readGroup(): Item {
    let isNegative: boolean | undefined;
    const outer = this.#flags;
    if (this.#take("?")) {
      const isNamed = this.#take("P");
      if (isNamed && this.#chars[this.#at] !== "<") {
        throw this.#fault("references to groups cannot be enforced");
      }
      if (this.#take("=")) isNegative = false;
      else if (this.#take("!")) isNegative = true;
      else if (this.#take("<")) {
        if ("=!".includes(this.#chars[this.#at] ?? "=")) {
          throw this.#fault("lookbehind cannot be enforced");
        }
        while (this.#at < this.#chars.length && this.#chars[this.#at] !== ">") this.#at++;
        this.#at++;
      } else if (!this.#take(":")) {
        this.#flags = this.#readFlags();
        if (!this.#take(":")) throw this.#fault("a group is not closed");
      }
    }
    const options = this.#readOptions();
    this.#flags = outer;
    if (!this.#take(")")) throw this.#fault("a group is not closed");
    return isNegative === undefined
      ? { kind: "group", options }
      : { kind: "ahead", options, isNegative };
  }

  #readClass(): CodePoints {
    const isNegative = this.#take("^");
    const ranges: (readonly [number, number])[] = [];
    while (!this.#take("]")) {
      const first = this.#readClassPart();
      const isRange = this.#chars[this.#at] === "-" && this.#chars[this.#at + 1] !== "]";
      if (!isRange || !isSingle(first)) {
        ranges.push(...first);
        continue;
      }
      this.#at++;
      const last = this.#readClassPart();
      if (!isSingle(last) || last[0]![0] < first[0]![0]) {
        throw this.#fault("a range of characters is out of order");
      }
      ranges.push([first[0]![0], last[0]![0]]);
    }
    const points = this.#cased(unite(ranges));
    return isNegative ? complementPoints(points) : points;
  }

  #readClassPart(): CodePoints {
    const char = this.#chars[this.#at++];
    if (char === undefined) throw this.#fault("a class of characters is not closed");
    if (char !== "\\") return toCodePoints(char);
    if (this.#take("b")) return toCodePoints("\b");
    return this.#readEscape();
  }

  #readEscape(): CodePoints {
    const char = this.#chars[this.#at++];
    if (char === undefined) throw this.#fault("there is nothing after the last backslash");
    if (char in CLASSES) return CLASSES[char]!;
    if (char === "p" || char === "P") return this.#readProperty(char === "P");
    if (char === "x") return this.#readHex(/^[0-9a-fA-F]{2}/);
    if (char === "u") return this.#readUnicode();
    if (char === "c" && /[A-Za-z]/.test(this.#chars[this.#at] ?? "")) {
      const code = this.#chars[this.#at++]!.charCodeAt(0) % 32;
      return [[code, code]];
    }
    if (char === "b" || char === "B") throw this.#fault("word boundaries cannot be enforced");
    if (char === "k" || /[1-9]/.test(char)) {
      throw this.#fault("references to groups cannot be enforced");
    }
    return toCodePoints(CONTROLS[char] ?? char);
  }

  #readHex(pattern: RegExp): CodePoints {
    const digits = pattern.exec(this.#chars.slice(this.#at, this.#at + 8).join(""))?.[0];
    if (digits === undefined) throw this.#fault("an escape lacks hexadecimal digits");
    this.#at += digits.length;
    const code = Number.parseInt(digits, 16);
    return unite([[code, code]]);
  }

  #readUnicode(): CodePoints {
    if (!this.#take("{")) {
      const pair = /^([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})/.exec(
        this.#chars.slice(this.#at, this.#at + 10).join(""),
      );
      if (pair === null) return this.#readHex(/^[0-9a-fA-F]{4}/);
      this.#at += pair[0].length;
      const [high, low] = [Number.parseInt(pair[1]!, 16), Number.parseInt(pair[2]!, 16)];
      return toCodePoints(String.fromCharCode(high, low));
    }
    const points = this.#readHex(/^[0-9a-fA-F]{1,6}/);
    if (!this.#take("}")) throw this.#fault("an escape is not closed");
    return points;
  }

  #readProperty(isNegative: boolean): CodePoints {
    const name = /^\{([A-Za-z_=]{1,60})\}/.exec(
      this.#chars.slice(this.#at, this.#at + 64).join(""),
    );
    if (name === null) throw this.#fault("a property of characters has no name");
    this.#at += name[0].length;
    const points = findCodePoints(name[1]!);
    if (points === undefined) throw this.#fault(`no property of characters is called ${name[1]}`);
    return isNegative ? complementPoints(points) : points;
  }

  #take(char: string): boolean {
    if (this.#chars[this.#at] !== char) return false;
    this.#at++;
    return true;
  }

  #fault(what: string): GrammarError {
    return new GrammarError(`the pattern cannot be used: ${what}, at character ${this.#at}`);
  }
}

function isSingle(points: CodePoints): boolean {
  return points.length === 1 && points[0]![0] === points[0]![1];
}
