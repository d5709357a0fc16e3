/**
 * The nodes of expressions. They are interned: equal expressions have the same number.
 *
 * @module
 */
import { GrammarError } from "./grammar.ts";

/** Most expressions of one grammar; more would mean exponential growth. */
const MAX_EXPRESSIONS = 250_000;
/**
 * Most visits of expressions and their parts in one unit of work, for which other requests wait. This is not a time,
 * because which grammars are accepted must depend neither on the machine nor on its load.
 */
const MAX_VISITS = 2_500_000;

export type ExpressionNode =
  | { readonly kind: "nothing" | "empty" }
  /** One byte of a set, given as 256 bits. */
  | { readonly kind: "set"; readonly bits: Uint32Array }
  | { readonly kind: "concat"; readonly first: number; readonly rest: number }
  | { readonly kind: "or" | "and"; readonly parts: readonly number[] }
  | { readonly kind: "not"; readonly part: number }
  | { readonly kind: "repeat"; readonly part: number; readonly min: number; readonly max: number }
  /**
   * Decimal digits which, appended to a number with the remainder `rest`, form a multiple of `divisor`. Decimal points
   * are skipped.
   */
  | { readonly kind: "multiple"; readonly divisor: number; readonly rest: number };

/** The nodes of one grammar. */
export class ExpressionNodes {
  #numVisits = 0;
  readonly #nodes: ExpressionNode[] = [];
  readonly #ids = new Map<string, number>();
  readonly #isNullable: boolean[] = [];
  readonly #mayBeEmpty: boolean[] = [];

  get(id: number): ExpressionNode {
    return this.#nodes[id]!;
  }

  /** Whether the empty text matches. */
  isNullable(id: number): boolean {
    return this.#isNullable[id]!;
  }

  /** Whether it may match no text at all without being `NOTHING` itself. */
  mayBeEmpty(id: number): boolean {
    return this.#mayBeEmpty[id]!;
  }

  /** Begins a unit of work. */
  beginWork(): void {
    this.#numVisits = 0;
  }

  /** Counts visits. @throws {GrammarError} when the unit of work has too many. */
  visit(count: number): void {
    this.#numVisits += count;
    if (this.#numVisits > MAX_VISITS) {
      throw new GrammarError(
        `it is too complex: a step visits more than ${MAX_VISITS} expressions`,
      );
    }
  }

  /** Returns the number of a node, which is added if it is new. @throws {GrammarError} when there are too many. */
  intern(node: ExpressionNode): number {
    this.visit("parts" in node ? 1 + node.parts.length : 1);
    const key = toKey(node);
    const known = this.#ids.get(key);
    if (known !== undefined) return known;
    if (this.#nodes.length >= MAX_EXPRESSIONS) throw tooComplex();
    const id = this.#nodes.push(node) - 1;
    this.#ids.set(key, id);
    this.#isNullable.push(this.#findNullable(node));
    this.#mayBeEmpty.push(this.#findMayBeEmpty(node));
    return id;
  }

  #findNullable(node: ExpressionNode): boolean {
    switch (node.kind) {
      case "nothing":
      case "set":
        return false;
      case "empty":
        return true;
      case "concat":
        return this.isNullable(node.first) && this.isNullable(node.rest);
      case "or":
        return node.parts.some((part) => this.isNullable(part));
      case "and":
        return node.parts.every((part) => this.isNullable(part));
      case "not":
        return !this.isNullable(node.part);
      case "repeat":
        return node.min === 0;
      case "multiple":
        return node.rest === 0;
    }
  }

  #findMayBeEmpty(node: ExpressionNode): boolean {
    switch (node.kind) {
      case "and":
      case "not":
        return true;
      case "concat":
        return this.mayBeEmpty(node.first) || this.mayBeEmpty(node.rest);
      case "or":
        return node.parts.some((part) => this.mayBeEmpty(part));
      case "repeat":
        return this.mayBeEmpty(node.part);
      default:
        return false;
    }
  }
}

export function tooComplex(): GrammarError {
  return new GrammarError("it is too complex: its patterns lead to too many states");
}

function toKey(node: ExpressionNode): string {
  switch (node.kind) {
    case "nothing":
    case "empty":
      return node.kind;
    case "set":
      return `[${node.bits.join()}`;
    case "concat":
      return `.${node.first},${node.rest}`;
    case "or":
    case "and":
      return `${node.kind}${node.parts.join()}`;
    case "not":
      return `!${node.part}`;
    case "repeat":
      return `{${node.part},${node.min},${node.max}`;
    case "multiple":
      return `%${node.divisor},${node.rest}`;
  }
}
