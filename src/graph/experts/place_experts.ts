/**
 * Puts one site node in place of each mixture of experts.
 *
 * @module
 */
import { checkExperts } from "../../../kernels/experts/experts_params.ts";
import { SITE_DOMAIN } from "../attention/attention_sites.ts";
import type { Value } from "../evaluate/value.ts";
import { type Graph, makeNode, type Node } from "../file/proto.ts";
import { type Lengths, SHORT_LENGTHS } from "../probes.ts";
import { Refusal } from "../refusal.ts";
import { findExperts } from "./find_experts.ts";
import { expertsParams, type FoundMixture, type MixtureSearch, weightsOf } from "./mixture.ts";

/** A mixture and the node that stands for it: its inputs are rows and logits. */
export interface PlacedMixture {
  readonly found: FoundMixture;
  readonly node: Node;
}

/** A graph whose mixtures of experts are site nodes. */
export interface MixtureGraph {
  readonly graph: Graph;
  readonly mixtures: readonly PlacedMixture[];
  /** The results of the site nodes in a run. */
  readonly known: (lengths: Lengths) => ReadonlyMap<string, Value>;
  /** In one sentence each, why mixtures are left to ONNX Runtime. */
  readonly notes: readonly string[];
}

const FINDERS = [findExperts];

/** Mixtures that Hearth's kernels do not compute stay as they are. */
export function placeExperts(search: MixtureSearch): MixtureGraph {
  const { index: { graph }, probes } = search;
  const mixtures: PlacedMixture[] = [];
  const notes = new Set<string>();
  for (const node of graph.nodes) {
    try {
      const found = FINDERS.map((find) => find(node, search)).find((each) => each !== undefined);
      if (found === undefined) continue;
      requireComputable(found, search);
      const { x, logits, output, name } = found;
      const site = makeNode("ExpertsSite", [x, logits], [output], { domain: SITE_DOMAIN, name });
      mixtures.push({ found, node: site });
    } catch (error) {
      // A kernel refuses sizes by a RangeError.
      if (!(error instanceof Refusal) && !(error instanceof RangeError)) throw error;
      notes.add(`Experts run in ONNX Runtime: ${error.message}`);
    }
  }
  const placed = new Map(mixtures.map(({ node }) => [node.outputs[0]!, node]));
  const nodes = graph.nodes.map((node) => placed.get(node.outputs[0] ?? "") ?? node);
  const known = (lengths: Lengths) =>
    new Map([...placed.keys()].flatMap((output): [string, Value][] => {
      const value = probes.at(lengths).value(output);
      return value === undefined ? [] : [[output, { dtype: value.dtype, shape: value.shape }]];
    }));
  return { graph: { ...graph, nodes }, mixtures, known, notes: [...notes] };
}

/** @throws {Refusal} or {RangeError} when the kernels do not compute it. */
function requireComputable(
  { mixture, x, output, logits }: FoundMixture,
  { probes }: MixtureSearch,
) {
  const valueOf = (name: string) => probes.at(SHORT_LENGTHS[0]).value(name);
  const dtype = valueOf(output)?.dtype;
  if (dtype !== "float32" && dtype !== "float16") {
    throw new Refusal(`"${output}" is ${dtype ?? "unknown"}; they compute in float32 or float16.`);
  }
  const other = [
    ...[x, logits].map((name) => ({ name, dtype: valueOf(name)?.dtype })),
    ...weightsOf(mixture).filter((tensor) => tensor.dtype !== "uint8"),
  ].find((each) => each.dtype !== dtype);
  if (other !== undefined) {
    throw new Refusal(`"${other.name}" is ${other.dtype ?? "unknown"}, "${output}" ${dtype}.`);
  }
  const elem = dtype === "float16" ? "f16" : "f32";
  const rows = (stride: number) => ({ stride, offset: 0 });
  const { hidden, experts } = mixture;
  checkExperts(expertsParams(mixture, { elem, x: rows(hidden), logits: rows(experts) }));
}
