import { Op, type Program } from "./program.ts";

/**
 * Failed branches are remembered once a search has taken this many steps for each character of the text and for 1,000
 * more.
 */
const FREE_STEPS = 8;
/**
 * A search may take this many steps, and {@linkcode MAX_STEPS_PER_CHAR} more for each character of the text. So many
 * steps take a fraction of a second.
 */
const MAX_STEPS = 500_000;
const MAX_STEPS_PER_CHAR = 12;

/**
 * Searches one text with a compiled expression. It finds what a backtracking engine finds: the first position at which
 * the expression matches, by the first alternative that succeeds.
 *
 * Without back-references, whether the rest of an expression matches depends only on the instruction and the position.
 * So branches that failed need not be tried again. Once a search backtracks more often than usual, failed branches are
 * remembered. The total time is then proportional to the length of the text times the length of the program.
 */
export class Matcher {
  readonly #program: Program;
  readonly #text: string;
  /**
   * Four numbers for each branch that is still to be tried: instruction, position, least position of a run, number of
   * marks.
   */
  #stack = new Int32Array(256);
  #top = 0;
  #poppedPosition = 0;
  #numTaken = 0;
  #numSteps = 0;
  /** Position at which the content of the innermost lookbehind must end. */
  #behindEnd = -1;
  /** A bit for each branch instruction and position: whether it is being tried, or has failed. */
  #marks: Uint32Array | undefined;
  /** Marks of branches that have not failed yet. A match removes them: the branches that led to it did not fail. */
  #trail: number[] = [];

  constructor(program: Program, text: string) {
    this.#program = program;
    this.#text = text;
    if (program.mayLoopInPlace) this.#remember();
  }

  /**
   * Finds the first match at or after `from`; `undefined` if there is none.
   *
   * @throws {BudgetError} after too many steps.
   */
  find(from: number): readonly [start: number, end: number] | undefined {
    const { length } = this.#text;
    for (let start = from; start <= length; start += this.#widthAt(start)) {
      const end = this.#match(0, start);
      if (end >= 0) return [start, end];
    }
    return undefined;
  }

  #widthAt(position: number): number {
    return (this.#text.codePointAt(position) ?? 0) > 0xffff ? 2 : 1;
  }

