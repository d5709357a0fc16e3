/**
 * A mixture of experts, whichever nodes of the graph express it, and functions that join the constants of its experts.
 *
 * @module
 */
import type {
  ExpertActivation,
  ExpertMatrix,
  ExpertsParams,
  RouterParams,
} from "../../../kernels/experts/experts_params.ts";
import { countStoredBytes, type StoredTensor } from "../file/tensor.ts";
import type { GraphIndex } from "../graph_index.ts";
import type { Probes } from "../probes.ts";
import { Refusal } from "../refusal.ts";

/** The matrices of all experts for one of the two products. */
export interface ExpertWeights {
  readonly matrix: ExpertMatrix;
  /** `[experts, outputs, k]`; if quantised, u8 `[experts, outputs, k * bits / 8]`. */
  readonly weights: StoredTensor;
  /** `[experts, outputs, k / blockSize]`. */
  readonly scales?: StoredTensor | undefined;
  readonly zeroPoints?: StoredTensor | undefined;
  /** `[experts, outputs]`. */
  readonly bias?: StoredTensor | undefined;
}

/** The parameters by which experts are chosen and weighted. The bias is added to the scores for the choice only. */
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

/** A mixture of experts that was found in a graph. */
export interface FoundMixture {
  /** Name of the graph's node, for messages. */
  readonly name: string;
  readonly mixture: Mixture;
  /** The tensor whose rows are the input of the experts. */
  readonly x: string;
  /** The router's logits, `[rows, experts]`. */
  readonly logits: string;
  readonly output: string;
}

/** A graph to search for mixtures of experts. */
export interface MixtureSearch {
  readonly index: GraphIndex;
  readonly probes: Probes;
}

/** The parameters of a mixture that the kernels take. */
export function toExpertsParams(
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

/**
 * Transposes `[experts, k, outputs]` to `[experts, outputs, k]`. This is done when the constant is read, one expert at
 * a time.
 */
export function transposeExperts(tensor: StoredTensor): StoredTensor {
  const { name, shape } = tensor;
  const [experts, k, outputs] = shape as [number, number, number];
  const transposed = Array.from(
    { length: experts },
    (_, e) => transposeMatrix(takeExpert(tensor, e)),
  );
  return { ...stackExperts(transposed, [outputs, k]), name: `${name}, transposed` };
}

/** The part of a constant `[experts, …shape]` that belongs to one expert: `[…shape]`. */
export function takeExpert(tensor: StoredTensor, expert: number): StoredTensor {
  const { name, dtype, shape: [experts, ...shape] } = tensor;
  const length = countStoredBytes(tensor) / experts!;
  const parts = [{ source: tensor, from: expert * length, length }];
  return {
    ...{ name: `${name} of expert ${expert}`, dtype, shape },
    data: { kind: "rows", numRows: 1, parts, length },
  };
}

/** Transposes a matrix of f32 or f16 from `[k, outputs]` to `[outputs, k]`, when it is read. */
export function transposeMatrix(matrix: StoredTensor): StoredTensor {
  const { name, dtype, shape } = matrix;
  const [k, outputs] = shape as [number, number];
  const length = countStoredBytes(matrix);
  const Elements = length === k * outputs * 4 ? Uint32Array : Uint16Array;
  return {
    ...{ name, dtype, shape: [outputs, k] },
    data: {
      kind: "computed",
      sources: [matrix],
      length,
      compute: ([bytes], into) => {
        // Both ranges may begin at an address that is not a multiple of the element size.
        const from = new Elements(bytes!.slice().buffer);
        const transposed = new Elements(from.length);
        for (let i = 0; i < k; i++) {
          for (let n = 0, at = i; n < outputs; n++, at += k) {
            transposed[at] = from[i * outputs + n]!;
          }
        }
        into.set(new Uint8Array(transposed.buffer));
      },
    },
  };
}

/**
 * Stacks constants of single experts to `[experts, …shape]`.
 *
 * @throws {Refusal} when their layouts differ.
 */
export function stackExperts(
  tensors: readonly StoredTensor[],
  shape: readonly number[],
): StoredTensor {
  const [first] = tensors as [StoredTensor];
  const other = tensors.find(({ dtype, shape }) =>
    dtype !== first.dtype || shape.join() !== first.shape.join()
  );
  if (other !== undefined) {
    throw new Refusal(`The experts' constants "${first.name}" and "${other.name}" differ.`);
  }
  const lengths = tensors.map(countStoredBytes);
  return {
    name: `${first.name} and those of ${tensors.length - 1} more experts`,
    dtype: first.dtype,
    shape: [tensors.length, ...shape],
    data: {
      kind: "rows",
      numRows: 1,
      parts: tensors.map((source, i) => ({ source, from: 0, length: lengths[i]! })),
      length: lengths.reduce((sum, length) => sum + length, 0),
    },
  };
}

/**
 * Joins two matrices of each expert: first the rows of `gate`, then those of `up`.
 *
 * @throws {Refusal} when their layouts differ.
 */
export function joinHalves<T extends ExpertWeights>(gate: T, up: T): T {
  const join = (key: "weights" | "scales" | "zeroPoints" | "bias") => {
    const [one, two] = [gate[key], up[key]];
    if (one === undefined && two === undefined) return undefined;
    if (one?.dtype !== two?.dtype || one?.shape.join() !== two?.shape.join()) {
      throw new Refusal(`The experts' constants "${one?.name}" and "${two?.name}" differ.`);
    }
    return joinExperts([one!, two!]);
  };
  return {
    ...gate,
    weights: join("weights")!,
    scales: join("scales"),
    zeroPoints: join("zeroPoints"),
    bias: join("bias"),
  };
}

/** Joins constants `[experts, …]` along their second axis, when they are read. */
function joinExperts(tensors: readonly StoredTensor[]): StoredTensor {
  const [{ dtype, shape }] = tensors as [StoredTensor];
  const [numRows] = shape as [number];
  const lengths = tensors.map(countStoredBytes);
  return {
    name: tensors.map(({ name }) => name).join(", "),
    dtype,
    shape: [numRows, tensors.reduce((sum, each) => sum + each.shape[1]!, 0), ...shape.slice(2)],
    data: {
      kind: "rows",
      numRows,
      parts: tensors.map((source, i) => ({ source, from: 0, length: lengths[i]! / numRows })),
      length: lengths.reduce((sum, length) => sum + length, 0),
    },
  };
}
