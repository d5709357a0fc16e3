/**
 * Lists the instructions of a cut's steps.
 *
 * @module
 */
import type { GraphCut } from "../graph/graph_cut.ts";
import type { CompiledSegment } from "./compile_cut.ts";
import type { Instruction, Lowering, Program, StepPrograms } from "./program.ts";

/** The parts of a decoder's or an encoder's cut that instructions are made from. */
interface LoweredCut {
  readonly segments: readonly Pick<GraphCut["segments"][number], "index">[];
  readonly attentions: readonly Pick<GraphCut["attentions"][number], "afterSegment">[];
  readonly states?: readonly Pick<GraphCut["states"][number], "afterSegment">[];
  readonly experts?: readonly Pick<GraphCut["experts"][number], "afterSegment">[];
}

/** What runs in kernels; ONNX Runtime runs the rest. */
interface KernelChoice {
  /** Compiled segments in the order of the cut. */
  readonly segments: readonly CompiledSegment[];
  /** Lowerings that run in kernels wherever a segment is compiled. */
  readonly kernels: readonly Lowering[];
  /** Indices of segments that run in kernels in every lowering; none if absent. */
  readonly always?: ReadonlySet<number>;
}

const NO_KERNELS: KernelChoice = { segments: [], kernels: [] };

/** Lists each segment, followed by the attention nodes, recurrence nodes and experts that read its outputs. */
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

/** The segments that need a session. */
export function segmentsOfOrt({ few, many }: StepPrograms): ReadonlySet<number> {
  return new Set([...few, ...many].flatMap((each) => each.kind === "ort" ? each.segment : []));
}

/** The programs of both lowerings. */
export function listPrograms({ few, many }: StepPrograms): Program[] {
  return [...few, ...many].flatMap((each) => each.kind === "kernels" ? each.program : []);
}

function findIndices<T>(items: readonly T[], isWanted: (item: T) => boolean): number[] {
  return items.flatMap((item, index) => isWanted(item) ? index : []);
}
