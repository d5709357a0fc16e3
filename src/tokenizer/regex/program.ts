/**
 * Compiles parsed expressions to instructions for the matcher.
 *
 * @module
 */
import { CharSet } from "./char_set.ts";
import { mayBeEmpty, parseRegex, type RegexNode } from "./parse.ts";

/** The instructions, with their operands `a`, `b`, `c`. */
export const Op = {
  /** Takes the character `a`. */
  char: 0,
  /** Takes a character of set `a`. */
  set: 1,
  /** Tries instruction `a` next, and `b` if that fails. */
  split: 2,
  jump: 3,
  /** Takes `b` to `c` characters of set `a`, as many as possible; gives them back one by one. */
  run: 4,
  /** Like `run`, but gives none back. */
  runPossessive: 5,
  /** Fails unless assertion `a` holds. */
  assert: 6,
  /** Evaluates lookaround `a`, whose instructions follow, and goes on at `b`. */
  look: 7,
  /** Matches the instructions that follow without backtracking into them, and goes on at `b`. */
  atomic: 8,
  /** The end of the expression, or of the content of a lookaround or an atomic group. */
  match: 9,
  /** Fails unless this is the position where the lookbehind around it must end. */
  behindEnd: 10,
} as const;

export interface Look {
  readonly isNegative: boolean;
  /** Numbers of characters to step back, each of which is tried in turn; absent for a lookahead. */
  readonly behind?: readonly number[];
}

/** Instructions as parallel arrays: operations, and their operands `a`, `b` and `c`. */
export interface Program {
  readonly ops: Uint8Array;
  readonly a: Int32Array;
  readonly b: Int32Array;
  /** -1 if there is no limit. */
  readonly c: Int32Array;
  readonly sets: readonly CharSet[];
  readonly asserts: readonly ((text: string, at: number) => boolean)[];
  readonly looks: readonly Look[];
  /** For each `split` or `run` outside lookbehinds, its index among these; -1 for all other instructions. */
  readonly branches: Int32Array;
  readonly numBranches: number;
  /** Whether a loop may repeat without taking a character, so that the matcher must remember where it was entered. */
  readonly mayLoopInPlace: boolean;
}

const MAX_INSTRUCTIONS = 20_000;

/**
 * Compiles an expression.
 *
 * @throws {SyntaxError} saying what is invalid or unknown.
 */
export function compileRegex(pattern: string): Program {
  const compiler = new Compiler();
  compiler.emitNode(parseRegex(pattern));
  compiler.emit(Op.match);
  return compiler.finish();
}

class Compiler {
  readonly #ops: number[] = [];
  readonly #operands: [a: number, b: number, c: number][] = [];
  readonly #sets: CharSet[] = [];
  readonly #asserts: ((text: string, at: number) => boolean)[] = [];
  readonly #looks: Look[] = [];
  /** Ranges of the instructions inside lookbehinds. */
  readonly #behinds: (readonly [first: number, end: number])[] = [];
  #mayLoopInPlace = false;

  emit(op: number, a = 0, b = 0, c = 0): number {
    if (this.#ops.length >= MAX_INSTRUCTIONS) {
      throw new SyntaxError("the expression is too long once its repetitions are unrolled");
    }
    this.#operands.push([a, b, c]);
    return this.#ops.push(op) - 1;
  }

