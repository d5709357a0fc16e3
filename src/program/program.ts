/**
 * A decoder's step as a list of instructions: segments, which run in kernels or in ONNX Runtime, and attention,
 * recurrence and experts nodes between them.
 *
 * @module
 */
import type { MatvecParams, NormParams } from "../../kernels/matmul/matvec_params.ts";
import type {
  NormKernelParams,
  PointwiseParams,
  RotateParams,
  TakeRowsParams,
} from "../../kernels/rows/row_kernels.ts";
import type { HeadRows, Rotary } from "../graph/graph_cut.ts";
import type { Tensor } from "../graph/file/proto.ts";

/**
 * The two lowerings of a program. `few` is for decoding, with one token per sequence: logits of all tokens are wanted,
 * and reading the weights takes most of the time. `many` is for prompts: the last segment computes only a few of their
 * rows.
 */
export type Lowering = "few" | "many";

export const LOWERINGS = ["few", "many"] as const satisfies readonly Lowering[];

/** A kernel, the parameters that specialise it, and the names of the tensors that it reads and writes. */
type DispatchOf<Kind extends string, Params, Names extends string, Optional extends string> = {
  readonly kind: Kind;
  readonly params: Params;
  readonly tensors:
    & Readonly<Record<Names, string>>
    & Readonly<Partial<Record<Optional, string | undefined>>>;
};

/** A product with a matrix. `hasTiles` tells whether the product computes many rows. */
type Product =
  & DispatchOf<
    "matvec",
    MatvecParams,
    "x" | "weights" | "out",
    "scales" | "zeroPoints" | "affine" | "bias" | "residual" | "sum"
  >
  & { readonly hasTiles: boolean };

/** A dispatch of a kernel. */
export type Dispatch =
  | Product
  | DispatchOf<
    "norm",
    NormKernelParams,
    "x" | "affine" | "out",
    "residual"
  >
  | DispatchOf<"pointwise", PointwiseParams, "a" | "out", "b">
  | DispatchOf<"take_rows", TakeRowsParams, "table" | "numbers" | "out", never>
  /** Only on the CPU, where attention reads rotated heads. */
  | DispatchOf<"rotate", RotateParams, "x" | "cos" | "sin" | "positions" | "out", never>;

/** Lists the tensors that a dispatch reads and writes. */
export function listTensors({ tensors }: Dispatch): [role: string, name: string][] {
  return Object.entries(tensors).filter((entry): entry is [string, string] =>
    entry[1] !== undefined
  );
}

/** The layout in which the dispatches of a segment leave the operands of the attention node after it. */
export interface OperandLayout {
  readonly layer: number;
  readonly q: HeadRows;
  readonly k: HeadRows;
  readonly v: HeadRows;
  /** Norms of heads that the attention kernel must apply. */
  readonly norms?: HeadNorms | undefined;
  /** The rotation that the attention kernel must apply, if the graph spells it out. */
  readonly rotary?: Rotary | undefined;
  /** A factor by which the attention node's scale is multiplied. */
  readonly scale: number;
}

/** Root-mean-square norms of queries and keys, with their factors. */
interface HeadNorms {
  readonly epsilon: NormParams["epsilon"];
  /** Whether they normalise all heads of a token together, rather than each head. */
  readonly ofRows: boolean;
  /** Whether heads are normalised after their rotation. */
  readonly isAfterRotation: boolean;
  /** Number of factors for queries and for keys. */
  readonly sizes: readonly [q: number, k: number];
  readonly q?: Tensor | undefined;
  readonly k?: Tensor | undefined;
}

/** The dispatches of a compiled segment, in order. All of them compute the same rows. */
export interface Program {
  readonly dispatches: readonly Dispatch[];
  /** Constants that the dispatches read. */
  readonly weights: readonly Tensor[];
  /** Bytes per row of the tensors that only this segment or the attention node after it reads, by name. */
  readonly scratch: ReadonlyMap<string, number>;
  readonly layouts: readonly OperandLayout[];
}

/**
 * An instruction of a step. The last segment computes only the wanted rows; all other instructions compute a row for
 * each token. An attention instruction first writes the tokens' keys and values to the cache.
 */
export type Instruction =
  | { readonly kind: "kernels"; readonly segment: number; readonly program: Program }
  /** Runs a segment in ONNX Runtime. */
  | { readonly kind: "ort"; readonly segment: number }
  /** `layout` is the layout in which kernels leave the operands; absent if these are ordinary tensors. */
  | {
    readonly kind: "attention";
    readonly node: number;
    readonly layout?: OperandLayout | undefined;
  }
  | { readonly kind: "state_update"; readonly state: number }
  /** Chooses experts for each token, and adds up their outputs. */
  | { readonly kind: "experts"; readonly node: number };

/** The instructions of a step in each lowering. */
export type StepPrograms = Readonly<Record<Lowering, readonly Instruction[]>>;

/** A program, or one sentence that says why there is none. */
export type Compiled = { readonly program: Program } | { readonly refused: string };
