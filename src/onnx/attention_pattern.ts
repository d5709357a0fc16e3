/**
 * Attention spelled out in ONNX's basic operators, as Optimum and PyTorch export it:
 * `MatMul(softmax(f(MatMul(q, concat(past, k)ᵀ)) + mask), concat(past, v))`.
 *
 * Only the skeleton is matched. What lies between its joints (scales, masks, repeated heads, casts) is not
 * recognised by shape but measured: fed with known numbers in a partial evaluation, it must do what an attention does.
 *
 * @module
 */
import { type FoundAttention, nameOf, type Search } from "./attention.ts";
import { HIDDEN_SCORE, proveMask, type Visibility } from "./attention_mask.ts";
import { findBack, followCache, numbered } from "./cached_operand.ts";
import { elementsOf } from "./dtype.ts";
import type { Evaluation } from "./evaluate/evaluation.ts";
import type { Value } from "./evaluate/value.ts";
import { describeNode, type GraphIndex } from "./graph_index.ts";
import type { Node } from "./proto.ts";
import { type Lengths, type Probes, SHORT_LENGTHS } from "./probes.ts";
import { Refusal } from "./refusal.ts";
import { measureScores } from "./score_function.ts";

/** Between the product of q and k and the softmax, and after it, no other operators are looked through. */
const POINTWISE = new Set(
  "Add Sub Mul Div Where Cast Tanh Min Max Clip Identity Dropout IsNaN Reshape".split(" "),
);
/** The product that takes the softmax's result as its first factor. */
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

/** Whether what lies between the softmax and the second product leaves the weights as they are. */
export function keepsWeights(run: Evaluation, softmax: Node, product: Node): boolean {
  const [from, to] = [softmax.outputs[0]!, product.inputs[0]!];
  const weights = run.value(from);
  if (weights === undefined) return false;
  const fed = numbered(weights);
  const got = from === to ? fed : run.valueWith(to, new Map([[from, fed]]));
  return got?.data !== undefined && got.data.every((x, i) => x === fed.data![i]);
}

/** Scores with one head in them, so that a mask's probe over a long context stays small. */
function oneHead(scores: Value, { pastLength, numTokens }: Lengths): readonly number[] {
  const total = pastLength + numTokens;
  return scores.shape.length === 4 ? [1, 1, numTokens, total] : [1, numTokens, total];
}

/** What a softmax sees of a run: which keys, and through which function of the score. */
export function readScores(
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
  const data = new Float64Array(elementsOf(shape)).fill(score);
  const seen = run.valueWith(softmax.inputs[0]!, new Map([[scores, { ...made, shape, data }]]));
  if (seen?.data === undefined) return undefined;
  if (seen.data.length !== data.length) {
    throw new Refusal(`The mask of ${describeNode(softmax)} differs from head to head (ALiBi?).`);
  }
  return seen.data;
}

/** The products before and after a softmax; `undefined` where it has none. */
export function findSoftmaxProducts(
  index: GraphIndex,
  softmax: Node,
): { readonly scores: Node; readonly values: Node } | undefined {
  if (softmax.opType !== "Softmax") return undefined;
  const isProduct = ({ opType }: Node) => opType === "MatMul";
  const scores = findBack(index, softmax.inputs[0]!, POINTWISE, isProduct);
  const values = findValueProduct(index, softmax);
  return scores && values && { scores, values };
}

/** Recognises the attention whose softmax this is; `undefined` when it is none over a cache. */
export function findSpelledOutAttention(
  softmax: Node,
  search: Search,
): FoundAttention | undefined {
  const { index, probes } = search;
  const products = findSoftmaxProducts(index, softmax);
  if (products === undefined) return undefined;
  const { scores: scoreProduct, values: valueProduct } = products;
  const of = describeNode(softmax);
  const run = probes.at(SHORT_LENGTHS[1]);
  const scores = scoreProduct.outputs[0]!;
  const query = run.value(scoreProduct.inputs[0]!)?.shape;
  const heads = query?.at(-3) ?? 0;
  const keys = followCache(search, scoreProduct.inputs[1]!, { heads, transposed: true });
  const values = followCache(search, valueProduct.inputs[1]!, { heads, transposed: false });
  if (keys === undefined || values === undefined) return undefined;
  if (query === undefined || query.length < 3 || query.length > 4) {
    throw new Refusal(`The heads of the attention around ${of} are not [1, heads, tokens, size].`);
  }
  if (
    keys === "changed" || values === "changed" || values.factor !== 1 ||
    !keepsWeights(run, softmax, valueProduct)
  ) {
    throw new Refusal(`Around ${of} keys, values or weights are changed after they were cached.`);
  }
  const read = (lengths: Lengths, score: number) =>
    readScores(probes, lengths, { scores, softmax, score });
  const { scale, softcap } = measureScores(
    (score) => read(SHORT_LENGTHS[0], score),
    of,
  );
  const mask = proveMask(
    (lengths): Visibility | undefined => {
      const seen = read(lengths, 0);
      return seen && Uint8Array.from(seen, (x) => x > HIDDEN_SCORE ? 1 : 0);
    },
    search.contextLength,
    of,
  );
  const operand = (tensor: string) => ({ tensor, layout: "head_major" as const, offset: 0 });
  return {
    name: nameOf(softmax),
    q: operand(scoreProduct.inputs[0]!),
    k: operand(keys.added),
    v: operand(values.added),
    output: { tensor: valueProduct.outputs[0]!, layout: "head_major" },
    heads,
    kvHeads: keys.kvHeads,
    headDim: keys.size,
    vHeadDim: values.size,
    scale: scale * keys.factor,
    softcap,
    ...mask,
  };
}
