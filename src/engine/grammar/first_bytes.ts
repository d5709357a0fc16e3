import type { ExpressionNodes } from "./expression_nodes.ts";

const POINT = 0x2e;

/** Classes of the bytes that expressions may begin with. All bytes of a class have the same derivative. */
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

/** The coarsest partition of bytes in which every set is a union of classes. */
function divideBytes(sets: readonly Uint32Array[]): ByteClasses {
  return divide(sets.map((bits) => (byte) => bits[byte >>> 5]! >>> (byte & 31) & 1));
}

/** Joins partitions into one that distinguishes all bytes that any of them does. */
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
