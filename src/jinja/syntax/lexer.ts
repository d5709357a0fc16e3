/**
 * Splits a template into tokens, with Jinja2's rules for white space: `trim_blocks` and `lstrip_blocks` are on, as in
 * transformers. The parser reads the tokens from a stream.
 *
 * @module
 */
import { Float, raise, type Value } from "../python/values.ts";
import { SPACE, stripEnd } from "../python/text.ts";
import { toInt } from "../python/numbers.ts";
import { charge } from "../meter.ts";
import { escapeCode } from "../python/repr.ts";

type TokenType =
  | "text"
  | "begin print"
  | "end print"
  | "begin block"
  | "end block"
  | "name"
  | "string"
  | "number"
  | "operator"
  | "end";

export interface Token {
  readonly type: TokenType;
  /** The text to be printed, or the source text of the name, operator or literal. */
  readonly text: string;
  /** The value of a string or a number. */
  readonly value: Value;
  readonly line: number;
}

const SPACES = `[${SPACE.source.slice(1, -1)}]`;
const RAW = new RegExp(`\\{%([-+]?)${SPACES}*raw${SPACES}*(?:-%\\}${SPACES}*|%\\})`, "y");
const END_RAW = new RegExp(
  `\\{%([-+]?)${SPACES}*endraw${SPACES}*(?:\\+%\\}|-%\\}${SPACES}*|%\\}\\n?)`,
  "g",
);
const END_COMMENT = new RegExp(`\\+#\\}|-#\\}${SPACES}*|#\\}\\n?`, "g");
const END_BLOCK = new RegExp(`\\+%\\}|-%\\}${SPACES}*|%\\}\\n?`, "y");
const END_PRINT = new RegExp(`-\\}\\}${SPACES}*|\\}\\}`, "y");
const SPACE_RUN = new RegExp(`${SPACES}+`, "y");
const FLOAT = /(?<!\.)(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?e[+-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+)/iy;
const INTEGER = /0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[\da-f])+|[1-9](?:_?\d)*|0(?:_?0)*/iy;
const NAME = /[\p{XID_Continue}\p{L}\p{N}\p{M}\p{Pc}]+/uy;
const IDENTIFIER = /^[\p{XID_Start}_]\p{XID_Continue}*$/u;
const STRING = /'[^'\\]*(?:\\[^][^'\\]*)*'|"[^"\\]*(?:\\[^][^"\\]*)*"/y;
const OPERATOR = /\/\/|\*\*|==|!=|>=|<=|[-+/*%~[\](){}<>=.:|,;]/y;
const CLOSING: Readonly<Record<string, string>> = { "{": "}", "(": ")", "[": "]" };

/** @throws {TemplateError} `TemplateSyntaxError` */
export function tokenize(source: string): Token[] {
  const text = source.replaceAll(/\r\n?/g, "\n").replace(/\n$/, "");
  return new Lexer(text).run();
}

class Lexer {
  readonly #source: string;
  readonly #tokens: Token[] = [];
  #at = 0;
  #line = 1;
  /** Offset up to which lines have been counted. */
  #counted = 0;
  /** Whether the last tag ended a line. */
  #startsLine = true;

  constructor(source: string) {
    this.#source = source;
  }

  run(): Token[] {
    while (this.#at < this.#source.length) this.#readText();
    this.#push("end", "end of template");
    return this.#tokens;
  }

  #push(type: TokenType, text: string, value: Value = null): void {
    charge(1);
    for (; this.#counted < this.#at; this.#counted++) {
      if (this.#source[this.#counted] === "\n") this.#line++;
    }
    this.#tokens.push({ type, text, value, line: this.#line });
  }

  #fail(message: string): never {
    return raise("TemplateSyntaxError", `${message} (line ${this.#line})`);
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    return pattern.exec(this.#source);
  }

  /** Reads the text up to the next tag, and the tag's opening. */
  #readText(): void {
    const source = this.#source;
    const start = this.#at;
    const next = source.slice(start).search(/\{[{%#]/);
    if (next < 0) {
      this.#at = source.length;
      this.#push("text", source.slice(start));
      return;
    }
    this.#at += next;
    const raw = this.#match(RAW);
    const sign = /[-+]?/.exec(source.slice(this.#at + 2, this.#at + 3))![0];
    const kind = source[this.#at + 1];
    const text = this.#trim(source.slice(start, this.#at), sign, kind !== "{");
    if (text !== "") this.#push("text", text);
    if (raw !== null) return this.#readRaw(raw[0]);
    this.#at += 2 + sign.length;
    if (kind === "#") return this.#skipComment();
    this.#push(kind === "{" ? "begin print" : "begin block", kind === "{" ? "{{" : "{%");
    this.#readTag(kind === "{" ? END_PRINT : END_BLOCK, kind === "{" ? "end print" : "end block");
  }

  /**
   * Removes white space before a tag: all of it if the tag's sign is `-`, none if it is `+`. Without a sign, removes
   * the indentation before a block or a comment.
   */
  #trim(text: string, sign: string, isBlock: boolean): string {
    if (sign === "-") return stripEnd(text);
    if (sign === "+" || !isBlock) return text;
    const lineStart = text.lastIndexOf("\n") + 1;
    if (lineStart === 0 && !this.#startsLine) return text;
    return stripEnd(text.slice(lineStart)) === "" ? text.slice(0, lineStart) : text;
  }

  #endTag(tag: string): void {
    this.#at += tag.length;
    this.#startsLine = tag.endsWith("\n");
  }

  #skipComment(): void {
    const end = this.#match(END_COMMENT) ?? this.#fail("Missing end of comment tag");
    this.#at = end.index;
    this.#endTag(end[0]);
  }

  #readRaw(tag: string): void {
    this.#endTag(tag);
    const end = this.#match(END_RAW) ?? this.#fail("Missing end of raw directive");
    const text = this.#trim(this.#source.slice(this.#at, end.index), end[1]!, true);
    if (text !== "") this.#push("text", text);
    this.#at = end.index;
    this.#endTag(end[0]);
  }

  #readTag(end: RegExp, type: TokenType): void {
    const open: string[] = [];
    while (this.#at < this.#source.length) {
      const found = open.length === 0 ? this.#match(end) : null;
      if (found !== null) {
        this.#push(type, found[0].trim());
        return this.#endTag(found[0]);
      }
      const space = this.#match(SPACE_RUN);
      if (space !== null) this.#at += space[0].length;
      else this.#readToken(open);
    }
  }

  #readToken(open: string[]): void {
    const [float] = this.#match(FLOAT) ?? [];
    const [integer] = this.#match(INTEGER) ?? [];
    const [name] = this.#match(NAME) ?? [];
    const [string] = this.#match(STRING) ?? [];
    if (float !== undefined) this.#take("number", float, new Float(Number(plain(float))));
    else if (integer !== undefined) this.#take("number", integer, toInt(BigInt(plain(integer))));
    else if (name !== undefined) {
      if (!IDENTIFIER.test(name)) this.#fail("Invalid character in identifier");
      this.#take("name", name.normalize("NFC"));
    } else if (string !== undefined) {
      this.#take("string", string, unescapeText(string.slice(1, -1)));
    } else this.#readOperator(open);
  }

  #readOperator(open: string[]): void {
    const [operator] = this.#match(OPERATOR) ??
      this.#fail(`unexpected char '${this.#source[this.#at]}'`);
    if (Object.hasOwn(CLOSING, operator)) open.push(CLOSING[operator]!);
    else if (/[)\]}]/.test(operator)) {
      const wanted = open.pop();
      if (wanted === undefined) this.#fail(`unexpected '${operator}'`);
      if (wanted !== operator) this.#fail(`unexpected '${operator}', expected '${wanted}'`);
    }
    this.#take("operator", operator);
  }

  #take(type: TokenType, text: string, value: Value = null): void {
    this.#push(type, text, value);
    this.#at += text.length;
  }
}

function plain(number: string): string {
  return number.replaceAll("_", "");
}

const ESCAPE =
  /\\(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([0-7]{1,3})|(\n)|([xuUN])|([^\0-\x7f])|([^]))/gu;

const SHORT: Readonly<Record<string, string>> = {
  "\\": "\\",
  "'": "'",
  '"': '"',
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};

/**
 * The text of a literal, as Python's `unicode-escape` reads it.
 *
 * @throws {TemplateError} `TemplateSyntaxError` for an escape that is cut short, is a `\N`, or stands for no character.
 */
function unescapeText(text: string): string {
  if (!text.includes("\\")) return text;
  return text.replaceAll(
    ESCAPE,
    (escape, byte, short, long, octal, line, broken, wide, other: string | undefined) => {
      const hex = byte ?? short ?? long;
      if (hex !== undefined) return toChar(Number.parseInt(hex, 16));
      if (octal !== undefined) return toChar(Number.parseInt(octal, 8));
      if (line !== undefined) return "";
      if (broken !== undefined) {
        return raise("TemplateSyntaxError", `truncated or unknown escape '${escape}'`);
      }
      // Python first replaces these characters with escapes, so a backslash before one
      // escapes the backslash of that escape.
      if (wide !== undefined) return escapeCode((wide as string).codePointAt(0)!);
      return SHORT[other ?? ""] ?? escape;
    },
  );
}

function toChar(code: number): string {
  if (code > 0x10ffff) return raise("TemplateSyntaxError", "illegal Unicode character");
  return String.fromCodePoint(code);
}

/** The tokens of a template, read one by one. */
export class TokenStream {
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  get current(): Token {
    return this.#tokens[this.#at]!;
  }

  get following(): Token {
    return this.#tokens[this.#at + 1] ?? this.current;
  }

  next(): Token {
    charge(1);
    const token = this.current;
    if (this.#at < this.#tokens.length - 1) this.#at++;
    return token;
  }

  /** Whether the current token is one of these operators. */
  isOperator(...operators: readonly string[]): boolean {
    const { type, text } = this.current;
    return type === "operator" && operators.includes(text);
  }

  /** Whether the current token is one of these names. */
  isName(...names: readonly string[]): boolean {
    const { type, text } = this.current;
    return type === "name" && names.includes(text);
  }

  /** Takes the token if it is this operator. */
  skipOperator(operator: string): boolean {
    return this.isOperator(operator) && this.next() !== undefined;
  }

  /** Takes the token if it is this name. */
  skipName(name: string): boolean {
    return this.isName(name) && this.next() !== undefined;
  }

  /**
   * Takes an operator.
   *
   * @throws {TemplateError} when the token is something else.
   */
  expectOperator(operator: string): Token {
    if (!this.isOperator(operator)) {
      this.fail(`expected token '${operator}', got '${this.current.text}'`);
    }
    return this.next();
  }

  /**
   * Takes a token.
   *
   * @throws {TemplateError} when the token has another type or text.
   */
  expect(type: TokenType, text?: string): Token {
    const { current } = this;
    if (current.type !== type || (text !== undefined && current.text !== text)) {
      this.fail(`expected ${text ?? type}, got '${current.text}'`);
    }
    return this.next();
  }

  fail(message: string): never {
    return raise("TemplateSyntaxError", `${message} (line ${this.current.line})`);
  }
}
