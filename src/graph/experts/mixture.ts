/**
 * A mixture of experts as the cut sees it, whichever nodes express it.
 *
 * @module
 */
import type {
  ExpertActivation,
  ExpertMatrix,
  ExpertsParams,
  RouterParams,
} from "../../../kernels/experts/experts_params.ts";
import type { StoredTensor } from "../file/stored_tensor.ts";
import type { GraphIndex } from "../graph_index.ts";
import type { Probes } from "../probes.ts";

/** The matrices of one of the two products of all experts, one after the other. */
export interface ExpertWeights {
  readonly matrix: ExpertMatrix;
  /** `[experts, outputs, k]`, or in blocks u8 `[experts, outputs, k * bits / 8]`. */
  readonly weights: StoredTensor;
  /** `[experts, outputs, k / blockSize]`. */
  readonly scales?: StoredTensor | undefined;
  readonly zeroPoints?: StoredTensor | undefined;
  /** `[experts, outputs]`. */
  readonly bias?: StoredTensor | undefined;
}

/** How experts are chosen and weighed, and the bias that is added for the choice. */
export type Router = Omit<RouterParams, "hasBias"> & { readonly bias?: StoredTensor | undefined };

/** Experts, their router, and their weights. */
export interface Mixture {
  readonly experts: number;
  readonly topK: number;
  readonly hidden: number;
  readonly inner: number;
  readonly router: Router;
  readonly activation: ExpertActivation;
  readonly first: ExpertWeights;
  readonly second: ExpertWeights;
}

/** A mixture of experts of a graph. */
export interface FoundMixture {
  /** Name of the graph's node, for messages. */
  readonly name: string;
  readonly mixture: Mixture;
  /** The tensor whose rows the experts compute with. */
  readonly x: string;
  /** The router's logits, `[rows, experts]`. */
  readonly logits: string;
  readonly output: string;
}

/** The input of a finder. */
export interface MixtureSearch {
  readonly index: GraphIndex;
  readonly probes: Probes;
}

/** A mixture's parameters as the kernels take them. */
export function expertsParams(
  { experts, topK, hidden, inner, router, activation, first, second }: Mixture,
  { elem, x, logits }: Pick<ExpertsParams, "elem" | "x" | "logits">,
): ExpertsParams {
  const { bias, ...chosen } = router;
  const findProduct = ({ matrix, bias }: ExpertWeights) => ({
    matrix,
    hasBias: bias !== undefined,
  });
  return {
    ...{ elem, experts, topK, hidden, inner, x, logits, activation },
    router: { ...chosen, hasBias: bias !== undefined },
    first: findProduct(first),
    second: findProduct(second),
  };
}

/** All constants of a mixture except its router's. */
export function findWeights({ first, second }: Mixture): StoredTensor[] {
  return [first, second].flatMap(({ weights, scales, zeroPoints, bias }) =>
    [weights, scales, zeroPoints, bias].filter((tensor) => tensor !== undefined)
  );
}
