/**
 * Sums of the residual stream and normalised rows, in models that normalise after attention and MLP.
 *
 * @module
 */
import type { GraphIndex } from "../graph/graph_index.ts";
import type { Node } from "../graph/file/proto.ts";
import { findNorm, type FoundNorm, skipBias } from "./norms.ts";
import type { ProductPlan } from "./product_plan.ts";
import { findOriginal } from "./reshapes.ts";

/** `residual + norm`, where the norm is a root mean square, and the name of the sum. */
interface FoundSum {
  readonly name: string;
  readonly norm: FoundNorm;
  readonly residual: string;
}

/**
 * Most outputs of such a product. Each group of outputs computes the sum again, which for a vocabulary costs more than
 * a dispatch.
 */
const MOST_OUTPUTS = 2 ** 15;

/** The name of the sum that a norm of two tensors normalises. */
export function nameOfSum(node: Node): string {
  return node.outputs[3] || `${node.outputs[0]}/sum`;
}

/**
 * Finds the sum that a product, or the norm before it, reads, if the product can compute it.
 *
 * @param product.isFree whether a tensor is only read by one node and has not been computed yet.
 */
export function findSum(
  index: GraphIndex,
  { plan, norm, isFree }: {
    readonly plan: ProductPlan;
    readonly norm: FoundNorm | undefined;
    readonly isFree: (name: string, reader: Node) => boolean;
  },
): FoundSum | undefined {
  const { matrix: { k, outputs }, residual: added } = plan;
  if (added !== undefined || outputs > MOST_OUTPUTS) return undefined;
  const isSkip = norm?.inputs.length === 2;
  const input = findOriginal(index, norm?.inputs[0] ?? plan.input);
  const node = isSkip ? norm.node : index.producers.get(input);
  if (node === undefined || (!isSkip && node.opType !== "Add")) return undefined;
  if (skipBias(index, node) !== undefined) return undefined;
  const [left, right] = node.inputs as [string, string];
  for (const [normed, residual] of [[left, right], [right, left]] as const) {
    const own = isFree(normed, node) ? findNorm(index, normed) : undefined;
    const isTaken = own?.params.kind === "rms" && own.inputs.length === 1 &&
      own.gamma.shape[0] === k;
    if (!isTaken || index.constants.has(residual)) continue;
    return { name: isSkip ? nameOfSum(node) : input, norm: own, residual };
  }
  return undefined;
}
