/**
 * Proves that a graph treats tokens alike: that each token's result depends on that token alone, so that
 * tokens of different sequences may stand side by side on one axis.
 *
 * @module
 */
import { dependents } from "./fold_lengths.ts";
import { describeNode } from "../graph_index.ts";
import { hasSubgraph } from "../file/proto.ts";
import { type Probes, SHORT_LENGTHS } from "../probes.ts";
import { Refusal } from "../refusal.ts";
import { isKernelNode } from "../attention/replace_attentions.ts";
import { TOKEN_RULES, type TokenAxis } from "./token_rules.ts";

/** The tokens' axis of each tensor; `undefined`: the tensor has none. */
export class TokenAxes {
  readonly #probes: Probes;

  constructor(probes: Probes) {
    this.#probes = probes;
  }

  /** The size of every axis in the first short run. @throws {Refusal} when that is not known. */
  shape(name: string): readonly number[] {
    const value = this.#probes.at(SHORT_LENGTHS[0]).value(name);
    if (value === undefined) throw new Refusal(`The shape of "${name}" is not known.`);
    return value.shape;
  }

  /** The tokens' axis. @throws {Refusal} when they are on two axes, or the past is in the shape. */
  of(name: string): TokenAxis | undefined {
    const [shape, withPast, longer] = SHORT_LENGTHS.map((lengths) =>
      this.#probes.at(lengths).value(name)?.shape
    );
    if (shape === undefined || withPast === undefined || longer === undefined) {
      throw new Refusal(`The shape of "${name}" is not known.`);
    }
    const varying = shape.flatMap((size, axis) => size === longer[axis] ? [] : [axis]);
    const [axis] = varying;
    const isFixed = shape.join() === withPast.join() && shape.length === longer.length;
    if (!isFixed || varying.length > 1) {
      throw new Refusal(`"${name}" holds a row per pair of tokens or per cached token.`);
    }
    if (axis === undefined) return undefined;
    const multiple = shape[axis]! / SHORT_LENGTHS[0].numTokens;
    if (longer[axis] !== multiple * SHORT_LENGTHS[2].numTokens) {
      throw new Refusal(`An axis of "${name}" does not grow with the tokens alone.`);
    }
    return { axis, multiple, shape };
  }
}

/** Operators that may take a length to shape their result with, by the inputs that take it. */
const SHAPED_BY_LENGTH: Readonly<Record<string, number>> = {
  Reshape: 1,
  Expand: 1,
  Slice: 1,
  ConstantOfShape: 0,
};

/** One scale for all activations of a step. */
const MIXING_SCALES = new Set(["DynamicQuantizeLinear", "DynamicQuantizeMatMul"]);

/** The result of the proof. */
export interface TokenProof {
  readonly axes: TokenAxes;
  /** Tensors that hold lengths of the step, not tokens: small integers. */
  readonly lengths: ReadonlySet<string>;
  readonly notes: readonly string[];
}

/**
 * Goes through the nodes that ONNX Runtime will run.
 *
 * @param probes of the graph, its attentions being kernel nodes.
 * @throws {Refusal} at the first node that may mix tokens.
 */
export function proveTokensAlike(probes: Probes): TokenProof {
  const { nodes } = probes.index.graph;
  const axes = new TokenAxes(probes);
  const measuring = nodes.filter(({ opType }) => opType === "Shape" || opType === "Size");
  const fromLengths = dependents(nodes, measuring.flatMap(({ outputs }) => outputs));
  const fromInputs = dependents(nodes, [
    ...probes.index.inputs.keys(),
    ...nodes.filter(isKernelNode).flatMap(({ outputs }) => outputs),
  ]);
  const lengths = new Set<string>();
  const mixing = new Set<string>();
  for (const node of nodes) {
    if (isKernelNode(node) || !node.outputs.some((name) => fromInputs.has(name))) continue;
    if (hasSubgraph(node)) {
      throw new Refusal(`${describeNode(node)} chooses or repeats while it runs.`);
    }
    const isMeasuring = measuring.includes(node);
    const rule = TOKEN_RULES[node.opType];
    if (rule === undefined && !isMeasuring) {
      throw new Refusal(
        `${describeNode(node)} may mix tokens: it is not known to treat them alike.`,
      );
    }
    const inputs = node.inputs.map((name) => name === "" ? undefined : axes.of(name));
    const output = axes.of(node.outputs.find((name) => name !== "")!);
    if (isMeasuring || node.inputs.some((name) => lengths.has(name))) {
      const firstShaping = SHAPED_BY_LENGTH[node.opType];
      const shapes = firstShaping !== undefined &&
        node.inputs.every((name, i) => i >= firstShaping || !lengths.has(name));
      if (output === undefined && inputs.every((input) => input === undefined || isMeasuring)) {
        for (const name of node.outputs) if (fromLengths.has(name)) lengths.add(name);
      } else if (!shapes) {
        throw new Refusal(`${describeNode(node)} computes with the number of tokens in a step.`);
      }
    }
    if (!isMeasuring && !rule!(node, { inputs, output }, probes)) {
      throw new Refusal(`${describeNode(node)} mixes tokens.`);
    }
    if (MIXING_SCALES.has(node.opType)) mixing.add(node.opType);
  }
  const notes = [...mixing].map((name) =>
    `${name} quantises the activations of a step with one scale: a token's result depends a little on its neighbours.`
  );
  return { axes, lengths, notes };
}
