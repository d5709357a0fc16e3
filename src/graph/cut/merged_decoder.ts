/**
 * Splits the merged decoder of an encoder-decoder model, as Optimum exports it, and cuts it.
 *
 * @module
 */
import { appendInCacheDtype } from "../rewrite/cache_dtype.ts";
import { isCrossCache } from "./cache_names.ts";
import { fuseSkipNorms } from "../rewrite/fuse_skip_norms.ts";
import type { GraphCut } from "../graph_cut.ts";
import { keepOutputs, takeBranch } from "../rewrite/if_branch.ts";
import type { ModelProto } from "../file/proto.ts";
import { splitGraph, type SplitOptions } from "./split.ts";
import { type CrossInputs, nameStepAttentions } from "../attention/step_attention.ts";

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
