/**
 * Text that comes in pieces, read as if it were all there.
 *
 * @module
 */

/** Part of a parser: a generator that yields where it needs more text than there is. */
export type Parsing<T = void> = Generator<void, T, void>;

/**
 * What a parser reads from. Whatever way the text is cut into pieces, the parser sees the same: it is only told of what
 * the text still to come cannot change.
 */
export class TextReader {
  #text = "";
  /** Where `#text` begins. */
  #base = 0;
  #position = 0;
  #hasEnded = false;

  /** Where the next character is, counted from the first of all. */
  get position(): number {
    return this.#position;
  }

  /** Adds the next piece. */
  feed(piece: string): void {
    this.#text += piece;
  }

  /** There is no more. */
  end(): void {
    this.#hasEnded = true;
  }

  /** Goes back to a position behind what {@linkcode until} has handed on last. */
  moveTo(position: number): void {
    this.#position = position;
  }

  /** The text since a position, of which the same holds. */
  since(position: number): string {
    return this.#text.slice(position - this.#base, this.#at);
  }

  /** The next character, which stays; empty at the end. */
  *peek(): Parsing<string> {
    while (this.#at >= this.#text.length && !this.#hasEnded) yield;
    return this.#text[this.#at] ?? "";
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
      if (this.#hasEnded || !wanted.startsWith(this.#text.slice(this.#at))) return false;
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

  /** Takes the longest run of characters that `set` has. */
  *takeRun(set: RegExp): Parsing<string> {
    const start = this.#position;
    for (;;) {
      const character = yield* this.peek();
      if (character === "" || !set.test(character)) return this.since(start);
      this.#position++;
    }
  }

  /**
   * Takes the text up to and with the first of some endings, none of which begins another.
   *
   * @param onText is given the text before the ending, as soon as it is known to be that.
   * @returns the ending; `undefined` when the text ends without.
   */
  *until(
    endings: readonly string[],
    onText: (text: string) => void,
  ): Parsing<string | undefined> {
    for (;;) {
      const settled = this.#hasEnded ? this.#text.length : this.#settledLength(endings);
      const found = this.#firstWhole(endings);
      const isFound = found !== undefined && found.index <= settled;
      const end = isFound ? found.index : settled;
      if (end > this.#at) onText(this.#text.slice(this.#at, end));
      this.#position = this.#base + end;
      if (isFound) {
        this.#position += found.ending.length;
        return found.ending;
      }
      if (this.#hasEnded) return undefined;
      // So that a long text is not kept: nobody goes back behind what was handed on.
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

  /** How much of the text no ending can still begin in, and no character is cut in two. */
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
