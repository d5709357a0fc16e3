/**
 * Regular expressions over bytes, with intersection and complement, matched by their derivatives.
 *
 * @see Owens, Reppy, Turon 2009: Regular-expression derivatives re-examined
 * @module
 */
import {
  type ByteClasses,
  type ExpressionNode,
  ExpressionNodes,
  FirstBytes,
  tooComplex,
} from "./expression_nodes.ts";

/** Matches no text at all. */
export const NOTHING = 0;
/** Matches only the empty text. */
export const EMPTY_TEXT = 1;
/** Matches any bytes. */
export const ANYTHING = 3;

const POINT = 0x2e;

/** Maximum number of expressions visited to decide whether an expression matches anything. */
const MAX_SEARCHED = 20_000;
/** Maximum number of alternatives of one expression. */
const MAX_PARTS = 5_000;

/** The expressions of one grammar, interned and identified by number. */
export class Expressions {
  readonly #nodes = new ExpressionNodes();
  readonly #isEmpty = new Map<number, boolean>();
  readonly #derivatives = new Map<number, number>();
  readonly #firstBytes = new FirstBytes(this.#nodes, (byte) => this.range(byte, byte));

  constructor() {
    this.#nodes.intern({ kind: "nothing" });
    this.#nodes.intern({ kind: "empty" });
    const anyByte = this.#nodes.intern({ kind: "set", bits: new Uint32Array(8).fill(0xffffffff) });
    this.#nodes.intern({ kind: "repeat", part: anyByte, min: 0, max: Infinity });
  }

  /** Begins a unit of work. */
  beginWork(): void {
    this.#nodes.beginWork();
  }

  /**
   * Counts visits of expressions, or of anything that costs as much.
   *
   * @throws {GrammarError} when there are too many.
   */
  visit(count: number): void {
    this.#nodes.visit(count);
  }

  /** Matches one byte of a set. @param bits the set as u32 `[8]`, which the expression then owns. */
  set(bits: Uint32Array): number {
    if (bits.every((word) => word === 0)) return NOTHING;
    return this.#nodes.intern({ kind: "set", bits });
  }

  /** Matches one byte from `first` to `last`. */
  range(first: number, last: number): number {
    const bits = new Uint32Array(8);
    for (let byte = first; byte <= last; byte++) bits[byte >>> 5]! |= 1 << (byte & 31);
    return this.set(bits);
  }

  /** Matches this text, in UTF-8. */
  text(text: string): number {
    return this.bytes(new TextEncoder().encode(text));
  }

  bytes(bytes: Uint8Array): number {
    return this.concat(Array.from(bytes, (byte) => this.range(byte, byte)));
  }

  concat(parts: readonly number[]): number {
    let whole = EMPTY_TEXT;
    for (let i = parts.length - 1; i >= 0; i--) whole = this.#join(parts[i]!, whole);
    return whole;
  }

  or(parts: readonly number[]): number {
    const flat = new Set<number>();
    const bits = new Uint32Array(8);
    let hasSet = false;
    this.visit(parts.length);
    const take = (id: number) => {
      const node = this.#nodes.get(id);
      if (node.kind === "or") node.parts.forEach(take);
      else if (node.kind === "set") {
        hasSet = true;
        for (let i = 0; i < 8; i++) bits[i]! |= node.bits[i]!;
      } else if (id !== NOTHING) flat.add(id);
    };
    parts.forEach(take);
    if (flat.has(ANYTHING)) return ANYTHING;
    if (hasSet) flat.add(this.set(bits));
    if (flat.size > 1 && flat.has(EMPTY_TEXT)) {
      const hasOther = [...flat].some((id) => id !== EMPTY_TEXT && this.isNullable(id));
      if (hasOther) flat.delete(EMPTY_TEXT);
    }
    return this.#group("or", flat, NOTHING);
  }

  and(parts: readonly number[]): number {
    const flat = new Set<number>();
    let bits: Uint32Array | undefined;
    this.visit(parts.length);
    const take = (id: number) => {
      const node = this.#nodes.get(id);
      if (node.kind === "and") node.parts.forEach(take);
      else if (node.kind === "set") {
        bits = bits === undefined ? node.bits : bits.map((word, i) => word & node.bits[i]!);
      } else if (id !== ANYTHING) flat.add(id);
    };
    parts.forEach(take);
    if (bits !== undefined) flat.add(this.set(bits));
    if (flat.has(NOTHING)) return NOTHING;
    if (flat.has(EMPTY_TEXT)) {
      return [...flat].every((id) => this.isNullable(id)) ? EMPTY_TEXT : NOTHING;
    }
    return this.#group("and", flat, ANYTHING);
  }

  /** Matches every text that `part` does not match. */
  not(part: number): number {
    if (part === NOTHING) return ANYTHING;
    if (part === ANYTHING) return NOTHING;
    const node = this.#nodes.get(part);
    if (node.kind === "not") return node.part;
    return this.#nodes.intern({ kind: "not", part });
  }

