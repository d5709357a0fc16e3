/**
 * Attention spelled out in ONNX's basic operators, as Optimum and PyTorch export it: `MatMul(softmax(f(MatMul(q, kᵀ)) +
 * mask), v)`, with keys and values of tokens or of a cache.
 *
 * Only the two products and the softmax are matched. The nodes in between (scales, masks, repeated heads, casts) are
 * fed with known numbers in a partial evaluation, and must compute what an attention does.
 *
 * @module
 */
import { type FoundAttention, getName, type Search } from "./attention.ts";
import { HIDDEN_SCORE, type MaskReader } from "./attention_mask.ts";
import { countElements } from "../file/tensor.ts";
import type { Evaluation } from "../evaluate/evaluation.ts";
import type { Value } from "../evaluate/value.ts";
import { describeNode, type GraphIndex } from "../graph_index.ts";
import type { Node } from "../file/proto.ts";
import { type Lengths, type Probes, SHORT_LENGTHS } from "../probes.ts";
import { Refusal } from "../refusal.ts";
import { findBack, numbered, type SpelledOutOperand } from "./traced_operand.ts";

/** Operators that may be between the first product and the softmax, and between the softmax and the second product. */
const POINTWISE = new Set(
  "Add Sub Mul Div Where Cast Tanh Min Max Clip Identity Dropout IsNaN Reshape".split(" "),
);

/** Finds the product whose first factor is the softmax's result. */
function findValueProduct(index: GraphIndex, softmax: Node): Node | undefined {
  const open = [softmax.outputs[0]!];
  for (let name = open.shift(); name !== undefined; name = open.shift()) {
    for (const node of index.consumers(name)) {
      if (node.opType === "MatMul") return node.inputs[0] === name ? node : undefined;
      if (POINTWISE.has(node.opType)) open.push(...node.outputs);
    }
  }
  return undefined;
}

/** Whether the nodes between the softmax and the second product do not change the weights. */
function keepsWeights(run: Evaluation, softmax: Node, product: Node): boolean {
  const [from, to] = [softmax.outputs[0]!, product.inputs[0]!];
  const weights = run.value(from);
  if (weights === undefined) return false;
  const fed = numbered(weights);
  const got = from === to ? fed : run.valueWith(to, new Map([[from, fed]]));
  return got?.data !== undefined && got.data.every((x, i) => x === fed.data![i]);
}

/** The shape of scores of a single head, so that evaluating a mask over a long context takes little memory. */
function oneHead(scores: Value, { pastLength, numTokens }: Lengths): readonly number[] {
  const total = pastLength + numTokens;
  return scores.shape.length === 4 ? [1, 1, numTokens, total] : [1, numTokens, total];
}

/**
 * Computes the input of a softmax in a run in which every score is `score`. It shows which keys are visible, and how
 * scores are scaled.
 */
function readScores(
  probes: Probes,
  lengths: Lengths,
  { scores, softmax, score }: {
    readonly scores: string;
    readonly softmax: Node;
    readonly score: number;
  },
): Float64Array | undefined {
  const run = probes.at(lengths);
  const made = run.value(scores);
  if (made === undefined) return undefined;
  const shape = oneHead(made, lengths);
  const data = new Float64Array(countElements(shape)).fill(score);
  const seen = run.valueWith(softmax.inputs[0]!, new Map([[scores, { ...made, shape, data }]]));
  if (seen?.data === undefined) return undefined;
  if (seen.data.length !== data.length) {
    throw new Refusal(`The mask of ${describeNode(softmax)} differs from head to head (ALiBi?).`);
  }
  return seen.data;
}

/** Finds the products before and after a softmax; `undefined` if one is missing. */
function findSoftmaxProducts(
  index: GraphIndex,
  softmax: Node,
): { readonly scores: Node; readonly values: Node } | undefined {
  if (softmax.opType !== "Softmax") return undefined;
  const isProduct = ({ opType }: Node) => opType === "MatMul";
  const scores = findBack(index, softmax.inputs[0]!, POINTWISE, isProduct);
  const values = findValueProduct(index, softmax);
  return scores && values && { scores, values };
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
   * Traces the operands. @returns `undefined` if the attention is not of this kind. @throws {Refusal} if it cannot be
   * expressed.
   */
  trace(search: Search, inputs: ProductInputs): SpelledOutOperands | undefined;
  /** Proves the mask. @throws {Refusal} when it is not one that this kind may have. */
  prove(
    read: MaskReader,
    contextLength: number,
    of: string,
  ): Pick<FoundAttention, "localWindow" | "window" | "maxPositions">;
}

/**
 * Recognizes the attention around a softmax.
 *
 * @returns `undefined` if it is not of this kind.
 * @throws {Refusal} when it is, but cannot be expressed.
 */
export function findSpelledOut(
  softmax: Node,
  search: Search,
  kind: SpelledOutKind,
): FoundAttention | undefined {
  const { index, probes, contextLength } = search;
  const products = findSoftmaxProducts(index, softmax);
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
    !keepsWeights(run, softmax, products.values)
  ) {
    throw new Refusal(`Around ${of}, keys, values or weights are changed in between.`);
  }
  const read = (lengths: Lengths, score: number) =>
    readScores(probes, lengths, { scores: products.scores.outputs[0]!, softmax, score });
  const { scale, softcap } = measureScores((score) => read(SHORT_LENGTHS[0], score), of);
  const mask = kind.prove(
    (lengths) => {
      const seen = read(lengths, 0);
      return seen && Uint8Array.from(seen, (x) => x > HIDDEN_SCORE ? 1 : 0);
    },
    contextLength,
    of,
  );
  return {
    name: getName(softmax),
    q: q.operand,
    k: k.operand,
    v: v.operand,
    output: { tensor: products.values.outputs[0]!, layout: "head_major" },
    heads,
    kvHeads: k.heads,
    headDim: k.size,
    vHeadDim: v.size,
    scale: scale * q.factor * k.factor,
    softcap,
    ...mask,
  };
}

/** `scale * s`, or `softcap * tanh(scale * s / softcap)`. */
interface ScoreFunction {
  readonly scale: number;
  readonly softcap: number | undefined;
}

/** Scores at which the function of the scores is sampled: around zero, and far beyond any cap. */
const PROBE_SCORES = [1, -3, 50, -700];
const FAR_SCORE = 1e6;
const NEAR_SCORE = 1e-3;

/**
 * Finds scale and softcap.
 *
 * @param read computes the softmax's input if every score has a given value; `undefined` if it is unknown.
 * @param of the softmax, for messages.
 * @throws {Refusal} when scores are changed in another way, or differently for keys that are all visible.
 */
function measureScores(
  read: (score: number) => Float64Array | undefined,
  of: string,
): ScoreFunction {
  const mask = read(0);
  const at = (score: number): number => {
    const seen = read(score)?.filter((_, i) => mask![i]! > HIDDEN_SCORE);
    const [first] = seen ?? [];
    if (first === undefined || !seen!.every((x) => x === first)) {
      throw new Refusal(
        `The numbers added to the scores in front of ${of} are not a mask: they differ from key to key (ALiBi?).`,
      );
    }
    return first;
  };
  if (mask === undefined) {
    throw new Refusal(`The mask in front of ${of} cannot be computed by partial evaluation.`);
  }
  if (at(0) !== 0) throw new Refusal(`In front of ${of}, ${at(0)} is added to every score.`);
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
