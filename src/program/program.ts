/**
 * A decoder's step as a list of instructions: kernels and ONNX Runtime's segments, with attentions and recurrences in
 * between.
 *
 * @module
 */
import type { MatvecParams, NormParams } from "../../kernels/matmul/matvec_params.ts";
import type { NormKernelParams } from "../../kernels/norm/norm.ts";
import type { PointwiseParams } from "../../kernels/pointwise/pointwise.ts";
import type { TakeRowsParams } from "../../kernels/take_rows/take_rows.ts";
import type { RotateParams } from "../../kernels/rotate/rotate.ts";
import type { HeadRows, Rotary } from "../graph/graph_cut.ts";
import type { Tensor } from "../graph/file/proto.ts";

/**
 * The two lowerings of a program. `few` is for decoding: one token of each sequence, whose logits are all wanted, so that
 * reading the weights is what takes time. `many` is for prompts, of whose rows few are wanted at the end.
 */
export type Lowering = "few" | "many";

export const LOWERINGS = ["few", "many"] as const satisfies readonly Lowering[];

/** A kernel, what specialises it, and its buffers by the names of tensors; `undefined` is one it does without. */
type DispatchOf<Kind extends string, Params, Names extends string, Optional extends string> = {
  readonly kind: Kind;
  readonly params: Params;
  readonly tensors:
    & Readonly<Record<Names, string>>
    & Readonly<Partial<Record<Optional, string | undefined>>>;
};

/** A product with a matrix; `hasTiles` tells whether it is of many rows. */
type Product =
  & DispatchOf<
    "matvec",
    MatvecParams,
    "x" | "weights" | "out",
    "scales" | "zeroPoints" | "affine" | "bias" | "residual" | "sum"
  >
  & { readonly hasTiles: boolean };

/** One dispatch. */
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
  /** Only on the CPU, whose attention takes rotated heads. */
  | DispatchOf<"rotate", RotateParams, "x" | "cos" | "sin" | "positions" | "out", never>;

/** The tensors that a dispatch reads and writes, by role. */
export function listTensors({ tensors }: Dispatch): [role: string, name: string][] {
  return Object.entries(tensors).filter((entry): entry is [string, string] =>
    entry[1] !== undefined
  );
}

/** How the operands of the attention after a segment are left by its dispatches. */
export interface OperandLayout {
  readonly layer: number;
  readonly q: HeadRows;
  readonly k: HeadRows;
  readonly v: HeadRows;
  /** Norms of each head that the attention has to do. */
  readonly norms?: HeadNorms | undefined;
  /** The rotation that the attention has to do, where the graph spells it out. */
  readonly rotary?: Rotary | undefined;
  /** A factor of the attention's scale. */
  readonly scale: number;
}

/** Root mean squares of queries and of keys; the names are those of their factors. */
interface HeadNorms {
  readonly epsilon: NormParams["epsilon"];
  /** Whether they are of all heads of a token, rather than of each. */
  readonly ofRows: boolean;
  /** Factors of queries and of keys. */
  readonly sizes: readonly [q: number, k: number];
  readonly q?: Tensor | undefined;
  readonly k?: Tensor | undefined;
}

/** Dispatches of a segment's kernels, one after the other over the same rows. */
export interface Program {
  readonly dispatches: readonly Dispatch[];
  /** Constants that they read. */
  readonly weights: readonly Tensor[];
  /** Tensors that do not leave the segment or go to its attention alone: bytes of a row by name. */
  readonly scratch: ReadonlyMap<string, number>;
  readonly layouts: readonly OperandLayout[];
}

/**
 * An instruction of a step. Of a cut's last segment it computes wanted rows, of others all tokens; an attention writes
 * the tokens' keys and values to the cache first.
 */
export type Instruction =
  | { readonly kind: "kernels"; readonly segment: number; readonly program: Program }
  /** What cannot be compiled runs in ONNX Runtime. */
  | { readonly kind: "ort"; readonly segment: number }
  /** `layout`: how kernels leave its operands, if not as ordinary tensors. */
  | {
    readonly kind: "attention";
    readonly node: number;
    readonly layout?: OperandLayout | undefined;
  }
  | { readonly kind: "state_update"; readonly state: number }
  /** Chooses experts for each token and adds up what they make of its row. */
  | { readonly kind: "experts"; readonly node: number };

/** A step in each lowering. */
export type StepPrograms = Readonly<Record<Lowering, readonly Instruction[]>>;

/** A program, or in one sentence why there is none. */
export type Compiled = { readonly program: Program } | { readonly refused: string };