  /** Matches `part` from `min` to `max` times; `max` may be infinite. */
  repeat(part: number, min: number, max: number): number {
    if (max === 0 || part === EMPTY_TEXT) return EMPTY_TEXT;
    if (part === NOTHING) return min === 0 ? EMPTY_TEXT : NOTHING;
    if (part === ANYTHING) return ANYTHING;
    const least = this.isNullable(part) ? 0 : min;
    if (least === 1 && max === 1) return part;
    const node = this.#nodes.get(part);
    if (node.kind === "repeat" && node.min <= 1 && node.max === Infinity && least <= 1) {
      return this.repeat(node.part, Math.min(node.min, least), Infinity);
    }
    return this.#nodes.intern({ kind: "repeat", part, min: least, max });
  }

  /**
   * Matches decimal digits that form a multiple of `divisor`, with any number of leading zeros, and the empty text.
   * Decimal points between the digits are skipped.
   */
  multipleOf(divisor: number, rest = 0): number {
    return this.#nodes.intern({ kind: "multiple", divisor, rest });
  }

  /** Whether the empty text matches. */
  isNullable(id: number): boolean {
    return this.#nodes.isNullable(id);
  }

  /** Computes the expression for the rest of the text after `byte`; `NOTHING` if the byte cannot come. */
  derive(id: number, byte: number): number {
    const key = id * 256 + byte;
    const known = this.#derivatives.get(key);
    if (known !== undefined) return known;
    this.visit(1);
    const derivative = this.#derive(this.#nodes.get(id), byte);
    this.#derivatives.set(key, derivative);
    return derivative;
  }

  /** Whether an expression matches a whole text. */
  matches(id: number, text: string): boolean {
    let rest = id;
    for (const byte of new TextEncoder().encode(text)) rest = this.derive(rest, byte);
    return this.isNullable(rest);
  }

  /** Classes of bytes: all bytes of one class have the same derivative. */
  getClasses(id: number): ByteClasses {
    return this.#firstBytes.getClasses(id);
  }

  /** Whether an expression matches no text. @throws {GrammarError} when that takes too long to decide. */
  isEmpty(id: number): boolean {
    if (id === NOTHING) return true;
    if (!this.#nodes.mayBeEmpty(id)) return false;
    const known = this.#isEmpty.get(id);
    if (known !== undefined) return known;
    const cameFrom = new Map<number, number>([[id, -1]]);
    const queue = [id];
    for (const each of queue) {
      if (
        !this.#nodes.mayBeEmpty(each) || this.isNullable(each) || this.#isEmpty.get(each) === false
      ) {
        for (let at = each; at !== -1; at = cameFrom.get(at)!) this.#isEmpty.set(at, false);
        return false;
      }
      for (const byte of this.getClasses(each).bytes) {
        const next = this.derive(each, byte);
        if (next === NOTHING || cameFrom.has(next) || this.#isEmpty.get(next) === true) continue;
        cameFrom.set(next, each);
        queue.push(next);
      }
      if (queue.length > MAX_SEARCHED) throw tooComplex();
    }
    for (const each of queue) this.#isEmpty.set(each, true);
    return true;
  }

  #join(first: number, rest: number): number {
    if (first === NOTHING || rest === NOTHING) return NOTHING;
    if (first === EMPTY_TEXT) return rest;
    if (rest === EMPTY_TEXT) return first;
    // The `first` part of a concatenation is never a concatenation itself, so that equal texts have equal expressions.
    const links: number[] = [];
    let node = this.#nodes.get(first);
    for (; node.kind === "concat"; node = this.#nodes.get(first)) {
      links.push(node.first);
      first = node.rest;
    }
    links.push(first);
    return links.reduceRight((after, link) => {
      if (link === ANYTHING && after === ANYTHING) return ANYTHING;
      return this.#nodes.intern({ kind: "concat", first: link, rest: after });
    }, rest);
  }

  #group(kind: "or" | "and", flat: ReadonlySet<number>, none: number): number {
    if (flat.size === 0) return none;
    const parts = [...flat].sort((a, b) => a - b);
    if (parts.length === 1) return parts[0]!;
    if (parts.length > MAX_PARTS) throw tooComplex();
    return this.#nodes.intern({ kind, parts });
  }

  #derive(node: ExpressionNode, byte: number): number {
    switch (node.kind) {
      case "nothing":
      case "empty":
        return NOTHING;
      case "set":
        return (node.bits[byte >>> 5]! >>> (byte & 31) & 1) === 1 ? EMPTY_TEXT : NOTHING;
      case "concat": {
        const after = this.#join(this.derive(node.first, byte), node.rest);
        if (!this.isNullable(node.first)) return after;
        return this.or([after, this.derive(node.rest, byte)]);
      }
      case "or":
        return this.or(node.parts.map((part) => this.derive(part, byte)));
      case "and":
        return this.and(node.parts.map((part) => this.derive(part, byte)));
      case "not":
        return this.not(this.derive(node.part, byte));
      case "repeat": {
        const rest = this.repeat(node.part, Math.max(0, node.min - 1), node.max - 1);
        return this.#join(this.derive(node.part, byte), rest);
      }
      case "multiple": {
        if (byte === POINT) return this.multipleOf(node.divisor, node.rest);
        const digit = byte - 0x30;
        if (digit < 0 || digit > 9) return NOTHING;
        return this.multipleOf(node.divisor, (node.rest * 10 + digit) % node.divisor);
      }
    }
  }
}
