import { charge } from "../meter.ts";
import { raise } from "../python/values.ts";
import type { Token, TokenType } from "./lexer.ts";

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
   * @throws {TemplateError} when it is something else.
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
