/**
 * How the dispatches of a segment leave the operands of the attention after it.
 *
 * @module
 */
import type { AttentionSite, HeadRows } from "../graph_cut.ts";
import type { GraphIndex } from "../graph_index.ts";
import { Refusal } from "../refusal.ts";
import { findNorm, type FoundNorm } from "./product_plan.ts";
import type { SiteForm } from "./program.ts";
import type { Rows } from "./program_builder.ts";
import { originalOf } from "./reshapes.ts";

/**
 * Finds where an attention's operands are.
 *
 * @param rowsOf where a tensor's rows are; computes them if that has not been done.
 * @throws {Refusal} when its queries and keys are normalised differently.
 */
export function formOfSite(
  index: GraphIndex,
  site: AttentionSite,
  rowsOf: (name: string) => Rows,
): SiteForm {
  const operands = [site.q, site.k, site.v].map((rows) => operandOf(index, { rows, site, rowsOf }));
  const [q, k, v] = operands.map(({ rows }) => rows) as [HeadRows, HeadRows, HeadRows];
  const [ofQ, ofK] = operands.map(({ norm }) => norm);
  const epsilons = new Set([ofQ, ofK].flatMap((norm) => norm?.params.epsilon ?? []));
  if (epsilons.size > 1) throw new Refusal("The norms of its queries and keys differ.");
  const [epsilon] = epsilons;
  const norms = epsilon === undefined ? undefined : { epsilon, q: ofQ?.gamma, k: ofK?.gamma };
  return { layer: site.layer, q, k, v, norms };
}

/** Where an operand is, before the norm of its heads if it has one. */
function operandOf(
  index: GraphIndex,
  { rows: own, site: { v, headDim }, rowsOf }: {
    readonly rows: HeadRows;
    readonly site: AttentionSite;
    readonly rowsOf: (name: string) => Rows;
  },
): { readonly rows: HeadRows; readonly norm?: FoundNorm } {
  const { tensor, offset } = own;
  if (!index.producers.has(tensor)) return { rows: own };
  const headRowsOf = (name: string): HeadRows => {
    const { tensor, stride, offset: from } = rowsOf(name);
    return { tensor, tokenStride: stride, offset: from + offset };
  };
  const norm = tensor === v.tensor || offset !== 0
    ? undefined
    : findNorm(index, originalOf(index, tensor));
  // A norm of whole heads, as far as the heads fit a workgroup of the kernel.
  const isTaken = norm !== undefined && norm.params.kind === "rms" &&
    norm.inputs.length === 1 && norm.gamma.shape[0] === headDim && 256 % headDim === 0;
  if (!isTaken) return { rows: headRowsOf(tensor) };
  return { rows: headRowsOf(norm.inputs[0]!), norm };
}
