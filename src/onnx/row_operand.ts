/**
 * Where the operands of an attention lie in the rows that the graph makes of its tokens, whatever nodes bring them
 * into the order of heads.
 *
 * @module
 */
import type { Operand, Search } from "./attention.ts";
import { numbered } from "./cached_operand.ts";
import { elementsOf } from "./dtype.ts";
import type { GraphIndex } from "./graph_index.ts";
import type { Node } from "./proto.ts";
import { SHORT_LENGTHS } from "./probes.ts";

/** Between the rows and the product, no other operators are looked through. */
const MOVING = new Set(
  "Transpose Reshape Unsqueeze Squeeze Expand Tile Split Slice Gather Cast Mul Div Identity".split(
    " ",
  ),
);

/** Heads of an operand: `[heads, tokens, size]`, or `[heads, size, tokens]`. */
export interface HeadOrder {
  readonly heads: number;
  readonly isTransposed: boolean;
}

/** An operand traced back to rows. */
export interface RowOperand {
  readonly operand: Operand;
  /** How many heads the rows have; each may serve several of the operand's. */
  readonly kvHeads: number;
  readonly size: number;
  /** Every element is multiplied by this on the way. */
  readonly factor: number;
}

type Trace = Omit<RowOperand, "operand"> & Pick<Operand, "layout" | "offset">;

function isClose(a: number, b: number): boolean {
  return Math.abs(a - b) <= 1e-5 * Math.max(1, Math.abs(a), Math.abs(b));
}

/** How `operand` reads `tensor` in a run; `undefined` when not as heads of rows. */
function traceAt(
  { probes }: Search,
  { tensor, operand, order, run }: {
    readonly tensor: string;
    readonly operand: string;
    readonly order: HeadOrder;
    readonly run: 0 | 2;
  },
): Trace | undefined {
  const lengths = SHORT_LENGTHS[run];
  const { numTokens } = lengths;
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
  const place = (head: number, token: number, element: number) =>
    at(head, token, element) / factor - 1;
  const isTokenMajor = source.shape[1] === numTokens;
  const offset = Math.round(place(0, 0, 0));
  const width = elementsOf(source.shape) / numTokens;
  const headStep = isTokenMajor ? size : size * numTokens;
  const kvHeads = Math.round((place(heads - 1, 0, 0) - offset) / headStep) + 1;
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
        if (!isClose(place(head, token, element), expected)) return undefined;
      }
    }
  }
  const layout = isTokenMajor ? "token_major" : "head_major";
  return layout === "head_major" && offset !== 0
    ? undefined
    : { kvHeads, size, factor, layout, offset };
}

function traceRows(
  search: Search,
  tensor: string,
  reading: { readonly operand: string; readonly order: HeadOrder },
): RowOperand | undefined {
  const [short, longer] = ([0, 2] as const).map((run) =>
    traceAt(search, { ...reading, tensor, run })
  );
  if (short === undefined || longer === undefined) return undefined;
  const { kvHeads, size, factor, layout, offset } = short;
  const agrees = kvHeads === longer.kvHeads && size === longer.size && layout === longer.layout &&
    offset === longer.offset && isClose(factor, longer.factor);
  return agrees ? { operand: { tensor, layout, offset }, kvHeads, size, factor } : undefined;
}

/** What a node moves: its largest input that is no constant. */
function movedBy(index: GraphIndex, node: Node, sizeOf: (name: string) => number) {
  return node.inputs
    .filter((name) => name !== "" && !index.constants.has(name))
    .sort((a, b) => sizeOf(b) - sizeOf(a))[0];
}

/**
 * Traces an operand of a product as far back as its elements are heads of rows in their order.
 *
 * @returns `undefined` when they are that nowhere.
 */
export function findRows(
  search: Search,
  operand: string,
  order: HeadOrder,
): RowOperand | undefined {
  const { index, probes } = search;
  const run = probes.at(SHORT_LENGTHS[0]);
  const sizeOf = (name: string) => elementsOf(run.value(name)?.shape ?? [0]);
  let found: RowOperand | undefined;
  for (let name: string | undefined = operand; name !== undefined;) {
    found = traceRows(search, name, { operand, order }) ?? found;
    const node = index.producers.get(name);
    name = node && MOVING.has(node.opType) ? movedBy(index, node, sizeOf) : undefined;
  }
  return found;
}
