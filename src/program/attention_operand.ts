/**
 * The operands of attention nodes. Either the attention kernel normalises and rotates heads, and
 * {@linkcode findOperandLayout} finds the layout in which a segment's dispatches leave the operands. Or dispatches do
 * so ({@linkcode computeOperand}), and each operand is an ordinary token-major tensor.
 *
 * @module
 */
import { checkRotary, hasRoomForRowNorms } from "../../kernels/attention/kv_write.ts";
import { toElem } from "../gpu/kernel.ts";
import type { AttentionNode, HeadRows, Rotary } from "../graph/graph_cut.ts";
import { describeNode, eitherInput, type GraphIndex } from "../graph/graph_index.ts";
import { type Node, readIntsAttribute } from "../graph/file/proto.ts";
import type { StoredTensor } from "../graph/file/tensor.ts";
import { Refusal } from "../graph/refusal.ts";
import { findNorm, type FoundNorm } from "./norms.ts";
import type { PositionTables } from "./position_tables.ts";
import { readScale } from "./product_plan.ts";
import type { OperandLayout } from "./program.ts";
import type { ProgramBuilder, Rows } from "./program_builder.ts";
import { isReshape } from "./row_nodes.ts";
import { findRotation, type FoundRotation } from "./rotary.ts";

/** The permutation that swaps tokens and heads. */
export const SWAPPED_HEADS: readonly number[] = [0, 2, 1, 3];

/** The segment that computes the operands. */
interface LayoutSearch {
  readonly index: GraphIndex;
  readonly tables: PositionTables;
  readonly program: ProgramBuilder;
  /** Returns the rows of a tensor, which are computed if they have not been yet. */
  readonly getRows: (name: string) => Rows;
}

/** A norm of an operand: of each head by itself, or of all heads of a row together. */
type OperandNorm = FoundNorm & {
  readonly ofRows: boolean;
  /** Whether heads are rotated before they are normalised. */
  readonly isAfterRotation: boolean;
};

/** An operand of an attention node. */
export interface AttentionOperand {
  readonly kind: "q" | "k" | "v";
  readonly node: AttentionNode;
}

/** An operand before the norms and rotations that the attention kernel applies. */
interface Operand {
  readonly rows: HeadRows;
  readonly norm?: OperandNorm | undefined;
  readonly rotation?: FoundRotation | undefined;
  readonly scale: number;
}

/**
 * Finds the layout of an attention node's operands.
 *
 * @throws {Refusal} when its queries and keys are normalised or rotated differently.
 */
export function findOperandLayout(search: LayoutSearch, node: AttentionNode): OperandLayout {
  const [q, k, v] = (["q", "k", "v"] as const).map((kind) =>
    readOperand(search, { kind, node })
  ) as [Operand, Operand, Operand];
  const epsilons = new Set([q, k].flatMap(({ norm }) => norm?.params.epsilon ?? []));
  if (epsilons.size > 1) throw new Refusal("The norms of its queries and keys differ.");
  const [epsilon] = epsilons;
  const readBoth = (field: "ofRows" | "isAfterRotation") => {
    const [first, ...others] = new Set([q, k].flatMap(({ norm }) => norm?.[field] ?? []));
    if (others.length > 0) throw new Refusal("The norms of its queries and keys differ.");
    return first;
  };
  const [ofRows, isAfterRotation] = [readBoth("ofRows"), readBoth("isAfterRotation")];
  const numHeads = ofRows ? [node.heads, node.kvHeads] as const : [1, 1] as const;
  const sizes = [numHeads[0] * node.headDim, numHeads[1] * node.headDim] as const;
  const norms = epsilon === undefined ? undefined : {
    ...{ epsilon, ofRows: ofRows!, isAfterRotation: isAfterRotation!, sizes },
    ...{ q: q.norm?.gamma, k: k.norm?.gamma },
  };
  const rotary = findRotary(search.tables, [q, k], node);
  return { layer: node.layer, q: q.rows, k: k.rows, v: v.rows, norms, rotary, scale: q.scale };
}

