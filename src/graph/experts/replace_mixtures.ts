/**
 * Replaces each mixture of experts by a kernel node.
 *
 * @module
 */
import { checkExperts } from "../../../kernels/experts/experts_params.ts";
import { KERNEL_DOMAIN } from "../attention/replace_attentions.ts";
import { toElem } from "../../gpu/kernel.ts";
import type { Value } from "../evaluate/value.ts";
import { type Graph, makeNode, type Node } from "../file/proto.ts";
import { GraphIndex } from "../graph_index.ts";
import { type Lengths, Probes, SHORT_LENGTHS } from "../probes.ts";
import { Refusal } from "../refusal.ts";
import { findExperts } from "./find_experts.ts";
import { findGatheredExperts } from "./gathered_experts.ts";
import { findLoopedExperts } from "./looped_experts.ts";
import { findWeights, type FoundMixture, type MixtureSearch, toExpertsParams } from "./mixture.ts";

/** A mixture and the kernel node that replaces it, whose inputs are rows and router logits. */
export interface ReplacedMixture {
  readonly found: FoundMixture;
  readonly node: Node;
}

/** A graph whose mixtures of experts are kernel nodes. */
interface MixtureGraph {
  readonly graph: Graph;
  readonly mixtures: readonly ReplacedMixture[];
  /** Types and shapes of the kernel nodes' results in a partial evaluation. */
  readonly known: (lengths: Lengths) => ReadonlyMap<string, Value>;
  /** Sentences that say why mixtures are left to ONNX Runtime. */
  readonly notes: readonly string[];
}

const FINDERS = [findExperts, findGatheredExperts, findLoopedExperts];

/** Replaces the mixtures that Hearth's kernels compute; others are unchanged. */
export function replaceMixtures(search: MixtureSearch): MixtureGraph {
  const { inputs } = search.probes;
  const mixtures: ReplacedMixture[] = [];
  let notes: ReadonlySet<string>;
  const values: ((lengths: Lengths) => [string, Value] | undefined)[] = [];
  let { index, probes } = search;
  // Shapes after a spelled-out mixture are unknown until the mixture is replaced. So layers are found one after the
  // other.
  for (;;) {
    const { added, refusals } = findMixtures({ index, probes });
    notes = refusals;
    if (added.length === 0) break;
    const replaced = new Map(added.map((mixture) => [mixture.node.outputs[0]!, mixture.node]));
    for (const { found } of added) {
      const before = probes;
      values.push((lengths) => {
        const value = findResult(found, before, lengths);
        return value && [found.output, value];
      });
    }
    mixtures.push(...added);
    const nodes = index.graph.nodes.map((node) => replaced.get(node.outputs[0] ?? "") ?? node);
    index = new GraphIndex({ ...index.graph, nodes });
    probes = new Probes(index, inputs, knownFrom([...values]));
  }
  return { graph: index.graph, mixtures, known: knownFrom(values), notes: [...notes] };
}

/**
 * The type and shape of a mixture's result. If they cannot be computed, the result is assumed to have a row for each
 * token, in the type of `x`.
 */
function findResult(
  { x, output, mixture: { hidden } }: FoundMixture,
  probes: Probes,
  lengths: Lengths,
): Value | undefined {
  const run = probes.at(lengths);
  const { dtype, shape } = run.value(output) ?? {
    dtype: run.value(x)?.dtype,
    shape: [lengths.numTokens, hidden],
  };
  return dtype && { dtype, shape };
}

function knownFrom(
  values: readonly ((lengths: Lengths) => [string, Value] | undefined)[],
): MixtureGraph["known"] {
  return (lengths) =>
    new Map(values.map((read) => read(lengths)).filter((value) => value !== undefined));
}

/** Finds the mixtures that can be recognized with the shapes known so far, and says why others are refused. */
function findMixtures(
  search: MixtureSearch,
): { readonly added: readonly ReplacedMixture[]; readonly refusals: ReadonlySet<string> } {
  const refusals = new Set<string>();
  const added = search.index.graph.nodes.flatMap((node): ReplacedMixture | [] => {
    try {
      const found = FINDERS.map((find) => find(node, search)).find((each) => each !== undefined);
      if (found === undefined) return [];
      requireComputable(found, search);
      const { x, logits, output, name } = found;
      const options = { domain: KERNEL_DOMAIN, name };
      return { found, node: makeNode("ExpertsNode", [x, logits], [output], options) };
    } catch (error) {
      // Kernels throw a RangeError for sizes that they do not support.
      if (!(error instanceof Refusal) && !(error instanceof RangeError)) throw error;
      refusals.add(`Experts run in ONNX Runtime: ${error.message}`);
      return [];
    }
  });
  return { added, refusals };
}

/** @throws {Refusal} or {RangeError} when the kernels do not compute a mixture. */
function requireComputable(found: FoundMixture, { probes }: MixtureSearch) {
  const { mixture, x, output, logits } = found;
  const findValue = (name: string) => probes.at(SHORT_LENGTHS[0]).value(name);
  const dtype = findResult(found, probes, SHORT_LENGTHS[0])?.dtype;
  if (dtype !== "float32" && dtype !== "float16") {
    throw new Refusal(
      `"${output}" is ${dtype ?? "of unknown type"}; kernels compute in float32 or float16.`,
    );
  }
  const other = [
    ...[x, logits].map((name) => ({ name, dtype: findValue(name)?.dtype })),
    ...findWeights(mixture).filter((tensor) => tensor.dtype !== "uint8"),
  ].find((each) => each.dtype !== dtype);
  if (other !== undefined) {
    throw new Refusal(`"${other.name}" is ${other.dtype ?? "unknown"}, "${output}" ${dtype}.`);
  }
  const rows = (stride: number) => ({ stride, offset: 0 });
  const { hidden, experts } = mixture;
  checkExperts(
    toExpertsParams(mixture, { elem: toElem(dtype), x: rows(hidden), logits: rows(experts) }),
  );
}