  emitNode(node: RegexNode): void {
    switch (node.type) {
      case "char":
        this.emit(Op.char, node.codePoint);
        return;
      case "set":
        this.emit(Op.set, this.#addSet(node));
        return;
      case "sequence":
        for (const part of node.parts) this.emitNode(part);
        return;
      case "choice":
        this.#emitChoice(node.options);
        return;
      case "repeat":
        this.#emitRepeat(node);
        return;
      case "assert":
        this.emit(Op.assert, this.#asserts.push(node.holds) - 1);
        return;
      case "atomic":
        this.#emitInner(Op.atomic, 0, node.body);
        return;
      case "look": {
        const { body, isNegative, isBehind } = node;
        const look = { isNegative, ...(isBehind && { behind: computeLengths(body) }) };
        const first = this.#ops.length;
        this.#emitInner(Op.look, this.#looks.push(look) - 1, body, isBehind);
        if (isBehind) this.#behinds.push([first, this.#ops.length]);
      }
    }
  }

  finish(): Program {
    const branches = new Int32Array(this.#ops.length).fill(-1);
    let numBranches = 0;
    this.#ops.forEach((op, pc) => {
      const isBranch = op === Op.split || op === Op.run;
      // Whether an instruction in a lookbehind fails also depends on where the lookbehind must end.
      const isBehind = this.#behinds.some(([first, end]) => pc >= first && pc < end);
      if (isBranch && !isBehind) branches[pc] = numBranches++;
    });
    const operands = (index: 0 | 1 | 2) => Int32Array.from(this.#operands, (all) => all[index]);
    return {
      ops: Uint8Array.from(this.#ops),
      ...{ a: operands(0), b: operands(1), c: operands(2) },
      ...{ sets: this.#sets, asserts: this.#asserts, looks: this.#looks },
      ...{ branches, numBranches, mayLoopInPlace: this.#mayLoopInPlace },
    };
  }

  #addSet(node: RegexNode & { readonly type: "set" | "char" }): number {
    const test = node.type === "set"
      ? node.test
      : (codePoint: number) => codePoint === node.codePoint;
    return this.#sets.push(new CharSet(test)) - 1;
  }

  #emitInner(op: number, index: number, body: RegexNode, isBehind = false): void {
    const at = this.emit(op, index);
    this.emitNode(body);
    if (isBehind) this.emit(Op.behindEnd);
    this.emit(Op.match);
    this.#operands[at]![1] = this.#ops.length;
  }

  #emitChoice(options: readonly RegexNode[]): void {
    const jumps: number[] = [];
    options.forEach((option, index) => {
      const isLast = index === options.length - 1;
      const split = isLast ? -1 : this.#emitSplit();
      this.emitNode(option);
      if (isLast) return;
      jumps.push(this.emit(Op.jump));
      this.#operands[split]![1] = this.#ops.length;
    });
    for (const jump of jumps) this.#operands[jump]![0] = this.#ops.length;
  }

  /** Emits a split whose first alternative is the next instruction. */
  #emitSplit(): number {
    const at = this.emit(Op.split);
    this.#operands[at]![0] = at + 1;
    return at;
  }

  #emitRepeat(node: RegexNode & { readonly type: "repeat" }): void {
    const { body, min, max, mode } = node;
    if ((body.type === "set" || body.type === "char") && mode !== "lazy") {
      const op = mode === "greedy" ? Op.run : Op.runPossessive;
      this.emit(op, this.#addSet(body), min, max === Infinity ? -1 : max);
      return;
    }
    if (mode === "possessive") {
      this.#emitInner(Op.atomic, 0, { ...node, mode: "greedy" });
      return;
    }
    for (let i = 0; i < min; i++) this.emitNode(body);
    const splits: number[] = [];
    if (max === Infinity) {
      splits.push(this.#emitSplit());
      this.emitNode(body);
      this.emit(Op.jump, splits[0]);
      if (mayBeEmpty(body)) this.#mayLoopInPlace = true;
    } else {
      for (let i = min; i < max; i++) {
        splits.push(this.#emitSplit());
        this.emitNode(body);
      }
    }
    const end = this.#ops.length;
    for (const split of splits) {
      const operands = this.#operands[split]!;
      operands[1] = end;
      if (mode === "lazy") [operands[0], operands[1]] = [operands[1], operands[0]];
    }
  }
}

const MAX_LENGTHS = 64;

/**
 * Lists the numbers of characters that an expression can match.
 *
 * @throws {SyntaxError} when there is no upper limit, or there are too many numbers.
 */
function computeLengths(node: RegexNode): number[] {
  const lengths = [...possibleLengths(node)];
  return lengths.sort((a, b) => a - b);
}

function possibleLengths(node: RegexNode): Set<number> {
  switch (node.type) {
    case "char":
    case "set":
      return new Set([1]);
    case "assert":
    case "look":
      return new Set([0]);
    case "atomic":
      return possibleLengths(node.body);
    case "choice":
      return new Set(node.options.flatMap((option) => [...possibleLengths(option)]));
    case "sequence":
      return node.parts.reduce((sums, part) => addLengths(sums, possibleLengths(part)), ZERO);
    case "repeat": {
      const { body, min, max } = node;
      if (max > MAX_LENGTHS) throw new SyntaxError("a lookbehind whose length has no limit");
      const once = possibleLengths(body);
      const all = new Set<number>();
      let sums = ZERO;
      for (let count = 0; count <= max; count++) {
        if (count >= min) { for (const sum of sums) all.add(sum); }
        sums = addLengths(sums, once);
      }
      return all;
    }
  }
}

const ZERO: Set<number> = new Set([0]);

function addLengths(some: Set<number>, others: Set<number>): Set<number> {
  const sums = new Set([...some].flatMap((length) => [...others].map((other) => length + other)));
  if (sums.size > MAX_LENGTHS) throw new SyntaxError("a lookbehind of too many lengths");
  return sums;
}
