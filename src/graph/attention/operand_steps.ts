/**
 * Steps between a projection and an attention: those that only scale a tensor, and those that split its rows into heads.
 * Pure.
 *
 * @module
 */
import { countElements } from "../file/dtype.ts";
import type { Evaluation } from "../evaluate/evaluation.ts";
import { intsAttribute, type Node } from "../file/proto.ts";
import type { GraphIndex } from "../graph_index.ts";

/** A graph, and its partial evaluation. */
export interface Tracing {
  readonly index: GraphIndex;
  readonly run: Evaluation;
}

/** Follows a tensor back through the steps that only scale it, to the tensor they started from. */
export function behindScales(tensor: string, search: Tracing): { tensor: string; factor: number } {
  const node = search.index.producers.get(tensor);
  const step = node && scaleStep(node, search);
  if (step === undefined) return { tensor, factor: 1 };
  const behind = behindScales(step.source, search);
  return { ...behind, factor: behind.factor * step.factor };
}

/** The input that a node scales, and the factor; 1 for casts. */
export function scaleStep(
  { opType, inputs }: Node,
  { run }: Tracing,
): { source: string; factor: number } | undefined {
  // Exporters write a Concat of one where a cache was empty.
  const isCopy = opType === "Identity" || (opType === "Concat" && inputs.length === 1);
  if (isCopy || opType === "Cast") {
    return isFloat(inputs[0]!, run) ? { source: inputs[0]!, factor: 1 } : undefined;
  }
  if (opType === "Add") {
    // A mask that hides nothing.
    const isNothing = (name: string) => run.value(name)?.data?.every((x) => x === 0) === true;
    const [left, right] = inputs as [string, string];
    const getRank = (name: string) => run.value(name)?.shape.length ?? 0;
    if (isNothing(right) && getRank(left) >= getRank(right)) return { source: left, factor: 1 };
    return isNothing(left) && getRank(right) >= getRank(left)
      ? { source: right, factor: 1 }
      : undefined;
  }
  if (opType !== "Mul" && opType !== "Div") return undefined;
  const getNumber = (name: string) => {
    const value = run.value(name);
    return value && countElements(value.shape) === 1 ? value.data?.[0] : undefined;
  };
  const [left, right] = inputs as [string, string];
  const factor = getNumber(right);
  if (factor !== undefined) {
    return { source: left, factor: opType === "Mul" ? factor : 1 / factor };
  }
  const first = getNumber(left);
  return opType === "Mul" && first !== undefined ? { source: right, factor: first } : undefined;
}

/** Whether a tensor is of floats. */
export function isFloat(tensor: string, run: Evaluation): boolean {
  const dtype = run.value(tensor)?.dtype;
  return dtype === "float32" || dtype === "float16";
}

/** Atoms of axes: batch, token, head, element of a head. */
type Atom = "b" | "t" | "h" | "d";

/** The axes of a tensor, each made of one or more atoms, outermost first. */
export type Axes = readonly string[];

/** Sizes of the atoms. */
export type AtomSizes = Readonly<Record<Atom, number>>;

/** Rows as a projection gives them: `[batch, tokens, heads * size]`. */
export const ROW_AXES: Axes = ["b", "t", "hd"];

/** Split into heads: `[batch, heads, tokens, size]`. */
export const HEAD_AXES: Axes = ["b", "h", "t", "d"];

/**
 * What a `Reshape` to `shape` makes of these axes: elements keep their order, so it only regroups atoms.
 *
 * @returns `undefined` when it cuts an atom in two.
 */
export function regroup(axes: Axes, shape: readonly number[], sizes: AtomSizes): Axes | undefined {
  const atoms = [...axes.join("")] as Atom[];
  const getSize = (group: string) =>
    [...group].reduce((product, atom) => product * sizes[atom as Atom], 1);
  const groups = shape.map((size) => {
    let group = "";
    while (atoms.length > 0 && getSize(group) < size) group += atoms.shift();
    return group;
  });
  const isWhole = groups.every((group, axis) => getSize(group) === shape[axis]);
  return atoms.length === 0 && isWhole ? groups : undefined;
}

/** What a `Transpose` makes of these axes; `undefined` when it does not fit them. */
export function permute(axes: Axes, node: Node): Axes | undefined {
  const perm = intsAttribute(node, "perm") ?? [...axes.keys()].reverse();
  return perm.length === axes.length ? perm.map((axis) => axes[axis]!) : undefined;
}
