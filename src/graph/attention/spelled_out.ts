/**
 * Attention spelled out in ONNX's basic operators, as Optimum and PyTorch export it: `MatMul(softmax(f(MatMul(q, kᵀ)) +
 * mask), v)`, with keys and values of tokens or of a cache.
 *
 * Only the two products and the softmax are matched. The nodes in between (scales, masks, repeated heads, casts) are
 * fed with known numbers in a partial evaluation, and must compute what an attention does.
 *
 * @module
 */
import { type FoundAttention, getName, refuseBiasedSinks, type Search } from "./attention.ts";
import { findSlopes, type MaskReader, readVisibility, type Visibility } from "./attention_mask.ts";
import { countElements } from "../file/tensor.ts";
import type { Value } from "../evaluate/value.ts";
import { describeNode, type GraphIndex } from "../graph_index.ts";
import type { Node } from "../file/proto.ts";
import { type Lengths, type Probes, SHORT_LENGTHS } from "../probes.ts";
import { Refusal } from "../refusal.ts";
import { findSinks, type JoinedSinks } from "./spelled_sinks.ts";
import { findBack, numbered, skipMergedHeads, type SpelledOutOperand } from "./traced_operand.ts";

/** Operators that may be between the first product and the softmax, and between the softmax and the second product. */
const POINTWISE = new Set(
  "Add Sub Mul Div Where Cast Tanh Min Max Clip Identity Dropout IsNaN Reshape".split(" "),
);

/** Operators that may cut off the weights of sinks. */
const CUTTING = new Set(["Slice", "Split"]);

/** Finds the product whose first factor is the softmax's result. */
function findValueProduct(
  index: GraphIndex,
  softmax: Node,
  through: ReadonlySet<string>,
): Node | undefined {
  const open = [softmax.outputs[0]!];
  for (let name = open.shift(); name !== undefined; name = open.shift()) {
    for (const node of index.consumers(name)) {
      if (node.opType === "MatMul") return node.inputs[0] === name ? node : undefined;
      if (through.has(node.opType)) open.push(...node.outputs);
    }
  }
  return undefined;
}

/** Whether the nodes between the softmax and the second product do not change the weights of keys. */
function keepsWeights({ probes }: Search, softmax: Node, products: SoftmaxProducts): boolean {
  const [from, to] = [softmax.outputs[0]!, products.values.inputs[0]!];
  const run = probes.at(SHORT_LENGTHS[1]);
  const weights = run.value(from);
  if (weights === undefined) return false;
  const fed = numbered(weights);
  const got = from === to ? fed : run.valueWith(to, new Map([[from, fed]]));
  const width = weights.shape.at(-1)!;
  const { sinks } = products;
  const sinkColumn = sinks && (sinks.areFirst ? 0 : width - 1);
  const wanted = fed.data!.filter((_, i) => i % width !== sinkColumn);
  return got?.data?.length === wanted.length && got.data.every((x, i) => x === wanted[i]);
}

/** The nodes of an attention. */
interface SoftmaxProducts {
  readonly scores: Node;
  readonly values: Node;
  /** The tensor that the softmax takes, or the part of it that belongs to keys. */
  readonly exponents: string;
  readonly sinks: JoinedSinks | undefined;
}

/**
 * Computes the exponents of a softmax in a run in which every score is `score`. The exponents show which keys are
 * visible, and how scores are scaled.
 *
 * @returns a plane `[tokens, keys]` for all heads, or one for each head.
 */
function readExponents(
  probes: Probes,
  lengths: Lengths,
  { products: { scores, exponents }, score }: {
    readonly products: SoftmaxProducts;
    readonly score: number;
  },
): Value | undefined {
  const run = probes.at(lengths);
  const [product] = scores.outputs as [string];
  const made = run.value(product);
  if (made === undefined) return undefined;
  const feed = (shape: readonly number[]): Value | undefined => {
    const data = new Float64Array(countElements(shape)).fill(score);
    const seen = run.valueWith(exponents, new Map([[product, { ...made, shape, data }]]));
    return seen?.data && seen;
  };
  // Scores of a single head, so that evaluating a mask over a long context takes little memory. A graph that reshapes
  // them needs all heads.
  const oneHead = [...made.shape.slice(0, -3).fill(1), 1, ...made.shape.slice(-2)];
  return feed(oneHead) ?? feed(made.shape);
}

/** Finds the products before and after a softmax; `undefined` if one is missing. */
function findSoftmaxProducts(softmax: Node, search: Search): SoftmaxProducts | undefined {
  if (softmax.opType !== "Softmax") return undefined;
  const { index } = search;
  const findProduct = (tensor: string) =>
    findBack(index, tensor, POINTWISE, ({ opType }) => opType === "MatMul");
  const sinks = findSinks(softmax, search, (tensor) => findProduct(tensor) !== undefined);
  const exponents = sinks?.exponents ?? softmax.inputs[0]!;
  const scores = findProduct(exponents);
  const through = sinks ? POINTWISE.union(CUTTING) : POINTWISE;
  const values = findValueProduct(index, softmax, through);
  return scores && values && { scores, values, exponents, sinks };
}

/** The operands of a spelled-out attention. */
interface SpelledOutOperands {
  readonly q: SpelledOutOperand;
  readonly k: SpelledOutOperand;
  readonly v: SpelledOutOperand;
}

/** The inputs of the two products. */
interface ProductInputs {
  readonly queries: string;
  /** `[…, size, keys]`. */
  readonly keys: string;
  readonly values: string;
  readonly heads: number;
  /** The softmax, for messages. */
  readonly of: string;
}

