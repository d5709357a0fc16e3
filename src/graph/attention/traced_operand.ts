/**
 * Traces an attention's operand back through nodes that rearrange it into heads, to rows of tokens, or to a cache to
 * which the graph appends by `Concat`.
 *
 * To find where the elements of an operand come from, the elements of a tensor are set to 1, 2, 3 … The operand then
 * holds the numbers of the elements that it reads, multiplied by its factor.
 *
 * @module
 */
import { findCacheInput, type Operand, type Search } from "./attention.ts";
import { countElements } from "../file/tensor.ts";
import type { Value } from "../evaluate/value.ts";
import type { GraphIndex } from "../graph_index.ts";
import { type Lengths, SHORT_LENGTHS } from "../probes.ts";
import { type Node, readIntAttribute } from "../file/proto.ts";

/** Operators that may rearrange an operand between its rows or cache and the product. */
const MOVING = new Set(
  "Transpose Reshape Unsqueeze Squeeze Expand Tile Split Slice Gather Cast Mul Div Identity".split(
    " ",
  ),
);
const MOVING_OR_JOINING = MOVING.union(new Set(["Concat"]));

/**
 * The number of an operand's heads, and the order of its axes: `[heads, tokens, size]`, or `[heads, size, tokens]` if
 * it is transposed.
 */
interface HeadOrder {
  readonly heads: number;
  readonly isTransposed: boolean;
}

/** Searches back from a tensor through some operators, and returns the first node that satisfies `isGoal`. */
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

/** Operators that only change a tensor's shape. */
const RESHAPING = new Set(["Reshape", "Squeeze", "Unsqueeze"]);

/**
 * Skips a reshape that merges heads with the batch, as in BLOOM: `[heads, tokens, size]` has the elements of
 * `[1, heads, tokens, size]`.
 *
 * @param side whether the tensor is an operand of an attention, or its result.
 */
export function skipMergedHeads(
  { index, probes }: Search,
  tensor: string,
  side: "operand" | "result",
): string {
  const run = probes.at(SHORT_LENGTHS[0]);
  const shape = run.value(tensor)?.shape ?? [];
  const readers = index.consumers(tensor).filter(({ opType }) => opType !== "Shape");
  const node = side === "operand"
    ? index.producers.get(tensor)
    : readers.length === 1 && !index.isOutput(tensor)
    ? readers[0]
    : undefined;
  if (shape.length !== 3 || node === undefined || !RESHAPING.has(node.opType)) return tensor;
  const other = side === "operand" ? node.inputs[0]! : node.outputs[0]!;
  return run.value(other)?.shape.join() === [1, ...shape].join() ? other : tensor;
}

/** A value of the same shape with the elements 1, 2, 3 … */
export function numbered(value: Value): Value {
  const data = Float64Array.from({ length: countElements(value.shape) }, (_, i) => i + 1);
  return { ...value, data };
}

/** An operand of a spelled-out attention, and the factor that scales it before the product. */
export interface SpelledOutOperand {
  readonly operand: Operand;
  readonly heads: number;
  readonly size: number;
  readonly factor: number;
}

type Trace = Omit<SpelledOutOperand, "operand"> & Pick<Operand, "layout" | "offset">;

function isClose(a: number, b: number): boolean {
  return Math.abs(a - b) <= 1e-5 * Math.max(1, Math.abs(a), Math.abs(b));
}

/**
 * Finds how `operand` reads `tensor` in a run; `undefined` if the operand's heads are not parts of the tensor's rows.
 */
