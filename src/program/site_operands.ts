/**
 * Operands of attentions that take ordinary tensors: token after token, their heads normalised and rotated.
 *
 * @module
 */
import { Refusal } from "../graph/refusal.ts";
import { type ProgramBuilder, type Rows, toElem } from "./program_builder.ts";
import {
  angleTable,
  type AttentionOperand,
  findSections,
  type LayoutSearch,
  readOperand,
} from "./site_forms.ts";

/** Adds one dispatch: what it computes from rows is the tensor `name`. */
type Step = (name: string, x: Rows) => Rows;

/**
 * Computes an operand that the graph turns to heads before tokens, and back. Both are left out: what lies between treats
 * every head of a token alike.
 *
 * @throws {Refusal} where something else lies between.
 */
export function computeOperand(
  search: LayoutSearch & { readonly program: ProgramBuilder },
  operand: AttentionOperand,
): Rows {
  const { program, tables } = search;
  const { kind, node } = operand;
  const { rows, norm, rotation, scale } = readOperand(search, operand);
  const heads = kind === "q" ? node.heads : node.kvHeads;
  const headSize = kind === "v" ? node.vHeadDim : node.headDim;
  const { positions } = tables;
  const steps: Step[] = [];
  if (norm !== undefined) steps.push((name, x) => program.norm(name, { x, norm }));
  if (rotation !== undefined) {
    if (positions === undefined) throw new Refusal("Its graph has no positions of tokens.");
    const { size, isInterleaved } = rotation;
    const [cos, sin] = [rotation.cos, rotation.sin].map((name) =>
      angleTable(tables, name, rotation)
    ) as [ReturnType<typeof angleTable>, ReturnType<typeof angleTable>];
    const sections = findSections(tables, rotation);
    const shape = { heads, headSize, size, isInterleaved, sections };
    steps.push((name, x) => program.rotate(name, { x, cos, sin, positions, ...shape }));
  }
  if (scale !== 1) steps.push((name, a) => program.pointwise(name, { a, scale }));
  const { tensor, tokenStride: stride, offset } = rows;
  const source = { tensor, stride, offset, width: heads * headSize, elem: toElem(node.dtype) };
  const { tensor: name } = node[kind];
  return steps.reduce<Rows>(
    (x, step, i) => step(i === steps.length - 1 ? name : `${name}/before_${i}`, x),
    source,
  );
}