/** A kind of spelled-out attention: over a cache, or of an encoder. */
export interface SpelledOutKind {
  /**
   * Traces the operands. @returns `undefined` if the attention is not of this kind. @throws {Refusal} if Hearth cannot
   * compute it.
   */
  trace(search: Search, inputs: ProductInputs): SpelledOutOperands | undefined;
  /** Checks the mask, up to `contextLength`. @throws {Refusal} when this kind of attention does not support it. */
  prove(
    read: MaskReader,
    contextLength: number,
    of: string,
  ): Pick<FoundAttention, "localWindow" | "window" | "maxPositions">;
  /** Whether sinks and biases by distance are supported. */
  readonly takesBiases: boolean;
}

/**
 * Recognizes the attention around a softmax.
 *
 * @returns `undefined` if it is not of this kind.
 * @throws {Refusal} when it is of this kind, but Hearth cannot compute it.
 */
export function findSpelledOut(
  softmax: Node,
  search: Search,
  kind: SpelledOutKind,
): FoundAttention | undefined {
  const { probes, contextLength } = search;
  const products = findSoftmaxProducts(softmax, search);
  if (products === undefined) return undefined;
  const of = describeNode(softmax);
  const run = probes.at(SHORT_LENGTHS[1]);
  const [queries, keys] = products.scores.inputs as [string, string];
  const heads = run.value(queries)?.shape.at(-3) ?? 0;
  const inputs = { queries, keys, values: products.values.inputs[1]!, heads, of };
  const operands = kind.trace(search, inputs);
  if (operands === undefined) return undefined;
  const { q, k, v } = operands;
  if (
    q.heads !== heads || k.heads !== v.heads || v.factor !== 1 ||
    !keepsWeights(search, softmax, products)
  ) {
    throw new Refusal(
      `Around ${of}, the graph changes keys, values or weights before it multiplies them.`,
    );
  }
  const read = (lengths: Lengths, score: number) =>
    readExponents(probes, lengths, { products, score });
  const short = SHORT_LENGTHS[0];
  const slopes = kind.takesBiases ? findSlopes(read(short, 0), short) : undefined;
  const readMask: MaskReader = (lengths) => readVisibility(read(lengths, 0), lengths, of, slopes);
  const { scale, softcap } = measureScores((score) => read(short, score), readMask(short), of);
  const mask = kind.prove(readMask, contextLength, of);
  const sinks = products.sinks?.tensor;
  if (sinks !== undefined && !kind.takesBiases) {
    throw new Refusal(`${of} has sinks, which are supported only in decoders.`);
  }
  if (sinks !== undefined && slopes !== undefined) refuseBiasedSinks(of);
  return {
    name: getName(softmax),
    q: q.operand,
    k: k.operand,
    v: v.operand,
    output: {
      tensor: skipMergedHeads(search, products.values.outputs[0]!, "result"),
      layout: "head_major",
    },
    heads,
    kvHeads: k.heads,
    headDim: k.size,
    vHeadDim: v.size,
    scale: scale * q.factor * k.factor,
    softcap,
    slopes,
    sinks,
    ...mask,
  };
}

/** `scale * s`, or `softcap * tanh(scale * s / softcap)`. */
interface ScoreFunction {
  readonly scale: number;
  readonly softcap: number | undefined;
}

/** Scores at which the result is checked. */
const PROBE_SCORES = [1, -3, 50, -700];
/** A score far beyond any cap. */
const FAR_SCORE = 1e6;
/** A score so close to 0 that a cap does not change it. */
const NEAR_SCORE = 1e-3;

/**
 * Finds scale and softcap.
 *
 * @param read computes the softmax's exponents if every score has a given value; `undefined` if they are unknown.
 * @param visible which keys the tokens see, in a run of the same lengths.
 * @param of the softmax, for messages.
 * @throws {Refusal} when scores are neither scaled nor capped, or when equal scores of visible keys become different.
 */
function measureScores(
  read: (score: number) => Value | undefined,
  visible: Visibility | undefined,
  of: string,
): ScoreFunction {
  const mask = read(0)?.data;
  if (mask === undefined || visible === undefined) {
    throw new Refusal(`The mask in front of ${of} cannot be computed by partial evaluation.`);
  }
  const at = (score: number): number => {
    const changes = read(score)?.data?.map((x, i) => x - mask[i]!)
      .filter((_, i) => visible[i % visible.length] === 1);
    const [first] = changes ?? [];
    if (
      first === undefined || !changes!.every((x) => Math.abs(x - first) <= 1e-9 * Math.abs(first))
    ) {
      throw new Refusal(`In front of ${of}, equal scores of visible keys become different.`);
    }
    return first;
  };
  const far = at(FAR_SCORE);
  const slope = at(NEAR_SCORE) / NEAR_SCORE;
  const isCapped = Math.abs(far) < 0.5 * Math.abs(slope * FAR_SCORE);
  const cap = Math.abs(far);
  const expected = (score: number) =>
    isCapped ? cap * Math.tanh((slope * score) / cap) : slope * score;
  for (const score of PROBE_SCORES) {
    const [got, wanted] = [at(score), expected(score)];
    if (Math.abs(got - wanted) > 1e-4 * Math.abs(wanted)) {
      throw new Refusal(
        `In front of ${of}, a score of ${score} becomes ${got}: neither scaled nor capped by tanh.`,
      );
    }
  }
  return { scale: slope, softcap: isCapped ? cap : undefined };
}