function traceAt(
  { probes }: Search,
  { tensor, operand, order, lengths, length: numTokens }: {
    readonly tensor: string;
    readonly operand: string;
    readonly order: HeadOrder;
    readonly lengths: Lengths;
    /** Number of rows of the tensor. */
    readonly length: number;
  },
): Trace | undefined {
  const { heads, isTransposed } = order;
  const evaluation = probes.at(lengths);
  const source = evaluation.value(tensor);
  if (source?.shape[0] !== 1) return undefined;
  const fed = numbered(source);
  const read = tensor === operand ? fed : evaluation.valueWith(operand, new Map([[tensor, fed]]));
  const size = (read?.data?.length ?? 0) / (heads * numTokens);
  if (!Number.isInteger(size) || size < 2) return undefined;
  const at = (head: number, token: number, element: number) =>
    read!.data![
      isTransposed
        ? (head * size + element) * numTokens + token
        : (head * numTokens + token) * size + element
    ]!;
  const factor = at(0, 0, 1) - at(0, 0, 0);
  const computeOffset = (head: number, token: number, element: number) =>
    at(head, token, element) / factor - 1;
  const isTokenMajor = source.shape[1] === numTokens;
  const offset = Math.round(computeOffset(0, 0, 0));
  const width = countElements(source.shape) / numTokens;
  const headStep = isTokenMajor ? size : size * numTokens;
  const kvHeads = Math.round((computeOffset(heads - 1, 0, 0) - offset) / headStep) + 1;
  if (kvHeads < 1 || heads % kvHeads !== 0) return undefined;
  if (!isTokenMajor && (source.shape.length !== 4 || source.shape[2] !== numTokens)) {
    return undefined;
  }
  for (let head = 0; head < heads; head++) {
    const kvHead = Math.floor(head * kvHeads / heads);
    for (let token = 0; token < numTokens; token++) {
      for (let element = 0; element < size; element++) {
        const expected = offset + kvHead * headStep +
          (isTokenMajor ? token * width : token * size) + element;
        if (!isClose(computeOffset(head, token, element), expected)) return undefined;
      }
    }
  }
  const layout = isTokenMajor ? "token_major" : "head_major";
  return layout === "head_major" && offset !== 0
    ? undefined
    : { heads: kvHeads, size, factor, layout, offset };
}

function traceRows(
  search: Search,
  tensor: string,
  reading: { readonly operand: string; readonly order: HeadOrder },
): SpelledOutOperand | undefined {
  const [short, longer] = [SHORT_LENGTHS[0], SHORT_LENGTHS[2]].map((lengths) =>
    traceAt(search, { ...reading, tensor, lengths, length: lengths.numTokens })
  );
  if (short === undefined || longer === undefined) return undefined;
  const { heads, size, factor, layout, offset } = short;
  const agrees = heads === longer.heads && size === longer.size && layout === longer.layout &&
    offset === longer.offset && isClose(factor, longer.factor);
  return agrees ? { operand: { tensor, layout, offset }, heads, size, factor } : undefined;
}

/** The input that a node rearranges: the largest one that is not constant. */
function movedBy(index: GraphIndex, node: Node, getSize: (name: string) => number) {
  return node.inputs
    .filter((name) => name !== "" && !index.constants.has(name))
    .sort((a, b) => getSize(b) - getSize(a))[0];
}

/**
 * Traces an operand of a product back to the earliest tensor whose rows contain its heads in order.
 *
 * @returns `undefined` if there is no such tensor.
 */
export function findRows(
  search: Search,
  operand: string,
  order: HeadOrder,
): SpelledOutOperand | undefined {
  const { index, probes } = search;
  const run = probes.at(SHORT_LENGTHS[0]);
  const getSize = (name: string) => countElements(run.value(name)?.shape ?? [0]);
  let found: SpelledOutOperand | undefined;
  for (let name: string | undefined = operand; name !== undefined;) {
    found = traceRows(search, name, { operand, order }) ?? found;
    const node = index.producers.get(name);
    name = node && MOVING.has(node.opType) ? movedBy(index, node, getSize) : undefined;
  }
  return found;
}

/** Finds the `Concat` of past and new rows behind an operand. */
function findCache(search: Search, tensor: string): Node | undefined {
  return findBack(search.index, tensor, MOVING_OR_JOINING, (node) => {
    const [past, added] = node.inputs;
    if (node.opType !== "Concat" || node.inputs.length !== 2) return false;
    const axis = readIntAttribute(node, "axis") ?? 0;
    return (axis === 2 || axis === -2) && findCacheInput(search, past!) !== undefined &&
      findCacheInput(search, added!) === undefined;
  });
}

/**
 * Finds the rows that the graph appends to the cache behind an operand of a product.
 *
 * @returns `undefined` if there is no cache, `"changed"` if the operand is more than a rearrangement of the cache.
 */
export function followCache(
  search: Search,
  operand: string,
  order: HeadOrder,
): SpelledOutOperand | "changed" | undefined {
  const concat = findCache(search, operand);
  if (concat === undefined) return undefined;
  const lengths = SHORT_LENGTHS[1];
  const length = lengths.pastLength + lengths.numTokens;
  const trace = traceAt(search, { tensor: concat.outputs[0]!, operand, order, lengths, length });
  if (trace?.layout !== "head_major") return "changed";
  const { heads, size, factor } = trace;
  const added = { tensor: concat.inputs[1]!, layout: "head_major", offset: 0 } as const;
  return { operand: added, heads, size, factor };
}
