/**
 * Replaces unmasked spelled-out attentions, in a graph that runs one token at a time, by nodes that the cut knows.
 *
 * @module
 */
import { toDtypeCode } from "../file/dtype.ts";
import { liftConstants } from "../decoder_inputs.ts";
import type { Evaluation } from "../evaluate/evaluation.ts";
import { GraphIndex, liveNodes } from "../graph_index.ts";
import { makeNode, type ModelProto, type Node, withGraph } from "../file/proto.ts";
import { findUnmaskedAttentions, type UnmaskedAttention } from "./unmasked_attention.ts";

const MICROSOFT = "com.microsoft";
const ENCODER_MASK = "encoder_attention_mask";
type Float = "float32" | "float16";

/** The inputs that an attention reads all its keys and values from: `[batch, heads, positions, size]`. */
export interface CrossInputs {
  readonly keys: string;
  readonly values: string;
}

/** A graph whose attentions without a mask are nodes. */
interface StepGraph {
  readonly model: ModelProto;
  /** The cross-attentions, by the node's name. */
  readonly crossInputs: ReadonlyMap<string, CrossInputs>;
}

interface Operands {
  readonly keys: string;
  readonly values: string;
  readonly pastKeys: string;
  readonly pastValues: string;
}

/**
 * Replaces attention to a whole cache, the newest token included, with a causal `MultiHeadAttention`: for one token both
 * are equal, and several tokens see what they would see one at a time.
 *
 * Attention to inputs that satisfy `isEncoded` (cross-attention) is replaced too: to the cut it looks like a cache to
 * which the queries are appended as keys and values. The executor of such a node must not append them, and must let each
 * token attend to all positions.
 *
 * A mask of the encoder's input is assumed to hide nothing, as nothing is padded.
 */
export function nameStepAttentions(
  model: ModelProto,
  isEncoded: (input: string) => boolean,
): StepGraph {
  const graph = liftConstants(model.graph);
  const index = new GraphIndex(graph);
  const { found, run } = findUnmaskedAttentions(index, (input) => input === ENCODER_MASK);
  const crossInputs = new Map<string, CrossInputs>();
  const replacements = new Map<Node, readonly Node[]>();
  for (const attention of found) {
    const { k, v, output } = attention;
    const name = `${output}/attention`;
    if (k.kind === "appended" && v.kind === "appended") {
      const [keys, values] = [k.tensor, v.tensor];
      const operands = { keys, values, pastKeys: k.past, pastValues: v.past };
      replacements.set(index.producers.get(output)!, makeNodes(name, attention, operands, run));
    } else if (isEncoded(k.tensor) && isEncoded(v.tensor)) {
      const { q } = attention;
      const operands = { keys: q, values: q, pastKeys: k.tensor, pastValues: v.tensor };
      replacements.set(index.producers.get(output)!, makeNodes(name, attention, operands, run));
      crossInputs.set(name, { keys: k.tensor, values: v.tensor });
    }
  }
  const nodes = graph.nodes.flatMap((node) => replacements.get(node) ?? [node]);
  const live = liveNodes(nodes, graph.outputs.map(({ name }) => name));
  return { model: withGraph(model, { ...graph, nodes: live }), crossInputs };
}

/** The attention in the type of its cache, with casts around it where the graph's is another. */
function makeNodes(
  name: string,
  { q, output, heads, scale }: UnmaskedAttention,
  operands: Operands,
  run: Evaluation,
): Node[] {
  const getDtype = (tensor: string) => run.value(tensor)!.dtype as Float;
  const dtype = getDtype(operands.pastKeys);
  const before = new Map<string, Node>();
  const cast = (from: string, to: string, type: Float) =>
    makeNode("Cast", [from], [to], { attributes: { to: toDtypeCode(type) } });
  const alike = (tensor: string) => {
    if (getDtype(tensor) === dtype) return tensor;
    before.set(tensor, cast(tensor, `${name}/${tensor}`, dtype));
    return `${name}/${tensor}`;
  };
  const { keys, values, pastKeys, pastValues } = operands;
  const inputs = [alike(q), alike(keys), alike(values), "", "", "", pastKeys, pastValues];
  const isAlike = getDtype(output) === dtype;
  const result = isAlike ? output : `${name}/result`;
  const node = makeNode("MultiHeadAttention", inputs, [result], {
    domain: MICROSOFT,
    attributes: { num_heads: heads, scale: { float: scale }, unidirectional: 1 },
    name,
  });
  return [...before.values(), node, ...isAlike ? [] : [cast(result, output, getDtype(output))]];
}
