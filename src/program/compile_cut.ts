/**
 * Compiles the segments of a cut decoder, each by itself.
 *
 * @module
 */
import type { AttentionNode, GraphCut, Segment } from "../graph/graph_cut.ts";
import { compileSegment } from "./compile_segment.ts";
import type { AttentionOperand } from "./attention_operand.ts";
import { splitRowsForHeads } from "../graph/rewrite/head_parts.ts";
import { slicesToSplits } from "../graph/rewrite/slices_to_splits.ts";
import { type MergeOptions, mergeProducts } from "./merge_products.ts";
import { PositionTables } from "./position_tables.ts";
import { listTensors, type Lowering, type Program } from "./program.ts";

/** A segment's dispatches in each lowering, or why it has none. */
export type CompiledSegment = Readonly<Record<Lowering, Program>> | { readonly refused: string };

/** How to compile. */
interface CompileCutOptions {
  /** Whether an attention takes operands as the dispatches leave them: packed, their heads not normalised yet. */
  readonly takesLayout: (node: AttentionNode) => boolean;
  /** Tokens of the longest sequence. */
  readonly contextLength: number;
  /** Whether a product of few rows may compute the sum that it is of, a residual's and a norm's, and write it. */
  readonly writesSums: boolean;
  /** Whether there is a kernel that rotates heads, for attentions that take them rotated. */
  readonly rotates?: boolean;
}

/**
 * The cut with products joined that read the same rows, and with splits of rows for slices of products and for splits of
 * heads; see {@linkcode mergeProducts}, {@linkcode slicesToSplits} and {@linkcode splitRowsForHeads}.
 */
export function mergeCutProducts(cut: GraphCut, options: MergeOptions): GraphCut {
  const segments = cut.segments.map((segment) => ({
    ...segment,
    model: mergeProducts(slicesToSplits(splitRowsForHeads(segment.model)), options),
  }));
  return { ...cut, segments };
}

/** Compiles each segment of a cut, in their order. */
export function compileCut(
  cut:
    & Pick<GraphCut, "segments" | "attentions" | "output" | "tokens" | "positions">
    & Partial<Pick<GraphCut, "states" | "experts">>,
  { takesLayout, contextLength, writesSums, rotates = false }: CompileCutOptions,
): CompiledSegment[] {
  const indices = [cut.tokens, cut.positions];
  const tables = new PositionTables(cut, contextLength);
  const first = compileAll();
  // What is computed from positions alone is a table to attentions, but to products rows as any others.
  const rows = new Set(first.flatMap(readBy).filter((name) => tables.has(name)));
  const isTable = (name: string) => tables.has(name) && !rows.has(name);
  const compiled = rows.size === 0 ? first : compileAll(rows);
  return compiled.map((segment, index) => {
    if ("refused" in segment) return segment;
    const { outputs } = cut.segments[index]!;
    const missed = outputs.find(({ name }) => isTable(name) && isReadUncompiled(name));
    return missed === undefined
      ? segment
      : { refused: `It does not compute "${missed.name}", which a later segment needs.` };
  });

  /** @param rows computed from positions alone, and kept nevertheless. */
  function compileAll(rows: ReadonlySet<string> = new Set()): CompiledSegment[] {
    return cut.segments.map((own) => compileOne(own, rows));
  }

  function compileOne(own: Segment, rows: ReadonlySet<string>): CompiledSegment {
    const inputs = own.inputs.map((port) =>
      indices.find((index) => index?.name === port.name) ?? port
    );
    const segment = { ...own, inputs };
    const nodes = cut.attentions.filter((node) =>
      node.afterSegment === segment.index && takesLayout(node)
    );
    const others = cut.attentions.filter((node) => !nodes.includes(node));
    const kept = new Set([
      cut.output.name,
      ...cut.segments.flatMap(({ inputs }) => inputs.map(({ name }) => name)),
      ...others.flatMap(({ q, k, v }) => [q.tensor, k.tensor, v.tensor]),
      ...[...cut.states ?? [], ...cut.experts ?? []].flatMap(({ operands }) =>
        operands.map(({ tensor }) => tensor)
      ),
    ].filter((name) => !tables.has(name) || rows.has(name)));
    // The last segment is for wanted rows alone.
    const hasTiles = own.index < cut.segments.length - 1;
    const operands = rotates ? listOperands(others) : undefined;
    const options = { nodes, kept, tables, writesSums, operands };
    const few = compileSegment(segment, { ...options, allRows: true, hasTiles: false });
    const many = compileSegment(segment, { ...options, allRows: false, hasTiles });
    if ("refused" in few) return few;
    if ("refused" in many) return many;
    return { few: few.program, many: many.program };
  }

  function isReadUncompiled(name: string): boolean {
    return compiled.some((each, index) =>
      "refused" in each && cut.segments[index]!.inputs.some((input) => input.name === name)
    );
  }
}

/** The segments, of which those are refused that a device has no kernels for. */
export function refuseSegments(
  segments: readonly CompiledSegment[],
  getRefusal: (program: Program) => string | undefined,
): CompiledSegment[] {
  return segments.map((segment) => {
    if ("refused" in segment) return segment;
    const refused = getRefusal(segment.few) ?? getRefusal(segment.many);
    return refused === undefined ? segment : { refused };
  });
}

/** Operands by name. */
function listOperands(nodes: readonly AttentionNode[]): Map<string, AttentionOperand> {
  return new Map(
    nodes.flatMap((node) =>
      (["q", "k", "v"] as const).map((kind) => [node[kind].tensor, { kind, node }] as const)
    ),
  );
}

/** Tensors that the dispatches of a segment read, except positions. */
function readBy(segment: CompiledSegment): string[] {
  if ("refused" in segment) return [];
  return [segment.few, segment.many].flatMap(({ dispatches }) =>
    dispatches.flatMap((dispatch) =>
      listTensors(dispatch).flatMap(([role, name]) =>
        role === "out" || role === "positions" ? [] : name
      )
    )
  );
}