  /** @returns the end of the match that starts at an instruction and a position; -1 if there is none. */
  #match(pc: number, position: number): number {
    const { ops, a, b, c, sets, asserts } = this.#program;
    const text = this.#text;
    const bottom = this.#top;
    const firstMark = this.#trail.length;
    for (;;) {
      let hasFailed = false;
      switch (ops[pc]) {
        case Op.char: {
          const codePoint = a[pc]!;
          if (text.codePointAt(position) === codePoint) {
            position += codePoint > 0xffff ? 2 : 1;
            pc++;
          } else hasFailed = true;
          break;
        }
        case Op.set: {
          const codePoint = text.codePointAt(position);
          if (codePoint !== undefined && sets[a[pc]!]!.has(codePoint)) {
            position += codePoint > 0xffff ? 2 : 1;
            pc++;
          } else hasFailed = true;
          break;
        }
        case Op.split:
          if (this.#mark(pc, position)) {
            this.#push(b[pc]!, position, -1);
            pc = a[pc]!;
          } else hasFailed = true;
          break;
        case Op.jump:
          pc = a[pc]!;
          break;
        case Op.run: {
          const end = this.#run(pc, position);
          if (end >= 0) {
            position = end;
            pc++;
          } else hasFailed = true;
          break;
        }
        case Op.runPossessive: {
          const max = c[pc]!;
          position = this.#findRunEnd(a[pc]!, position, max < 0 ? text.length : max);
          if (this.#numTaken >= b[pc]!) pc++;
          else hasFailed = true;
          break;
        }
        case Op.behindEnd:
          if (position === this.#behindEnd) pc++;
          else hasFailed = true;
          break;
        case Op.assert:
          if (asserts[a[pc]!]!(text, position)) pc++;
          else hasFailed = true;
          break;
        case Op.look:
          if (this.#look(pc, position)) pc = b[pc]!;
          else hasFailed = true;
          break;
        case Op.atomic: {
          const end = this.#match(pc + 1, position);
          if (end >= 0) {
            position = end;
            pc = b[pc]!;
          } else hasFailed = true;
          break;
        }
        default:
          this.#top = bottom;
          this.#unmark(firstMark);
          return position;
      }
      if (!hasFailed) continue;
      if (this.#top === bottom) return -1;
      this.#countSteps(1);
      pc = this.#pop();
      position = this.#poppedPosition;
    }
  }

  #push(pc: number, position: number, least: number): void {
    if (this.#top + 4 > this.#stack.length) {
      const larger = new Int32Array(2 * this.#stack.length);
      larger.set(this.#stack);
      this.#stack = larger;
    }
    const stack = this.#stack;
    stack[this.#top] = pc;
    stack[this.#top + 1] = position;
    stack[this.#top + 2] = least;
    stack[this.#top + 3] = this.#trail.length;
    this.#top += 4;
  }

  /**
   * Resumes the branch that was pushed last; a run gives back one character.
   *
   * @returns the branch's instruction; `#poppedPosition` is its position.
   */
  #pop(): number {
    const stack = this.#stack;
    const at = this.#top - 4;
    const least = stack[at + 2]!;
    let position = stack[at + 1]!;
    if (least >= 0) position = this.#back(position);
    if (position > least && least >= 0) stack[at + 1] = position;
    else this.#top = at;
    if (this.#marks !== undefined) this.#trail.length = stack[at + 3]!;
    this.#poppedPosition = position;
    return stack[at]!;
  }

  #back(position: number): number {
    return position > 1 && this.#text.codePointAt(position - 2)! > 0xffff
      ? position - 2
      : position - 1;
  }

  /**
   * Takes as many characters as a run can, and remembers how to give them back.
   *
   * @returns the end; -1 if the run is too short, or is known to fail.
   */
  #run(pc: number, start: number): number {
    const { a, b, c } = this.#program;
    const min = b[pc]!;
    const max = c[pc]!;
    const least = this.#findRunEnd(a[pc]!, start, min);
    const isLimited = max >= 0;
    if (this.#numTaken < min || !this.#mark(pc, isLimited ? start : least)) return -1;
    const end = isLimited || this.#marks === undefined
      ? this.#findRunEnd(a[pc]!, least, isLimited ? max - min : this.#text.length)
      : this.#findUntriedEnd(pc, least);
    if (end > least) this.#push(pc + 1, end, least);
    return end;
  }

  /** Finds the end of a run. It stops where the run was entered before: everything from there on has been tried. */
  #findUntriedEnd(pc: number, start: number): number {
    const set = this.#program.sets[this.#program.a[pc]!]!;
    let position = start;
    while (position < this.#text.length) {
      const codePoint = this.#text.codePointAt(position)!;
      const next = position + (codePoint > 0xffff ? 2 : 1);
      if (!set.has(codePoint) || !this.#mark(pc, next)) break;
      position = next;
    }
    this.#countRun(position - start);
    return position;
  }

  #countRun(length: number): void {
    if (length > 64) this.#countSteps(length / 4);
  }

  /** Takes at most `max` characters of a set, and returns where they end; `#numTaken` is their number. */
  #findRunEnd(setIndex: number, start: number, max: number): number {
    const text = this.#text;
    const { length } = text;
    const set = this.#program.sets[setIndex]!;
    let position = start;
    let count = 0;
    for (; count < max && position < length; count++) {
      let codePoint = text.charCodeAt(position);
      if ((codePoint & 0xfc00) === 0xd800) codePoint = text.codePointAt(position)!;
      if (!set.has(codePoint)) break;
      position += codePoint > 0xffff ? 2 : 1;
    }
    this.#numTaken = count;
    this.#countRun(count);
    return position;
  }

  #look(pc: number, position: number): boolean {
    const { isNegative, behind } = this.#program.looks[this.#program.a[pc]!]!;
    const isThere = behind === undefined
      ? this.#match(pc + 1, position) >= 0
      : behind.some((length) => this.#matchesBehind(pc + 1, position, length));
    return isThere !== isNegative;
  }

  #matchesBehind(pc: number, end: number, length: number): boolean {
    let start = end;
    for (let i = 0; i < length; i++) {
      if (start === 0) return false;
      start = this.#back(start);
    }
    const outer = this.#behindEnd;
    this.#behindEnd = end;
    const isThere = this.#match(pc, start) >= 0;
    this.#behindEnd = outer;
    return isThere;
  }

  #countSteps(count: number): void {
    this.#numSteps += count;
    if (this.#numSteps > MAX_STEPS + MAX_STEPS_PER_CHAR * this.#text.length) {
      throw new BudgetError("a regular expression takes too many steps");
    }
    if (this.#marks === undefined && this.#numSteps > FREE_STEPS * (this.#text.length + 1000)) {
      this.#remember();
    }
  }

  #remember(): void {
    const numBits = this.#program.numBranches * (this.#text.length + 1);
    this.#marks = new Uint32Array(Math.ceil(numBits / 32));
  }

  /**
   * Marks an instruction as tried at a position.
   *
   * @returns whether it is worth trying.
   */
  #mark(pc: number, position: number): boolean {
    const marks = this.#marks;
    if (marks === undefined) return true;
    const branch = this.#program.branches[pc]!;
    if (branch < 0) return true;
    const bit = branch * (this.#text.length + 1) + position;
    const word = Math.floor(bit / 32);
    const mask = 1 << (bit % 32);
    if ((marks[word]! & mask) !== 0) return false;
    marks[word]! |= mask;
    this.#trail.push(bit);
    return true;
  }

  /** Removes the marks from index `first` of the trail on, after a match. */
  #unmark(first: number): void {
    const marks = this.#marks;
    if (marks === undefined) return;
    for (let i = first; i < this.#trail.length; i++) {
      const bit = this.#trail[i]!;
      marks[Math.floor(bit / 32)]! &= ~(1 << (bit % 32));
    }
    this.#trail.length = first;
  }
}

/** Thrown when work on a text would take too long or produce too much: `tokenizer.json` may come from anybody. */
export class BudgetError extends Error {
  override readonly name = "BudgetError";
}
