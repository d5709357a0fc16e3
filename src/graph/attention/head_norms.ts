/**
 * Turns the norms of query and key heads that a `GroupQueryAttention` can apply itself into nodes in front of it, as
 * other exporters write them. The compiler of segments then fuses them into the write of the cache.
 *
 * @module
 */
import { type FoundAttention, inputName, type Operand, rows } from "./attention.ts";
import {
  type AttributeValue,
  floatAttribute,
  int64Tensor,
  makeNode,
  type Node,
  type Tensor,
} from "../file/proto.ts";

/** Epsilon added to a head's mean square if the node names none. */
const DEFAULT_EPSILON = 1e-6;

/** The part of an operand that is normalised, in the tensor that holds it. */
interface Heads {
  readonly operand: Operand;
  readonly count: number;
  readonly headDim: number;
  /** Whether the tensor holds other operands' heads, too. */
  readonly isPacked: boolean;
}

/** Nodes and constants that normalise heads. */
class HeadNorms {
  readonly before: Node[] = [];
  readonly constants: Tensor[] = [];
  readonly #name: string;
  readonly #attributes: Record<string, AttributeValue>;

  constructor(node: Node) {
    this.#name = node.outputs[0]!;
    const epsilon = floatAttribute(node, "qk_norm_epsilon") ?? DEFAULT_EPSILON;
    this.#attributes = { axis: -1, epsilon: { float: epsilon }, stash_type: 1 };
  }

  /** The normalised operand, or the operand itself without a weight. */
  add(kind: "q" | "k", weight: string | undefined, heads: Heads): Operand {
    if (weight === undefined) return heads.operand;
    const name = `${this.#name}/${kind}`;
    const input = heads.isPacked ? this.#slice(`${name}_rows`, heads) : heads.operand.tensor;
    const sizes = this.#ints(`${name}_sizes`, [0, 0, heads.count, heads.headDim]);
    const norm = makeNode(
      "SimplifiedLayerNormalization",
      [`${name}_heads`, weight],
      [`${name}_normalised`],
      { attributes: this.#attributes },
    );
    this.before.push(makeNode("Reshape", [input, sizes], [`${name}_heads`]), norm);
    return rows(`${name}_normalised`);
  }

  #slice(name: string, { operand: { tensor, offset }, count, headDim }: Heads): string {
    const bounds = [
      this.#ints(`${name}_start`, [offset]),
      this.#ints(`${name}_end`, [offset + count * headDim]),
      this.#ints(`${name}_axis`, [2]),
    ];
    this.before.push(makeNode("Slice", [tensor, ...bounds], [name]));
    return name;
  }

  #ints(name: string, values: readonly number[]): string {
    this.constants.push(int64Tensor(name, [values.length], values));
    return name;
  }
}

/** Moves `q_norm_weight` and `k_norm_weight` of an attention's node into nodes in front of it. */
export function normaliseHeads(node: Node, found: FoundAttention): FoundAttention {
  const weights = { q: inputName(node, 14), k: inputName(node, 15) };
  if (weights.q === undefined && weights.k === undefined) return found;
  const { q, k, heads, kvHeads, headDim } = found;
  const isPacked = inputName(node, 1) === undefined;
  const norms = new HeadNorms(node);
  return {
    ...found,
    q: norms.add("q", weights.q, { operand: q, count: heads, headDim, isPacked }),
    k: norms.add("k", weights.k, { operand: k, count: kvHeads, headDim, isPacked }),
    before: norms.before,
    constants: norms.constants,
  };
}
