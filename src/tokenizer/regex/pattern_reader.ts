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
    if (char === "") throw this.error("an end where more is wanted");
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

  /** The character that an escape stands for, after the backslash. */
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
