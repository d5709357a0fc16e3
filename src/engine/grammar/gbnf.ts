/**
 * Parses grammars in llama.cpp's notation (GBNF), of which xgrammar's EBNF is a variant.
 *
 * @see ggml-org/llama.cpp `grammars/README.md`
 * @module
 */
import {
  ALL_CODE_POINTS,
  type CodePoints,
  complementPoints,
  encodeSet,
  toCodePoints,
  unite,
} from "./code_points.ts";
import { GrammarError } from "./grammar.ts";
import { anyOf, type Phrase, type Rules, sequence, terminal } from "./rules.ts";

const MAX_DEPTH = 200;
const MAX_REPEATS = 5_000;
const ROOT = "root";
const SIMPLE_ESCAPES: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t" };
const HEX_ESCAPES: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

/**
 * Adds the rules of a grammar.
 *
 * @returns its rule `root`.
 * @throws {GrammarError} with the line and column of the fault.
 */
export function buildGbnf(rules: Rules, text: string): Phrase {
  return new GbnfParser(rules, text).parse();
}

class GbnfParser {
  readonly #rules: Rules;
  readonly #text: string;
  readonly #names = new Map<string, { readonly rule: number; readonly firstAt: number }>();
  readonly #defined = new Set<string>();
  #at = 0;
  #depth = 0;

  constructor(rules: Rules, text: string) {
    this.#rules = rules;
    this.#text = text;
  }