/** Follows an operand back through the nodes that the attention kernel can replace. */
function readOperand(search: LayoutSearch, { kind, node }: AttentionOperand): Operand {
  const { index, tables, getRows } = search;
  const { tensor, offset } = node[kind];
  if (!index.producers.has(tensor)) return { rows: node[kind], scale: 1 };
  let name = tensor;
  let isHeadMajor = false;
  let scale = 1;
  let factors: StoredTensor | undefined;
  let rotation: FoundRotation | undefined;
  let norm: OperandNorm | undefined;
  for (
    let producer = index.producers.get(name);
    producer;
    producer = index.producers.get(name)
  ) {
    if (isReshape(producer) && !isHeadMajor) {
      name = producer.inputs[0]!;
      continue;
    }
    const isSwap = producer.opType === "Transpose" &&
      readIntsAttribute(producer, "perm")?.join() === SWAPPED_HEADS.join();
    if (isSwap) {
      isHeadMajor = !isHeadMajor;
      name = producer.inputs[0]!;
      continue;
    }
    if (kind === "v" || offset !== 0) break;
    // Only a scale of queries becomes a factor of the attention's scale.
    const isScaled = kind === "q" && norm === undefined &&
      (producer.opType === "Mul" || producer.opType === "Div");
    const scaled = isScaled ? readScale(index, producer) : undefined;
    if (scaled !== undefined) {
      scale *= scaled.scale;
      name = scaled.input;
      continue;
    }
    const byPosition = isScaled && factors === undefined
      ? findFactors(tables, producer)
      : undefined;
    if (byPosition !== undefined) {
      factors = byPosition.found;
      name = byPosition.other;
      continue;
    }
    const mayRotate = rotation === undefined && node.rotary === undefined && !norm?.ofRows;
    const found = mayRotate ? findRotation(index, name, node.headDim) : undefined;
    if (found !== undefined) {
      rotation = found;
      if (norm !== undefined) norm = { ...norm, isAfterRotation: true };
      name = found.input;
      continue;
    }
    // If the kernel applied this norm as well, the factors would be applied before it.
    if (norm !== undefined || factors !== undefined) break;
    norm = findHeadNorm(index, name, node.headDim) ??
      (isHeadMajor ? undefined : findRowNorm(index, name, { kind, node }));
    if (norm === undefined) break;
    name = norm.inputs[0]!;
  }
  const last = index.producers.get(name);
  if (last?.opType === "Split" || last?.opType === "Slice") {
    if (isHeadMajor) throw new Refusal(`Its ${describeNode(last)} takes a part of each head.`);
  }
  if (isHeadMajor) throw new Refusal(`Its "${name}" has heads before tokens.`);
  const rows = getRows(name);
  const { tensor: buffer, stride, offset: from } = factors === undefined
    ? rows
    : scaleByPosition(search, { name: tensor, rows, factors });
  return {
    rows: { tensor: buffer, tokenStride: stride, offset: from + offset },
    ...{ norm, rotation, scale },
  };
}

/**
 * Matches queries times one factor for each token, which depends on its position (Llama 4, Ministral 3). Such factors
 * may be applied before the rotation as well as after it.
 */
export function findFactors(
  tables: PositionTables,
  node: Node,
): { readonly found: StoredTensor; readonly other: string } | undefined {
  if (node.opType !== "Mul" || tables.hasSections) return undefined;
  return eitherInput(node, (name) => tables.getTable(name, 1));
}

/** Adds the dispatches that look up the factor of each token, and multiply the token's row by it. */
function scaleByPosition(
  { program, tables }: LayoutSearch,
  { name, rows, factors }: {
    readonly name: string;
    readonly rows: Rows;
    readonly factors: StoredTensor;
  },
): Rows {
  const taken = program.takeRows(`${name}/factors`, {
    ...{ table: { ...factors, rest: [] }, numbers: tables.positions!, width: 1, elem: "f32" },
  });
  const multiply = rows.elem === "f32"
    ? taken
    : program.pointwise(`${name}/factors_f16`, { a: taken, elem: rows.elem });
  return program.pointwise(`${name}/scaled`, { a: rows, multiply });
}

