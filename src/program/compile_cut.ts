/**
 * Compiles the segments of a cut decoder, and lists the instructions of its steps.
 *
 * @module
 */
import type { AttentionNode, GraphCut, Segment } from "../graph/graph_cut.ts";
import { compileSegment } from "./compile_segment.ts";
import type { AttentionOperand } from "./attention_operand.ts";
import { PositionTables } from "./position_tables.ts";
import {
  type Instruction,
  listTensors,
  type Lowering,
  type Program,
  type StepPrograms,
} from "./program.ts";

/** A segment's programs for both lowerings, or one sentence that says why it was not compiled. */
export type CompiledSegment = Readonly<Record<Lowering, Program>> | { readonly refused: string };

/** Options for compiling. */
interface CompileCutOptions {
  /**
   * Whether an attention node reads its operands as the dispatches leave them: packed, with heads not normalised yet.
   */
  readonly takesLayout: (node: AttentionNode) => boolean;
  /** Length of the longest sequence. */
  readonly contextLength: number;
  /**
   * Whether a product of few rows may also compute and write its input, if that is the sum of a residual and a norm.
   */
  readonly writesSums: boolean;
  /** Whether there is a kernel that rotates heads, for attention nodes that read rotated ones. */
  readonly rotates?: boolean;
  /** Says why a device has no kernels for a program; if absent, it has kernels for all programs. */
  readonly findRefusal?: ((program: Program) => string | undefined) | undefined;
}

/** Compiles each segment of a cut, in order. */
export function compileCut(
  cut:
    & Pick<GraphCut, "segments" | "attentions" | "output" | "tokens" | "positions">
    & Partial<Pick<GraphCut, "states" | "experts">>,
  { takesLayout, contextLength, writesSums, rotates = false, findRefusal }: CompileCutOptions,
): CompiledSegment[] {
  const indices = [cut.tokens, cut.positions];
  const tables = new PositionTables(cut, contextLength);
  // Tensors that depend on positions only are tables for attention nodes, but ordinary rows for products and for
  // segments that are not compiled.
  const rows = new Set<string>();
  let compiled = compileAll(rows);
  for (let numRows = -1; numRows < rows.size;) {
    numRows = rows.size;
    compiled.flatMap(listRead).forEach((name) => tables.has(name) && rows.add(name));
    if (rows.size > numRows) compiled = compileAll(rows);
  }
  const isTable = (name: string) => tables.has(name) && !rows.has(name);
  return compiled.map((segment, index) => {
    if ("refused" in segment) return segment;
    const { outputs } = cut.segments[index]!;
    const missed = outputs.find(({ name }) => isTable(name) && isReadUncompiled(name));
    return missed === undefined
      ? segment
      : { refused: `It does not compute "${missed.name}", which a later segment needs.` };
  });

  /** @param rows tensors that dispatches compute even though they depend on positions only. */
  function compileAll(rows: ReadonlySet<string>): CompiledSegment[] {
    return cut.segments.map((own) => {
      const segment = compileOne(own, rows);
      if ("refused" in segment || findRefusal === undefined) return segment;
      const refused = findRefusal(segment.few) ?? findRefusal(segment.many);
      return refused === undefined ? segment : { refused };
    });
  }

  /** Lists the tensors that a segment reads, except positions. */
  function listRead(segment: CompiledSegment, index: number): string[] {
    return "refused" in segment
      ? cut.segments[index]!.inputs.map(({ name }) => name).filter((name) =>
        name !== tables.positions
      )
      : readBy(segment).filter((name) => name !== tables.positions);
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
    // The last segment only computes wanted rows.
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

/** Lists the operands of attention nodes by name. */
function listOperands(nodes: readonly AttentionNode[]): Map<string, AttentionOperand> {
  return new Map(
    nodes.flatMap((node) =>
      (["q", "k", "v"] as const).map((kind) => [node[kind].tensor, { kind, node }] as const)
    ),
  );
}

/** Lists the tensors that the dispatches of a segment read. */
function readBy(segment: CompiledSegment): string[] {
  if ("refused" in segment) return [];
  return [segment.few, segment.many].flatMap(({ dispatches }) =>
    dispatches.flatMap((dispatch) =>
      listTensors(dispatch).flatMap(([role, name]) => role === "out" ? [] : name)
    )
  );
}

/** The parts of a decoder's or an encoder's cut that determine its instructions. */
interface LoweredCut {
  readonly segments: readonly Pick<GraphCut["segments"][number], "index">[];
  readonly attentions: readonly Pick<GraphCut["attentions"][number], "afterSegment">[];
  readonly states?: readonly Pick<GraphCut["states"][number], "afterSegment">[];
  readonly experts?: readonly Pick<GraphCut["experts"][number], "afterSegment">[];
}

/** The segments that run in kernels. ONNX Runtime runs the others. */
interface KernelChoice {
  /** Compiled segments in the order of the cut. */
  readonly segments: readonly CompiledSegment[];
  /** Lowerings that run in kernels wherever a segment is compiled. */
  readonly kernels: readonly Lowering[];
  /** Indices of segments that run in kernels in every lowering; none if absent. */
  readonly always?: ReadonlySet<number>;
}

const NO_KERNELS: KernelChoice = { segments: [], kernels: [] };

/**
 * Lists the instructions of a step for both lowerings: each segment, followed by the attention, recurrence and experts
 * nodes that read its outputs.
 */
export function lowerCut(
  cut: LoweredCut,
  { segments, kernels, always }: KernelChoice = NO_KERNELS,
): StepPrograms {
  const compileProgram = (index: number, lowering: Lowering): Program | undefined => {
    const isOurs = kernels.includes(lowering) || always?.has(index);
    const compiled = isOurs ? segments[index] : undefined;
    return compiled === undefined || "refused" in compiled ? undefined : compiled[lowering];
  };
  const lower = (lowering: Lowering): Instruction[] =>
    cut.segments.flatMap(({ index: segment }) => {
      const program = compileProgram(segment, lowering);
      const isNext = ({ afterSegment }: { readonly afterSegment: number }) =>
        afterSegment === segment;
      return [
        program ? { kind: "kernels", segment, program } : { kind: "ort", segment },
        ...findIndices(cut.attentions, isNext).map((node) => ({
          ...{ kind: "attention", node } as const,
          layout: program?.layouts.find(({ layer }) => layer === node),
        })),
        ...findIndices(cut.states ?? [], isNext).map((state) =>
          ({ kind: "state_update", state }) as const
        ),
        ...findIndices(cut.experts ?? [], isNext).map((node) =>
          ({ kind: "experts", node }) as const
        ),
      ];
    });
  return { few: lower("few"), many: lower("many") };
}

/** Lists the segments that need a session. */
export function listOrtSegments({ few, many }: StepPrograms): ReadonlySet<number> {
  return new Set([...few, ...many].flatMap((each) => each.kind === "ort" ? each.segment : []));
}

/** Lists the kernel programs of both lowerings. */
export function listPrograms({ few, many }: StepPrograms): Program[] {
  return [...few, ...many].flatMap((each) => each.kind === "kernels" ? each.program : []);
}

function findIndices<T>(items: readonly T[], isWanted: (item: T) => boolean): number[] {
  return items.flatMap((item, index) => isWanted(item) ? index : []);
}
