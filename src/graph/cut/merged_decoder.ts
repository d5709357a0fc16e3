/**
 * The merged decoder of an encoder-decoder model, as Optimum exports it: divides it into its two graphs, and cuts the
 * one that runs the tokens. The names of keys and values are those that Optimum and similar exporters use.
 *
 * @module
 */
import { StartupError } from "../../base/errors.ts";
import { toDtypeCode } from "../file/tensor.ts";
import { fuseSkipNorms } from "../rewrite/fused_operators.ts";
import type { GraphCut } from "../graph_cut.ts";
import { type Graph, makeNode, type ModelProto, type Node, withGraph } from "../file/proto.ts";
import { findLiveNodes, GraphIndex, listReads, readNested, sortNodes } from "../graph_index.ts";
import { cutGraph, type CutOptions } from "./cut_graph.ts";
import { liftConstants } from "../file/lift_constants.ts";
import type { Evaluation } from "../evaluate/evaluation.ts";
import { findUnmaskedAttentions, type UnmaskedAttention } from "../attention/unmasked_attention.ts";

/** Whether a cache holds keys or values of the encoder's output, by its name: `past_key_values.0.encoder.key`. */
export function isCrossCache(name: string): boolean {
  return name.includes(".encoder.");
}

/** The name of the output that becomes a cache input: `present.0.key` for `past_key_values.0.key` or `past.0.key`. */
export function toPresentName(pastName: string): string {
  return pastName.replace(/^past(_key_values)?/, "present");
}

/** The outputs that become the cache inputs of the next run, by the names of these inputs. */
export function pickCache<T>(
  outputs: Readonly<Record<string, T>>,
  inputNames: readonly string[],
): Record<string, T> {
  return Object.fromEntries(inputNames.map((name) => [name, outputs[toPresentName(name)]!]));
}

/** The two graphs of a merged decoder. */
export interface DecoderGraphs {
  /** Computes `present.*.encoder.*` from `encoder_hidden_states`. */
  readonly project: ModelProto;
  /**
   * Computes a token's output, keys and values, given the keys and values of earlier tokens and of the encoder's
   * output.
   */
  readonly step: ModelProto;
}

/** Divides a merged decoder into its two graphs; `undefined` if it is not a merged decoder. */
export function divideMerged(merged: ModelProto): DecoderGraphs | undefined {
  const take = (branch: "then_branch" | "else_branch", isWanted: (output: string) => boolean) => {
    const taken = takeBranch(merged, branch);
    return taken &&
      keepOutputs(taken, taken.graph.outputs.map(({ name }) => name).filter(isWanted));
  };
  const project = take("else_branch", isCrossCache);
  const step = take("then_branch", (name) => !isCrossCache(name));
  return project && step && { project, step };
}

/** Divides a merged decoder into its two graphs. @throws {StartupError} when it is not a merged decoder. */
export function requireMerged(merged: ModelProto, path: string): DecoderGraphs {
  const graphs = divideMerged(merged);
  if (graphs !== undefined) return graphs;
  throw new StartupError(`${path} is not a merged decoder, as Optimum exports it.`);
}

/** A cut, and which of its attentions are cross-attentions. */
interface StepCut {
  readonly cut: GraphCut;
  /** The inputs of each cross-attention, by the node's name. */
  readonly crossInputs: ReadonlyMap<string, CrossInputs>;
}

/** Cuts the graph that runs the tokens at its attentions, or says why it cannot be cut. */
export function cutStep(
  step: ModelProto,
  options: CutOptions,
): StepCut | { readonly refused: string } {
  const toLogits = keepOutputs(step, ["logits"]);
  const { model, crossInputs } = nameStepAttentions(appendInCacheDtype(toLogits), isCrossCache);
  if (crossInputs.size === 0) {
    return { refused: "It has no attention to an encoder that Hearth knows." };
  }
  const result = cutGraph(fuseSkipNorms(model), options);
  return "refused" in result ? result : { ...result, crossInputs };
}

/**
 * Rewrites `Concat(cast(past), new)` to `cast(Concat(past, cast(new)))` if `past` is an input, so that the cut finds
 * the `Concat` right after the cache. Values do not change, since caches only hold what was appended to them.
 */
