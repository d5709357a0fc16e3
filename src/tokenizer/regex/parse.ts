/**
 * Parses the regular expressions in `tokenizer.json`: Oniguruma's Ruby syntax, without back-references and
 * subexpression calls.
 *
 * @module
 */
import {
  type CharTest,
  complement,
  isWordOutside,
  parseBracket,
  parseProperty,
  PatternReader,
  SHORTHANDS,
  withoutCase,
} from "./char_set.ts";

/** Whether a repetition takes as many characters as it can, as few as it can, or never gives any back. */
type RepeatMode = "greedy" | "lazy" | "possessive";

/** A node of a parsed expression. */
export type RegexNode =
  | { readonly type: "char"; readonly codePoint: number }
  | { readonly type: "set"; readonly test: CharTest }
  | { readonly type: "sequence"; readonly parts: readonly RegexNode[] }
  | { readonly type: "choice"; readonly options: readonly RegexNode[] }
  | {
    readonly type: "repeat";
    readonly body: RegexNode;
    readonly min: number;
    /** `Infinity` if there is no limit. */
    readonly max: number;
    readonly mode: RepeatMode;
  }
  | {
    readonly type: "look";
    readonly body: RegexNode;
    readonly isBehind: boolean;
    readonly isNegative: boolean;
  }
  | { readonly type: "atomic"; readonly body: RegexNode }
  | { readonly type: "assert"; readonly holds: (text: string, at: number) => boolean };

interface Flags {
  readonly ignoresCase: boolean;
  readonly dotMatchesLine: boolean;
  readonly isExtended: boolean;
}

/**
 * Parses an expression.
 *
 * @throws {SyntaxError} saying what is invalid or unknown, and where.
 */
export function parseRegex(pattern: string): RegexNode {
  const parser = new Parser(new PatternReader(pattern));
  return parser.parse();
}

class Parser {
  readonly #reader: PatternReader;
  #flags: Flags = { ignoresCase: false, dotMatchesLine: false, isExtended: false };

  constructor(reader: PatternReader) {
    this.#reader = reader;
  }

