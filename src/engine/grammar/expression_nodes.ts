/**
 * The nodes of expressions, and the possible first bytes of the texts that they match. Nodes are interned: equal
 * expressions have the same number.
 *
 * @module
 */
import { GrammarError } from "./grammar.ts";

/** Maximum number of expressions of one grammar; more would mean exponential growth. */
const MAX_EXPRESSIONS = 250_000;
/**
 * Maximum number of visits of expressions and their parts in one unit of work, during which other requests wait. It is
 * not a time limit, because whether a grammar is accepted must not depend on the machine or its load.
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

  /** Whether the expression may match no text at all, although it is not `NOTHING`. */
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

const POINT = 0x2e;

/** For each expression, divides all bytes into classes. The bytes of a class have the same derivative. */
export class FirstBytes {
  readonly #nodes: ExpressionNodes;
  readonly #getSet: (byte: number) => number;
  readonly #classes = new Map<number, ByteClasses>();
  readonly #classesBySets = new Map<string, ByteClasses>();

  /** @param getSet returns the expression of a single byte. */
  constructor(nodes: ExpressionNodes, getSet: (byte: number) => number) {
    this.#nodes = nodes;
    this.#getSet = getSet;
  }

  getClasses(id: number): ByteClasses {
    let classes = this.#classes.get(id);
    if (classes !== undefined) return classes;
    const sets = new Set<number>();
    this.#collect(id, sets, new Set());
    const key = [...sets].sort((a, b) => a - b).join();
    classes = this.#classesBySets.get(key);
    if (classes === undefined) {
      const bits = [...sets].map((set) => (this.#nodes.get(set) as { bits: Uint32Array }).bits);
      this.#classesBySets.set(key, classes = divideBytes(bits));
    }
    this.#classes.set(id, classes);
    return classes;
  }

  /** Collects the sets that distinguish first bytes. */
  #collect(id: number, sets: Set<number>, seen: Set<number>): void {
    if (seen.has(id)) return;
    seen.add(id);
    this.#nodes.visit(1);
    const node = this.#nodes.get(id);
    switch (node.kind) {
      case "set":
        sets.add(id);
        return;
      case "concat":
        this.#collect(node.first, sets, seen);
        if (this.#nodes.isNullable(node.first)) this.#collect(node.rest, sets, seen);
        return;
      case "or":
      case "and":
        for (const part of node.parts) this.#collect(part, sets, seen);
        return;
      case "not":
      case "repeat":
        return this.#collect(node.part, sets, seen);
      case "multiple":
        for (let digit = 0x30; digit <= 0x39; digit++) sets.add(this.#getSet(digit));
        sets.add(this.#getSet(POINT));
    }
  }
}

/** Classes of bytes with the same derivative. */
export interface ByteClasses {
  /** The class of each byte: u8 `[256]`. */
  readonly of: Uint8Array;
  /** One byte of each class. */
  readonly bytes: readonly number[];
}

/** Computes the coarsest partition of bytes in which every set is a union of classes. */
function divideBytes(sets: readonly Uint32Array[]): ByteClasses {
  return divide(sets.map((bits) => (byte) => bits[byte >>> 5]! >>> (byte & 31) & 1));
}

/** Joins partitions into one, which distinguishes two bytes if any of the given partitions does. */
export function joinClasses(classes: readonly ByteClasses[]): ByteClasses {
  if (classes.length === 1) return classes[0]!;
  return divide(classes.map(({ of }) => (byte) => of[byte]!));
}

function divide(tests: readonly ((byte: number) => number)[]): ByteClasses {
  const of = new Uint8Array(256);
  let bytes = [0];
  for (const test of tests) {
    const indices = new Map<number, number>();
    bytes = [];
    for (let byte = 0; byte < 256; byte++) {
      const key = of[byte]! * 256 + test(byte);
      let index = indices.get(key);
      if (index === undefined) {
        indices.set(key, index = bytes.length);
        bytes.push(byte);
      }
      of[byte] = index;
    }
  }
  return { of, bytes };
}