export function appendInCacheDtype(model: ModelProto): ModelProto {
  const index = new GraphIndex(model.graph);
  const nodes = model.graph.nodes.flatMap((node) => {
    const [past, added] = node.inputs;
    const cast = index.producers.get(past ?? "");
    const cache = cast?.opType === "Cast" ? index.inputs.get(cast.inputs[0]!) : undefined;
    const isAppending = node.opType === "Concat" && node.inputs.length === 2;
    if (!isAppending || cache === undefined) return [node];
    const { name, dtype } = cache;
    if (dtype !== "float32" && dtype !== "float16") return [node];
    const output = node.outputs[0]!;
    const [row, joined] = [`${output}/row`, `${output}/joined`];
    const concat: Node = { ...node, inputs: [name, row], outputs: [joined] };
    return [
      makeNode("Cast", [added!], [row], { attributes: { to: toDtypeCode(dtype) } }),
      concat,
      { ...cast!, name: output, inputs: [joined], outputs: [output] },
    ];
  });
  return withGraph(model, { nodes });
}

/**
 * Replaces the only `If` of a graph with one of its branches. It also removes the input for the condition, which would
 * have to be copied from the GPU to the host before every step.
 *
 * @returns `undefined` unless the graph has exactly one `If`.
 */
export function takeBranch(
  model: ModelProto,
  branch: "then_branch" | "else_branch",
): ModelProto | undefined {
  const { graph } = model;
  const [choice, ...others] = graph.nodes.filter(({ opType }) => opType === "If");
  const message = choice?.attributes.find(({ name }) => name === branch)?.message;
  if (choice === undefined || message === undefined || others.length > 0) return undefined;
  const inner = renameInner(readNested(message), { graph, suffix: `/${branch}` });
  return withGraph(model, {
    nodes: sortNodes([
      ...graph.nodes.filter((node) => node !== choice),
      ...inner.nodes,
      ...choice.outputs.map((name, index) => makeNode("Identity", [inner.outputs[index]!], [name])),
    ]),
    initializers: [...graph.initializers, ...inner.initializers],
    inputs: graph.inputs.filter(({ name }) => name !== choice.inputs[0]),
    // Value infos may describe tensors of the other branch.
    valueInfos: [],
  });
}

/**
 * Renames tensors and nodes of a branch whose names occur in the outer graph. In Optimum's exports the outputs of a
 * branch have the same names as those of the `If`, and converters to half precision give these names to casts after it.
 */
function renameInner<Inner extends Pick<Graph, "nodes"> & { readonly outputs: readonly string[] }>(
  inner: Inner,
  { graph, suffix }: { readonly graph: Graph; readonly suffix: string },
): Inner {
  const tensors = new Set(graph.nodes.flatMap(({ outputs }) => outputs));
  const names = new Set([...tensors, ...graph.nodes.map(({ name }) => name)]);
  const own = new Set(inner.nodes.flatMap(({ outputs }) => outputs));
  const rename = (name: string) =>
    name !== "" && own.has(name) && tensors.has(name) ? name + suffix : name;
  const nodes = inner.nodes.map((node) => ({
    ...node,
    name: names.has(node.name) ? node.name + suffix : node.name,
    inputs: node.inputs.map(rename),
    outputs: node.outputs.map(rename),
  }));
  return { ...inner, nodes, outputs: inner.outputs.map(rename) };
}

/** Prunes a graph to some of its outputs, and to what these need. */
export function keepOutputs(model: ModelProto, names: readonly string[]): ModelProto {
  const { graph } = model;
  const outputs = graph.outputs.filter(({ name }) => names.includes(name));
  const nodes = findLiveNodes(graph.nodes, names);
  const needed = new Set([...names, ...nodes.flatMap(listReads)]);
  const isNeeded = ({ name }: { readonly name: string }) => needed.has(name);
  return withGraph(model, {
    outputs,
    nodes,
    inputs: graph.inputs.filter(isNeeded),
    initializers: graph.initializers.filter(isNeeded),
  });
}

const MICROSOFT = "com.microsoft";
const ENCODER_MASK = "encoder_attention_mask";
type Float = "float32" | "float16";

/** The inputs that hold all keys and values of a cross-attention: `[batch, heads, positions, size]`. */
export interface CrossInputs {
  readonly keys: string;
  readonly values: string;
}

/** A graph whose attentions without a mask are `MultiHeadAttention` nodes. */
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
 * Replaces the unmasked attentions of a graph that runs one token at a time by causal `MultiHeadAttention` nodes, which
 * the cut knows. For one token the results are the same. In a step of several tokens, each sees what it would see if
 * they ran one at a time.
 *
 * Attentions to inputs that satisfy `isEncoded` (cross-attentions) are replaced too. For the cut they read a cache to
 * which the queries are appended as keys and values. Whoever runs such a node must not append them, and must let each
 * token attend to all positions.
 *
 * A mask of the encoder's input is taken to hide nothing, since inputs are never padded.
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
  const live = findLiveNodes(nodes, graph.outputs.map(({ name }) => name));
  return { model: withGraph(model, { ...graph, nodes: live }), crossInputs };
}

/** The attention in the data type of its cache, with casts around it if the graph computes in another type. */
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