  parse(): Phrase {
    this.#skip();
    while (this.#at < this.#text.length) {
      const start = this.#at;
      const name = this.#match(/[A-Za-z0-9_-]+/y);
      this.#skip();
      if (name === undefined || this.#match(/::=/y) === undefined) {
        const seen = JSON.stringify(this.#text.slice(start, start + 20).split("\n")[0]);
        throw this.#fault(`want a rule: name ::= …, saw ${seen}`, start);
      }
      if (this.#defined.has(name)) throw this.#fault(`the rule ${name} is defined twice`, start);
      this.#defined.add(name);
      this.#skip();
      this.#rules.define(this.#resolveRule(name, start), this.#readOptions());
    }
    if (!this.#defined.has(ROOT)) throw new GrammarError("it has no rule called root");
    for (const [name, { firstAt }] of this.#names) {
      if (!this.#defined.has(name)) throw this.#fault(`there is no rule called ${name}`, firstAt);
    }
    return { kind: "rule", rule: this.#resolveRule(ROOT, 0) };
  }

  #readOptions(): Phrase {
    if (++this.#depth > MAX_DEPTH) throw this.#fault("its groups are nested too deeply");
    const options: Phrase[] = [];
    do {
      const items: Phrase[] = [];
      for (let item = this.#readItem(); item; item = this.#readItem()) items.push(item);
      options.push(items.length === 1 ? items[0]! : sequence(...items));
    } while (this.#takeMark("|"));
    this.#depth--;
    return options.length === 1 ? options[0]! : anyOf(options);
  }

  #readItem(): Phrase | undefined {
    const atom = this.#readAtom();
    this.#skip();
    if (atom === undefined) return undefined;
    let item = atom;
    for (let bounds = this.#readBounds(); bounds; bounds = this.#readBounds()) {
      item = { kind: "repeat", item: this.#rules.asRule(item), ...bounds };
    }
    return item;
  }

  #readAtom(): Phrase | undefined {
    const { expressions } = this.#rules;
    switch (this.#text[this.#at]) {
      case '"':
        return terminal(expressions.text(this.#readLiteral()));
      case "[":
        return terminal(encodeSet(expressions, this.#readClass()));
      case ".":
        this.#at++;
        return terminal(encodeSet(expressions, ALL_CODE_POINTS));
      case "(": {
        const open = this.#at++;
        this.#skip();
        const phrase = this.#readOptions();
        if (!this.#takeMark(")")) throw this.#fault("a group is not closed", open);
        return phrase;
      }
    }
    const start = this.#at;
    const name = this.#match(/[A-Za-z0-9_-]+/y);
    if (name === undefined) return undefined;
    this.#skip();
    if (this.#text.startsWith("::=", this.#at)) {
      this.#at = start;
      return undefined;
    }
    return { kind: "rule", rule: this.#resolveRule(name, start) };
  }

  #readBounds(): { min: number; max: number } | undefined {
    if (this.#takeMark("*")) return { min: 0, max: Infinity };
    if (this.#takeMark("+")) return { min: 1, max: Infinity };
    if (this.#takeMark("?")) return { min: 0, max: 1 };
    const start = this.#at;
    const found = this.#match(/\{\s*\d*\s*(?:,\s*\d*\s*)?\}/y);
    if (found === undefined) return undefined;
    this.#skip();
    const [first, second] = found.slice(1, -1).split(",").map((each) => each.trim());
    const min = Number(first || 0);
    const max = second === undefined ? min : second === "" ? Infinity : Number(second);
    if (max < min || min > MAX_REPEATS || (max !== Infinity && max > MAX_REPEATS)) {
      throw this.#fault(`want bounds in order and up to ${MAX_REPEATS}, saw ${found}`, start);
    }
    return { min, max };
  }

  #readLiteral(): string {
    const open = this.#at++;
    let text = "";
    while (this.#text[this.#at] !== '"') text += this.#readChar("a text is not closed", open);
    this.#at++;
    return text;
  }

  #readClass(): CodePoints {
    const open = this.#at++;
    const isNegative = this.#text[this.#at] === "^";
    if (isNegative) this.#at++;
    const ranges: [number, number][] = [];
    const readPoint = () =>
      this.#readChar("a class of characters is not closed", open).codePointAt(0)!;
    while (this.#text[this.#at] !== "]") {
      const start = this.#at;
      const first = readPoint();
      let last = first;
      if (this.#text[this.#at] === "-" && this.#text[this.#at + 1] !== "]") {
        this.#at++;
        last = readPoint();
        if (last < first) throw this.#fault("a range of characters is out of order", start);
      }
      ranges.push([first, last]);
    }
    this.#at++;
    return isNegative ? complementPoints(unite(ranges)) : unite(ranges);
  }

  /** Reads a character, which may be escaped. @param openAt where the text or class that contains it begins. */
  #readChar(ifMissing: string, openAt: number): string {
    const start = this.#at;
    const point = this.#text.codePointAt(this.#at);
    if (point === undefined) throw this.#fault(ifMissing, openAt);
    const char = String.fromCodePoint(point);
    this.#at += char.length;
    if (char !== "\\") return char;
    const kind = this.#text[this.#at++];
    if (kind === undefined) throw this.#fault(ifMissing, openAt);
    const numDigits = HEX_ESCAPES[kind];
    if (numDigits === undefined) return SIMPLE_ESCAPES[kind] ?? kind;
    const digits = this.#text.slice(this.#at, this.#at + numDigits);
    const code = Number.parseInt(digits, 16);
    if (!/^[0-9a-fA-F]+$/.test(digits) || digits.length < numDigits || code > 0x10ffff) {
      throw this.#fault("an escape is not a code point", start);
    }
    this.#at += numDigits;
    return toCodePoints(String.fromCodePoint(code)).length > 0 ? String.fromCodePoint(code) : "";
  }

  /** Looks up a rule by name. @param at position of the name in the text, for errors. */
  #resolveRule(name: string, at: number): number {
    let known = this.#names.get(name);
    if (known === undefined) {
      this.#names.set(name, known = { rule: this.#rules.declare(), firstAt: at });
    }
    return known.rule;
  }

  #takeMark(mark: string): boolean {
    if (this.#text[this.#at] !== mark) return false;
    this.#at++;
    this.#skip();
    return true;
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    this.#at += found?.length ?? 0;
    return found;
  }

  /** Skips white space and comments. */
  #skip(): void {
    this.#match(/(?:\s|#[^\n]*)*/y);
  }

  #fault(what: string, at = this.#at): GrammarError {
    const lines = this.#text.slice(0, at).split("\n");
    const column = Array.from(lines.at(-1)!).length + 1;
    return new GrammarError(`line ${lines.length}, column ${column} of the grammar: ${what}`);
  }
}