/** Finds a norm of single heads, if the size of a head divides that of the kernel's workgroup. */
function findHeadNorm(index: GraphIndex, name: string, headDim: number): OperandNorm | undefined {
  const norm = findNorm(index, name);
  const isTaken = norm !== undefined && norm.params.kind === "rms" && norm.inputs.length === 1 &&
    norm.gamma.shape[0] === headDim && 256 % headDim === 0;
  return isTaken ? { ...norm, ofRows: false, isAfterRotation: false } : undefined;
}

/** Finds a norm of all heads of a token, if the kernel has room for its factors. */
function findRowNorm(
  index: GraphIndex,
  name: string,
  { kind, node }: AttentionOperand,
): OperandNorm | undefined {
  const norm = findNorm(index, name);
  const { heads, kvHeads, headDim } = node;
  const width = (kind === "q" ? heads : kvHeads) * headDim;
  const isRow = norm?.params.kind === "rms" && norm.inputs.length === 1 &&
    norm.gamma.shape[0] === width;
  return isRow && hasRoomForRowNorms({ heads, kvHeads, headSize: headDim })
    ? { ...norm, ofRows: true, isAfterRotation: false }
    : undefined;
}

function findRotary(
  tables: PositionTables,
  [q, k]: readonly [Operand, Operand],
  { headDim }: AttentionNode,
): Rotary | undefined {
  const rotation = q.rotation ?? k.rotation;
  if (rotation === undefined) return undefined;
  const { size, isInterleaved } = rotation;
  checkRotary(rotation, headDim);
  const [ofQ, ofK] = [q, k].map(({ rotation: own }) =>
    (["cos", "sin"] as const).map((each) =>
      getAngleTable(tables, own?.[each] ?? "", { size, isInterleaved })
    )
  ) as [[Rotary["cos"], Rotary["sin"]], [Rotary["cos"], Rotary["sin"]]];
  const isAlike = [q, k].every(({ rotation: own }) =>
    own?.size === size && own.isInterleaved === isInterleaved
  );
  if (!isAlike || ofQ[0].name !== ofK[0].name || ofQ[1].name !== ofK[1].name) {
    throw new Refusal("It rotates queries and keys differently.");
  }
  const sections = findSections(tables, rotation);
  return { cos: ofQ[0], sin: ofQ[1], dim: size, interleaved: isInterleaved, sections };
}

/**
 * The index of the position that rotates each pair of elements; `undefined` if tokens have one position.
 *
 * @throws {Refusal} when the angle of a pair depends on several positions.
 */
function findSections(
  tables: PositionTables,
  { cos, sin, size, isInterleaved }: FoundRotation,
): readonly number[] | undefined {
  if (!tables.hasSections) return undefined;
  const sections = tables.getSections([cos, sin], size / 2, { isInterleaved });
  if (sections !== undefined) return sections;
  throw new Refusal(`Its angles "${cos}" depend on several positions of each token.`);
}

/** The table of a rotation's cosines or sines. @throws {Refusal} when they depend on more than positions. */
function getAngleTable(
  tables: PositionTables,
  name: string,
  { size, isInterleaved }: Pick<FoundRotation, "size" | "isInterleaved">,
): StoredTensor {
  const table = tables.getTable(name, size / 2, { isInterleaved });
  if (table === undefined) {
    throw new Refusal(`Its angles "${name}" do not depend on positions only.`);
  }
  return table;
}

/** Adds one dispatch, which computes the tensor `name` from rows. */
type Step = (name: string, x: Rows) => Rows;

/**
 * Computes an operand that the graph transposes to heads before tokens, and back again. Both transpositions are left
 * out, because everything between them treats every head of a token alike.
 *
 * @throws {Refusal} when something else is between them.
 */
export function computeOperand(search: LayoutSearch, operand: AttentionOperand): Rows {
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
      getAngleTable(tables, name, rotation)
    ) as [StoredTensor, StoredTensor];
    const sections = findSections(tables, rotation);
    const shape = { heads, headSize, size, isInterleaved, sections };
    steps.push((name, x) => program.rotate(name, { x, cos, sin, positions, ...shape }));
    if (norm?.isAfterRotation) steps.reverse();
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
