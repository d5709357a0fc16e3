import { type ByteClasses, divideBytes } from "./byte_classes.ts";
import type { ExpressionNodes } from "./expression_nodes.ts";

const POINT = 0x2e;

/** Classes of the bytes that expressions may begin with: those of one class lead to the same. */
export class FirstBytes {
  readonly #nodes: ExpressionNodes;
  readonly #getSet: (byte: number) => number;
  readonly #classes = new Map<number, ByteClasses>();
  readonly #classesBySets = new Map<string, ByteClasses>();

  /** @param getSet the expression of one byte. */
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

  /** The sets that distinguish first bytes. */
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
