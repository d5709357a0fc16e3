/**
 * Splits the merged decoder of an encoder-decoder model, as Optimum exports it, and cuts it.
 * Their keys and values have the names that Optimum and similar exporters give them.
 *
 * @module
 */
import { codeOfDtype } from "../file/dtype.ts";
import { fuseSkipNorms } from "../rewrite/fuse_skip_norms.ts";
import type { GraphCut } from "../graph_cut.ts";
import { keepOutputs, takeBranch } from "../rewrite/if_branch.ts";
import { makeNode, type ModelProto, type Node, withGraph } from "../file/proto.ts";
import { GraphIndex } from "../graph_index.ts";
import { splitGraph, type SplitOptions } from "./split.ts";
import { type CrossInputs, nameStepAttentions } from "../attention/step_attention.ts";

/** Whether a cache input or output belongs to the encoder's output: `past_key_values.0.encoder.key`. */
export function isCrossCache(name: string): boolean {
  return name.includes(".encoder.");
}

/** The output that becomes a cache input: `present.0.key` for `past_key_values.0.key`, or for `past.0.key`. */
export function presentName(pastName: string): string {
  return pastName.replace(/^past(_key_values)?/, "present");
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
      makeNode("Cast", [added!], [row], { attributes: { to: codeOfDtype(dtype) } }),
      concat,
      { ...cast!, name: output, inputs: [joined], outputs: [output] },
    ];
  });
  return withGraph(model, { nodes });
}