  parse(): RegexNode {
    const node = this.#parseChoice();
    if (!this.#reader.isAtEnd) throw this.#reader.error("an unmatched )");
    return node;
  }

  #parseChoice(): RegexNode {
    const options = [this.#parseSequence()];
    while (this.#reader.take("|")) options.push(this.#parseSequence());
    return options.length === 1 ? options[0]! : { type: "choice", options };
  }

  #parseSequence(): RegexNode {
    const reader = this.#reader;
    const parts: RegexNode[] = [];
    while (!reader.isAtEnd && !reader.sees("|") && !reader.sees(")")) {
      if (this.#flags.isExtended && reader.takeMatch(/\s+|#[^\n]*/y)) continue;
      if (reader.takeMatch(/\(\?#[^)]*\)/y)) continue;
      const atom = this.#parseAtom(parts);
      if (atom !== undefined) parts.push(this.#parseRepeats(atom));
    }
    return parts.length === 1 ? parts[0]! : { type: "sequence", parts };
  }

  /** @returns `undefined` after flags such as `(?i)`. They apply to the rest of the group, which goes into `before`. */
  #parseAtom(before: RegexNode[]): RegexNode | undefined {
    const reader = this.#reader;
    if (reader.sees("(")) return this.#parseGroup(before);
    if (reader.sees("[")) return this.#setNode(parseBracket(reader));
    const char = reader.next();
    switch (char) {
      case "\\":
        return this.#parseEscape();
      case ".":
        return {
          type: "set",
          test: this.#flags.dotMatchesLine ? () => true : (codePoint) => codePoint !== 0x0a,
        };
      case "^":
        return { type: "assert", holds: (text, at) => at === 0 || text[at - 1] === "\n" };
      case "$":
        return { type: "assert", holds: (text, at) => at === text.length || text[at] === "\n" };
      case "*":
      case "+":
      case "?":
        throw reader.error(`nothing to repeat before ${char}`);
      default:
        return this.#charNode(char);
    }
  }

  #charNode(char: string): RegexNode {
    const codePoint = char.codePointAt(0)!;
    const hasCase = char.toLowerCase() !== char.toUpperCase();
    if (!this.#flags.ignoresCase || !hasCase) return { type: "char", codePoint };
    return this.#setNode((other) => other === codePoint);
  }

  #setNode(test: CharTest): RegexNode {
    return { type: "set", test: this.#flags.ignoresCase ? withoutCase(test) : test };
  }

  #parseEscape(): RegexNode {
    const reader = this.#reader;
    const property = parseProperty(reader);
    if (property !== undefined) return this.#setNode(property);
    const letter = reader.peek();
    const shorthand = letter.toLowerCase() === "w"
      ? isWordOutside
      : SHORTHANDS[letter.toLowerCase()];
    if (shorthand !== undefined) {
      reader.next();
      return { type: "set", test: letter < "a" ? complement(shorthand) : shorthand };
    }
    const anchor = ANCHORS[letter];
    if (anchor !== undefined) {
      reader.next();
      return { type: "assert", holds: anchor };
    }
    if (letter === "R") {
      reader.next();
      return LINE_BREAK;
    }
    if (/[1-9kgKXyYN]/.test(letter)) throw reader.error(`\\${letter}, which is not supported`);
    return this.#charNode(reader.escapedChar());
  }

  #parseGroup(before: RegexNode[]): RegexNode | undefined {
    const reader = this.#reader;
    const outer = this.#flags;
    const opening = reader.takeMatch(GROUP_OPENING);
    if (opening === undefined) {
      const flags = reader.takeMatch(/\(\?([imx]*)(?:-([imx]*))?([:)])/y);
      if (flags === undefined) throw reader.error("a group of an unknown kind");
      const [, on = "", off = "", end] = flags;
      const isOn = (letter: string, was: boolean) =>
        off.includes(letter) ? false : was || on.includes(letter);
      this.#flags = {
        ignoresCase: isOn("i", outer.ignoresCase),
        dotMatchesLine: isOn("m", outer.dotMatchesLine),
        isExtended: isOn("x", outer.isExtended),
      };
      // As in Oniguruma, the flag also applies to the alternatives that follow.
      const body = this.#parseChoice();
      if (end === ")") {
        before.push(body);
        this.#flags = outer;
        return undefined;
      }
      return this.#closeGroup(body, outer);
    }
    const body = this.#parseChoice();
    const [text] = opening;
    const node = this.#closeGroup(body, outer);
    switch (text) {
      case "(?>":
        return { type: "atomic", body: node };
      case "(?=":
      case "(?!":
      case "(?<=":
      case "(?<!":
        return {
          type: "look",
          body: node,
          isBehind: text.includes("<"),
          isNegative: text.endsWith("!"),
        };
      default:
        return node;
    }
  }

  #closeGroup(body: RegexNode, flags: Flags): RegexNode {
    if (!this.#reader.take(")")) throw this.#reader.error("a group that is not closed");
    this.#flags = flags;
    return body;
  }

  #parseRepeats(atom: RegexNode): RegexNode {
    for (let node = atom;;) {
      const repeat = this.#parseRepeat();
      if (repeat === undefined) return node;
      node = { type: "repeat", body: node, ...repeat };
    }
  }

  #parseRepeat(): { min: number; max: number; mode: RepeatMode } | undefined {
    const found = this.#reader.takeMatch(/([*+?])([?+]?)|\{(\d*)(?:(,)(\d*))?\}(\??)/y);
    if (found === undefined) return undefined;
    const [text, sign, suffix, from = "", comma, to = "", lazy] = found;
    if (sign !== undefined) {
      const mode = suffix === "?" ? "lazy" : suffix === "+" ? "possessive" : "greedy";
      return { min: sign === "+" ? 1 : 0, max: sign === "?" ? 1 : Infinity, mode };
    }
    if (from === "" && to === "") throw this.#reader.error(`${text}, which repeats nothing`);
    const min = Number(from || 0);
    const max = comma === undefined ? min : to === "" ? Infinity : Number(to);
    if (max < min) throw this.#reader.error(`${text}, whose bounds are the wrong way round`);
    return { min, max, mode: lazy === "?" ? "lazy" : "greedy" };
  }
}

const GROUP_OPENING = /\((?:\?(?:[:>=!]|<[=!]|<[A-Za-z_]\w*>)|(?!\?))/y;

const LINE_BREAK: RegexNode = {
  type: "atomic",
  body: {
    type: "choice",
    options: [
      {
        type: "sequence",
        parts: [{ type: "char", codePoint: 0x0d }, { type: "char", codePoint: 0x0a }],
      },
      {
        type: "set",
        test: (codePoint) =>
          (codePoint >= 0x0a && codePoint <= 0x0d) || codePoint === 0x85 ||
          codePoint === 0x2028 || codePoint === 0x2029,
      },
    ],
  },
};

function isWordAt(text: string, at: number): boolean {
  const codePoint = text.codePointAt(at);
  return codePoint !== undefined && isWordOutside(codePoint);
}

function isWordBefore(text: string, at: number): boolean {
  if (at === 0) return false;
  const isInPair = at > 1 && (text.codePointAt(at - 2) ?? 0) > 0xffff;
  return isWordAt(text, isInPair ? at - 2 : at - 1);
}

const ANCHORS: Readonly<Record<string, (text: string, at: number) => boolean>> = {
  A: (_, at) => at === 0,
  G: () => true,
  z: (text, at) => at === text.length,
  Z: (text, at) => at === text.length || (at === text.length - 1 && text[at] === "\n"),
  b: (text, at) => isWordAt(text, at) !== isWordBefore(text, at),
  B: (text, at) => isWordAt(text, at) === isWordBefore(text, at),
};

/** Whether an expression can match the empty string. */
export function mayBeEmpty(node: RegexNode): boolean {
  switch (node.type) {
    case "char":
    case "set":
      return false;
    case "sequence":
      return node.parts.every(mayBeEmpty);
    case "choice":
      return node.options.some(mayBeEmpty);
    case "repeat":
      return node.min === 0 || mayBeEmpty(node.body);
    case "atomic":
      return mayBeEmpty(node.body);
    default:
      return true;
  }
}
