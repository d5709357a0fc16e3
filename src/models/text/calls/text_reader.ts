/**
 * Lets a parser read text that arrives in chunks as if it were complete.
 *
 * @module
 */

/** Part of a parser: a generator that yields when it needs more text. */
export type Parsing<T = void> = Generator<void, T, void>;

/**
 * The input of a parser. The parser's result does not depend on how the text is cut into chunks: only what later text
 * cannot change is reported.
 */
export class TextReader {
  #text = "";
  /** Offset of `#text` in the whole text. */
  #base = 0;
  #position = 0;
  #hasEnded = false;
  /** Whether a limit or a stop string ended the text, rather than the model. */
  #isCut = false;
  #hasRunOut = false;

  /** Offset of the next character in the whole text. */
  get position(): number {
    return this.#position;
  }

  /** Adds the next chunk. */
  feed(chunk: string): void {
    this.#text += chunk;
  }

  /**
   * Ends the text.
   *
   * @param isCut whether the model would have gone on.
   */
  end(isCut = false): void {
    this.#hasEnded = true;
    this.#isCut = isCut;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Whether a parser wanted more than a cut text had: what it did not recognise may be the beginning of something. */
  get isCutShort(): boolean {
    return this.#isCut && this.#hasRunOut;
  }

  /** The text from the position on, as far as it has arrived. */
  get rest(): string {
    return this.#text.slice(this.#at);
  }

  /** Goes back to an offset, which must come after the text that {@linkcode until} has passed on. */
  moveTo(position: number): void {
    this.#position = position;
  }

  /** The text since an offset, which must come after the text that {@linkcode until} has passed on. */
  since(position: number): string {
    return this.#text.slice(position - this.#base, this.#at);
  }

  /** Peeks at the next character; empty at the end. */
  *peek(): Parsing<string> {
    while (this.#at >= this.#text.length && !this.#hasEnded) yield;
    const character = this.#text[this.#at] ?? "";
    if (character === "") this.#hasRunOut = true;
    return character;
  }

  /** The next character; empty at the end. */
  *next(): Parsing<string> {
    const character = yield* this.peek();
    this.#position += character.length;
    return character;
  }

  /** Takes `wanted` if it is next. */
  *take(wanted: string): Parsing<boolean> {
    while (this.#text.length - this.#at < wanted.length) {
      if (!wanted.startsWith(this.rest)) return false;
      if (this.#hasEnded) {
        this.#hasRunOut = true;
        return false;
      }
      yield;
    }
    if (!this.#text.startsWith(wanted, this.#at)) return false;
    this.#position += wanted.length;
    return true;
  }

  /** Takes white space. */
  *skipSpace(): Parsing {
    while (/^\s$/.test(yield* this.peek())) this.#position++;
  }

  /** Takes the longest run of characters in `set`. */
  *takeRun(set: RegExp): Parsing<string> {
    const start = this.#position;
    for (;;) {
      const character = yield* this.peek();
      if (character === "" || !set.test(character)) return this.since(start);
      this.#position++;
    }
  }

  /**
   * Takes items separated by commas, up to and including `close`; a comma may follow the last item.
   *
   * @param takeItem takes one item; returning false ends the list.
   * @returns whether `close` was reached.
   */
  *takeItems(
    close: string,
    takeItem: (isFirst: boolean) => Parsing<boolean>,
  ): Parsing<boolean> {
    for (let isFirst = true;; isFirst = false) {
      yield* this.skipSpace();
      if (yield* this.take(close)) return true;
      if (!isFirst) {
        if (!(yield* this.take(","))) return false;
        yield* this.skipSpace();
        if (yield* this.take(close)) return true;
      }
      if (!(yield* takeItem(isFirst))) return false;
    }
  }

  /**
   * Takes the text up to and including the first of several endings, none a prefix of another. If the text was cut
   * within what may be an ending, that part is dropped, unless it is a plain word.
   *
   * @param onText receives the text before the ending as soon as it is known to precede it.
   * @returns the ending; `undefined` when the text ends without one.
   */
  *until(
    endings: readonly string[],
    onText: (text: string) => void,
  ): Parsing<string | undefined> {
    for (;;) {
      const settled = this.#hasEnded ? this.#measureText(endings) : this.#settledLength(endings);
      const found = this.#firstWhole(endings);
      const isFound = found !== undefined && found.index <= settled;
      const end = isFound ? found.index : settled;
      if (end > this.#at) onText(this.#text.slice(this.#at, end));
      this.#position = this.#base + end;
      if (isFound) {
        this.#position += found.ending.length;
        return found.ending;
      }
      if (this.#hasEnded) {
        if (settled < this.#text.length) this.#hasRunOut = true;
        this.#position = this.#base + this.#text.length;
        return undefined;
      }
      // Drops the text that was passed on: the parser never goes back before it.
      this.#text = this.#text.slice(end);
      this.#base += end;
      yield;
    }
  }

  get #at(): number {
    return this.#position - this.#base;
  }

  #firstWhole(endings: readonly string[]): { index: number; ending: string } | undefined {
    let first: { index: number; ending: string } | undefined;
    for (const ending of endings) {
      const index = this.#text.indexOf(ending, this.#at);
      if (index >= 0 && index < (first?.index ?? Infinity)) first = { index, ending };
    }
    return first;
  }

  /** Length of the whole text, without the beginning of an ending if the text was cut there. */
  #measureText(endings: readonly string[]): number {
    const settled = this.#isCut ? this.#settledLength(endings) : this.#text.length;
    return /\W/.test(this.#text.slice(settled)) ? settled : this.#text.length;
  }

  /** Length of the prefix that cannot overlap an ending, and does not split a character. */
  #settledLength(endings: readonly string[]): number {
    const longest = Math.max(1, ...endings.map(({ length }) => length));
    const { length } = this.#text;
    for (let at = Math.max(this.#at, length - longest + 1); at < length; at++) {
      const rest = this.#text.slice(at);
      if (endings.some((ending) => ending.startsWith(rest))) return at;
    }
    return /[\uD800-\uDBFF]$/.test(this.#text) ? Math.max(this.#at, length - 1) : length;
  }
}
