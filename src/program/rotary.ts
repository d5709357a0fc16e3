/**
 * Recognizes rotary position embeddings, of whole heads or of their first elements, as one operator or spelled out.
 *
 * @module
 */
import { eitherInput, type GraphIndex, readIntegers } from "../graph/graph_index.ts";
import { type Node, readIntAttribute } from "../graph/file/proto.ts";

/** A rotation of heads. */
export interface FoundRotation {
  readonly input: string;
  /** Tensors with the cosines and sines of each token. */
  readonly cos: string;
  readonly sin: string;
  /** Number of rotated elements, at the beginning of a head. */
  readonly size: number;
  /** Whether pairs are neighbouring elements, rather than elements `i` and `i + size / 2`. */
  readonly isInterleaved: boolean;
}

/** Returns the rotation that computes a tensor, if there is one. */
export function findRotation(
  index: GraphIndex,
  name: string,
  headDim: number,
): FoundRotation | undefined {
  const node = index.producers.get(name);
  switch (node?.opType) {
    case "RotaryEmbedding":
      return readOperator(node, headDim);
    case "Concat":
      return matchFirstElements(index, node, headDim) ?? matchHalves(index, node, headDim);
    case "Add":
      return spelledOut(index, node, headDim);
    case "Cast":
      return matchBetweenCasts(index, node, headDim);
  }
  return undefined;
}

/** Matches a rotation in f32 between two casts. The kernels rotate f16 heads in f32, too. */
function matchBetweenCasts(
  index: GraphIndex,
  node: Node,
  headDim: number,
): FoundRotation | undefined {
  const found = findRotation(index, node.inputs[0]!, headDim);
  const before = found && index.producers.get(found.input);
  return before?.opType === "Cast" ? { ...found!, input: before.inputs[0]! } : undefined;
}

/** Matches `x * cos + rotated(x) * sin`. */
function spelledOut(index: GraphIndex, node: Node, size: number): FoundRotation | undefined {
  const [left, right] = node.inputs.map((input) => index.producers.get(input));
  for (const [straight, rotated] of [[left, right], [right, left]]) {
    if (straight?.opType !== "Mul" || rotated?.opType !== "Mul") continue;
    for (const [half, sin] of [rotated.inputs, rotated.inputs.toReversed()] as [string, string][]) {
      const found = matchRotatedHalves(index, half, size) ??
        matchRotatedNeighbours(index, half, size);
      const cos = straight.inputs.find((other) => other !== found?.input);
      if (found !== undefined && cos !== undefined && straight.inputs.includes(found.input)) {
        return { ...found, cos, sin, size };
      }
    }
  }
  return undefined;
}

/** Matches `concat(a * cos - b * sin, b * cos + a * sin)`, where `a` and `b` are the halves of a head (gpt-oss). */
function matchHalves(index: GraphIndex, node: Node, headDim: number): FoundRotation | undefined {
  const half = headDim / 2;
  if (node.inputs.length !== 2 || !isLastAxis(readIntAttribute(node, "axis"))) return undefined;
  const [first, second] = node.inputs.map((name) => index.producers.get(name));
  if (first?.opType !== "Sub" || second?.opType !== "Add") return undefined;
  /** A product of the half that begins at element `from`. */
  const readProduct = (name: string, from: number) => {
    const product = index.producers.get(name);
    if (product?.opType !== "Mul") return undefined;
    return eitherInput(product, (factor) => readPart(index, factor, [from, from + half]));
  };
  const readSum = ({ inputs: [left, right] }: Node, at: readonly [number, number]) =>
    [readProduct(left!, at[0]), readProduct(right!, at[1])] as const;
  const swapped = { ...second, inputs: second.inputs.toReversed() };
  const [aCos, bSin] = readSum(first, [0, half]);
  const sums = [readSum(second, [half, 0]), readSum(swapped, [half, 0])];
  const matches = sums.some(([bCos, aSin]) =>
    bCos !== undefined && bCos.other === aCos?.other && aSin?.other === bSin?.other &&
    [aCos, bSin, bCos, aSin].every((each) => each?.found === bCos.found)
  );
  return matches
    ? {
      input: aCos!.found,
      cos: aCos!.other,
      sin: bSin!.other,
      size: headDim,
      isInterleaved: false,
    }
    : undefined;
}

/** Matches `concat(rotated(x[.. size]), x[size ..])`, where the second part may be empty. */
function matchFirstElements(
  index: GraphIndex,
  node: Node,
  headDim: number,
): FoundRotation | undefined {
  const [first, rest] = node.inputs as [string, string];
  if (node.inputs.length !== 2 || !isLastAxis(readIntAttribute(node, "axis"))) return undefined;
  const size = countElementsBefore(index, rest, headDim);
  const sum = index.producers.get(first);
  if (size === undefined || sum?.opType !== "Add") return undefined;
  const found = spelledOut(index, sum, size);
  const input = found && readPart(index, found.input, [0, size]);
  return input !== undefined && input === readPart(index, rest, [size, headDim])
    ? { ...found!, input }
    : undefined;
}

