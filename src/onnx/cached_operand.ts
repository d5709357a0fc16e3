/**
 * Keys and values that a graph appends to its cache itself, by `Concat`, and what an attention then reads of them.
 *
 * @module
 */
import { findCacheInput, type Search } from "./attention.ts";
import { elementsOf } from "./dtype.ts";
import type { Evaluation } from "./evaluate/evaluation.ts";
import type { Value } from "./evaluate/value.ts";
import type { GraphIndex } from "./graph_index.ts";
import { intAttribute, type Node } from "./proto.ts";
import { SHORT_LENGTHS } from "./probes.ts";

/** Between the cache and what reads it, no other operators are looked through. */
const MOVING = new Set(
  "Transpose Reshape Unsqueeze Squeeze Expand Tile Concat Cast Mul Div Identity".split(" "),
);

/** The first node that satisfies `isGoal`, looking back from a tensor through these operators. */
export function findBack(
  index: GraphIndex,
  tensor: string,
  through: ReadonlySet<string>,
  isGoal: (node: Node) => boolean,
): Node | undefined {
  const seen = new Set<string>();
  const open = [tensor];
  for (let name = open.shift(); name !== undefined; name = open.shift()) {
    const node = index.producers.get(name);
    if (node === undefined || seen.has(name)) continue;
    seen.add(name);
    if (isGoal(node)) return node;
    if (through.has(node.opType)) open.push(...node.inputs);
  }
  return undefined;
}

/** What an attention reads of a cache. */
export interface CachedOperand {
  /** The new keys or values, `[1, kvHeads, tokens, size]`. */
  readonly added: string;
  readonly kvHeads: number;
  readonly size: number;
  /** Every element is multiplied by this on the way. */
  readonly factor: number;
}

/** The `Concat` of past and new rows behind an operand, along the tokens. */
function findCache(search: Search, tensor: string): Node | undefined {
  return findBack(search.index, tensor, MOVING, (node) => {
    const [past, added] = node.inputs;
    if (node.opType !== "Concat" || node.inputs.length !== 2) return false;
    const axis = intAttribute(node, "axis") ?? 0;
    return (axis === 2 || axis === -2) && findCacheInput(search, past!) !== undefined &&
      findCacheInput(search, added!) === undefined;
  });
}

/** Numbers that tell an element's place: 1, 2, 3 … */
export function numbered(value: Value): Value {
  const data = Float64Array.from({ length: elementsOf(value.shape) }, (_, i) => i + 1);
  return { ...value, data };
}

function isClose(a: number, b: number): boolean {
  return Math.abs(a - b) <= 1e-5 * Math.max(Math.abs(a), Math.abs(b));
}

/**
 * How an operand reads the cache: head `h` must read cached head `floor(h * kvHeads / heads)`, all elements times
 * one factor. Returns that factor.
 */
function measureReading(
  run: Evaluation,
  cache: string,
  operand: string,
  { heads, transposed }: Reading,
): number | undefined {
  const stored = run.value(cache);
  if (stored?.shape.length !== 4) return undefined;
  const [, kvHeads, length, size] = stored.shape as [number, number, number, number];
  const read = run.valueWith(operand, new Map([[cache, numbered(stored)]]));
  if (read?.data?.length !== heads * length * size || heads % kvHeads !== 0) return undefined;
  const [rows, columns] = transposed ? [size, length] : [length, size];
  if (read.shape.at(-2) !== rows || read.shape.at(-1) !== columns) return undefined;
  const factor = read.data[0]!;
  for (let i = 0; i < read.data.length; i++) {
    const head = Math.floor(Math.floor(i / (rows * columns)) / (heads / kvHeads));
    const [row, column] = [Math.floor(i / columns) % rows, i % columns];
    const [key, element] = transposed ? [column, row] : [row, column];
    const place = (head * length + key) * size + element + 1;
    if (!isClose(read.data[i]!, factor * place)) return undefined;
  }
  return factor;
}

/** How an operand has the cached rows. */
export interface Reading {
  /** How many heads the operand has; each cached head may serve several. */
  readonly heads: number;
  /** Whether it is `[heads, size, length]` in place of `[heads, length, size]`. */
  readonly transposed: boolean;
}

/**
 * The cache behind an operand.
 *
 * @returns `undefined` when there is none, `"changed"` when the operand is more than a reading of it.
 */
export function followCache(
  search: Search,
  operand: string,
  reading: Reading,
): CachedOperand | "changed" | undefined {
  const concat = findCache(search, operand);
  if (concat === undefined) return undefined;
  const cache = concat.outputs[0]!;
  const run = search.probes.at(SHORT_LENGTHS[1]);
  const factor = measureReading(run, cache, operand, reading);
  if (factor === undefined) return "changed";
  const [, kvHeads, , size] = run.value(cache)!.shape as [number, number, number, number];
  return { added: concat.inputs[1]!, kvHeads, size, factor };
}
