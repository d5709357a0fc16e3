/**
 * Splits the merged decoder of an encoder-decoder model, as Optimum exports it, and cuts it. Keys and values have the
 * names that Optimum and similar exporters give them.
 *
 * @module
 */
import { StartupError } from "../../base/errors.ts";
import { toDtypeCode } from "../file/dtype.ts";
import { fuseSkipNorms } from "../rewrite/fused_operators.ts";
import type { GraphCut } from "../graph_cut.ts";
import { type Graph, makeNode, type ModelProto, type Node, withGraph } from "../file/proto.ts";
import { GraphIndex, liveNodes } from "../graph_index.ts";
import { splitGraph, type SplitOptions } from "./split.ts";
import { type CrossInputs, nameStepAttentions } from "../attention/step_attention.ts";
import { namesRead, readNested, sortNodes } from "../node_order.ts";

/** Whether a cache input or output belongs to the encoder's output: `past_key_values.0.encoder.key`. */
export function isCrossCache(name: string): boolean {
  return name.includes(".encoder.");
}

/** The output that becomes a cache input: `present.0.key` for `past_key_values.0.key`, or for `past.0.key`. */
export function presentName(pastName: string): string {
  return pastName.replace(/^past(_key_values)?/, "present");
}

/** The outputs that become the next cache inputs, by the names of these inputs. */
export function pickCache<T>(
  outputs: Readonly<Record<string, T>>,
  inputNames: readonly string[],
): Record<string, T> {
  return Object.fromEntries(inputNames.map((name) => [name, outputs[presentName(name)]!]));
}

/** The two graphs of a merged decoder. */
export interface DecoderGraphs {
  /** Computes `present.*.encoder.*` from `encoder_hidden_states`. */
  readonly project: ModelProto;
  /**
   * Computes the wanted output and a token's keys and values, from the token, the keys and values of those before it,
   * and those of the encoder's output.
   */
  readonly step: ModelProto;
}

/** Splits a merged decoder into its two graphs; `undefined` if it is not merged of two. */
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

/** Splits a merged decoder. @throws {StartupError} when it is not merged of two. */
export function requireMerged(merged: ModelProto, path: string): DecoderGraphs {
  const graphs = divideMerged(merged);
  if (graphs !== undefined) return graphs;
  throw new StartupError(`${path} is not merged of two decoders, as Optimum exports them.`);
}

/** A cut, and which of its attentions are to the encoder. */
interface StepCut {
  readonly cut: GraphCut;
  /** Inputs of cross-attentions by the attention's name. */
  readonly crossInputs: ReadonlyMap<string, CrossInputs>;
}

/** Cuts the graph of a step at its attentions, or says why not. */
export function cutStep(
  step: ModelProto,
  options: SplitOptions,
): StepCut | { readonly refused: string } {
  const toLogits = keepOutputs(step, ["logits"]);
  const { model, crossInputs } = nameStepAttentions(appendInCacheDtype(toLogits), isCrossCache);
  if (crossInputs.size === 0) return { refused: "It has no attention to an encoder known here." };
  const result = splitGraph(fuseSkipNorms(model), options);
  return "refused" in result ? result : { ...result, crossInputs };
}

/**
 * Rewrites `Concat(cast(past), new)` to `cast(Concat(past, cast(new)))` if `past` is an input, so that the cut finds
 * the `Concat` next to the cache. Values do not change as long as caches hold what was appended.
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
 * Replaces the only `If` of a graph with the named branch and removes the condition's input, which a GPU would have to
 * copy back to the host before every step.
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
    // Value infos may be those of the other branch.
    valueInfos: [],
  });
}

/**
 * Keeps a branch's tensors and nodes apart from those around it. Optimum's branches name their outputs as the `If` does,
 * and converters to half precision give these names to casts behind it.
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

/** Prunes a graph to these outputs and what they need. */
export function keepOutputs(model: ModelProto, names: readonly string[]): ModelProto {
  const { graph } = model;
  const outputs = graph.outputs.filter(({ name }) => names.includes(name));
  const nodes = liveNodes(graph.nodes, names);
  const needed = new Set([...names, ...nodes.flatMap(namesRead)]);
  const isNeeded = ({ name }: { readonly name: string }) => needed.has(name);
  return withGraph(model, {
    outputs,
    nodes,
    inputs: graph.inputs.filter(isNeeded),
    initializers: graph.initializers.filter(isNeeded),
  });
}
