/**
 * Follows rows of tokens through the reshapes and transposes that split them into heads.
 *
 * @module
 */
import { intsAttribute, type Node } from "../file/proto.ts";

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