/** The number of elements of a head before those that a slice or split takes. */
function countElementsBefore(index: GraphIndex, name: string, headDim: number): number | undefined {
  const node = index.producers.get(name);
  const input = node?.opType === "Split" ? readIntegers(index, node.inputs[1])?.[0] : undefined;
  const start = node?.opType === "Slice" ? readIntegers(index, node.inputs[1])?.[0] : input;
  return start !== undefined && start > 0 && start <= headDim ? start : undefined;
}

/** Finds the tensor from whose last axis a slice or split takes the elements `from` to `to`. */
function readPart(
  index: GraphIndex,
  name: string,
  [from, to]: readonly [number, number],
): string | undefined {
  const node = index.producers.get(name);
  if (isSlice(index, node, [from, to])) return node!.inputs[0];
  const axis = node && readIntAttribute(node, "axis");
  if (node?.opType !== "Split" || !isLastAxis(axis) || node.outputs.length !== 2) return undefined;
  // Without sizes, the parts are equal.
  const sizes = node.inputs.length === 1
    ? [to - from, to - from]
    : readIntegers(index, node.inputs[1]);
  const at = node.outputs.indexOf(name);
  const start = at === 0 ? 0 : sizes?.[0];
  return start === from && sizes?.[at] === to - from ? node.inputs[0] : undefined;
}

/** Matches ONNX's own operator, with cosines and sines for each token. */
function readOperator(node: Node, headDim: number): FoundRotation | undefined {
  const [input, cos, sin, positions = ""] = node.inputs as [string, string, string, string?];
  const size = readIntAttribute(node, "rotary_embedding_dim") || headDim;
  const isInterleaved = readIntAttribute(node, "interleaved") === 1;
  const isOwn = node.domain === "" && positions === "";
  return isOwn ? { input, cos, sin, size, isInterleaved } : undefined;
}

type Rotated = Pick<FoundRotation, "input" | "isInterleaved">;

/** Matches `concat(-x[size / 2 ..], x[.. size / 2])`, and returns `x`. */
function matchRotatedHalves(index: GraphIndex, name: string, size: number): Rotated | undefined {
  const node = index.producers.get(name);
  const axis = node && readIntAttribute(node, "axis");
  if (node?.opType !== "Concat" || node.inputs.length !== 2 || !isLastAxis(axis)) return undefined;
  const [negated, first] = node.inputs.map((input) => index.producers.get(input));
  if (negated?.opType !== "Neg") return undefined;
  const second = index.producers.get(negated.inputs[0]!);
  if (first?.opType === "Split" && first === second && first.outputs.length === 2) {
    const [before, behind] = first.outputs;
    const isInOrder = node.inputs[1] === before && negated.inputs[0] === behind;
    const sizes = readIntegers(index, first.inputs[1]) ?? [size / 2, size / 2];
    return isInOrder && sizes[0] === sizes[1]
      ? { input: first.inputs[0]!, isInterleaved: false }
      : undefined;
  }
  const isFirst = isSlice(index, first, [0, size / 2]);
  const isSecond = isSlice(index, second, [size / 2, size]);
  return isFirst && isSecond && first!.inputs[0] === second!.inputs[0]
    ? { input: first!.inputs[0]!, isInterleaved: false }
    : undefined;
}

/**
 * Matches `stack(-x[1 :: 2], x[0 :: 2])`, and returns `x`. The parts are concatenated along a new last axis, so that
 * their elements alternate.
 */
function matchRotatedNeighbours(
  index: GraphIndex,
  name: string,
  size: number,
): Rotated | undefined {
  const node = index.producers.get(name);
  if (node?.opType !== "Concat" || node.inputs.length !== 2) return undefined;
  const axis = readIntAttribute(node, "axis");
  const [odd, even] = node.inputs.map((input) => {
    const stood = index.producers.get(input);
    const axes = stood?.opType === "Unsqueeze" ? readIntegers(index, stood.inputs[1]) : undefined;
    const isLast = axes?.length === 1 && (axes[0] === -1 || axes[0] === 4);
    return isLast ? index.producers.get(stood!.inputs[0]!) : undefined;
  });
  if (odd?.opType !== "Neg" || (axis !== -1 && axis !== 4)) return undefined;
  const negated = index.producers.get(odd.inputs[0]!);
  const isOdd = isSlice(index, negated, [1, size], 2);
  const isEven = isSlice(index, even, [0, size], 2) || isSlice(index, even, [0, size - 1], 2);
  return isOdd && isEven && negated!.inputs[0] === even!.inputs[0]
    ? { input: even!.inputs[0]!, isInterleaved: true }
    : undefined;
}

function isLastAxis(axis: number | undefined): boolean {
  return axis === -1 || axis === 3;
}

/** Whether a node takes the elements `from` to `to` of the last of four axes, or every `step`-th of them. */
function isSlice(
  index: GraphIndex,
  node: Node | undefined,
  [from, to]: readonly [number, number],
  step = 1,
): boolean {
  if (node?.opType !== "Slice") return false;
  const [starts, ends, axes, steps = [1]] = node.inputs.slice(1).map((name) =>
    readIntegers(index, name)
  );
  const isLast = axes?.length === 1 && isLastAxis(axes[0]);
  const end = ends?.[0] ?? 0;
  return isLast && starts?.[0] === from && (end === to || end > 2 * to) && steps[0] === step;
}
