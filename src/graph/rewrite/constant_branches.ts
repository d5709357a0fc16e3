/**
 * Joins tables between which a graph chooses by the length of the sequence. LongRoPE has one pair of tables (cosines
 * and sines) for short sequences and another for long ones. Some graphs already have joined tables, for devices without
 * `If`: they add the number of rows for short sequences to the positions of long ones.
 *
 * @module
 */
import {
  type Graph,
  makeNode,
  type Node,
  readTensorAttribute,
  type Tensor,
} from "../file/proto.ts";
import { decodeTensorMessage } from "../file/proto_codec.ts";
import { countStoredBytes } from "../file/tensor.ts";
import { describeNode, findLiveNodes, readNested } from "../graph_index.ts";
import type { Probes } from "../probes.ts";
import { Refusal } from "../refusal.ts";

/** A graph without such choices. */
interface WithoutChoices {
  readonly graph: Graph;
  /**
   * Length of the longest sequence that reads the tables from row 0 on. Longer sequences read them from this row on.
   */
  readonly longFrom?: number | undefined;
}

type Branches = Readonly<Record<"then_branch" | "else_branch", readonly Tensor[]>>;

/**
 * Replaces each `If` between constants by one table: the rows for short sequences, followed by those for longer ones.
 * If no sequence can be longer, it is only the table for short ones.
 *
 * @throws {Refusal} when choices are made at different lengths, a condition cannot be computed, or tables do not fit
 * each other.
 */
export function joinConstantBranches(probes: Probes, contextLength: number): WithoutChoices {
  const { graph } = probes.index;
  const joined: Tensor[] = [];
  let longFrom: number | undefined;
  const nodes = graph.nodes.filter((node) => {
    const branches = readConstantBranches(node, probes.index.constants);
    if (branches === undefined) return true;
    const choice = findChoice(probes, node, contextLength);
    const from = choice.length < contextLength ? choice.length : undefined;
    if (from !== undefined && longFrom !== undefined && from !== longFrom) {
      throw new Refusal(
        `${describeNode(node)} chooses at a different length than an earlier node.`,
      );
    }
    longFrom ??= from;
    const [short, long] = choice.isFirst
      ? [branches.then_branch, branches.else_branch]
      : [branches.else_branch, branches.then_branch];
    node.outputs.forEach((name, i) =>
      joined.push(
        from === undefined
          ? { ...short[i]!, name }
          : joinRows(name, { short: short[i]!, long: long[i]!, from, node }),
      )
    );
    return false;
  });
  if (joined.length === 0) return readShiftedPositions(probes, contextLength) ?? { graph };
  return { graph: { ...graph, nodes, initializers: [...graph.initializers, ...joined] }, longFrom };
}

/** Removes the offset that a graph adds to the positions of long sequences; `undefined` if it adds none. */
function readShiftedPositions(probes: Probes, contextLength: number): WithoutChoices | undefined {
  const { graph, producers } = probes.index;
  const positions = probes.inputs.positions?.name;
  /** Matches a sum of the positions, possibly cast, and a computed offset. */
  const readSum = ({ opType, inputs: [left, right] }: Node) => {
    if (opType !== "Add") return undefined;
    for (const [shift, own] of [[left!, right!], [right!, left!]] as const) {
      const producer = producers.get(own);
      const original = producer?.opType === "Cast" ? producer.inputs[0] : own;
      if (original === positions && producers.has(shift)) return { shift, own };
    }
    return undefined;
  };
  const sums = graph.nodes.flatMap((node) => {
    const sum = readSum(node);
    if (sum === undefined) return [];
    const at = (length: number) => {
      const value = probes.at({ pastLength: length - 1, numTokens: 1 }).value(sum.shift);
      return value?.data?.length === 1 ? value.data[0] : undefined;
    };
    const length = findChange(at, contextLength);
    const longFrom = length < contextLength ? length : undefined;
    const isOffset = at(1) === 0 && (longFrom === undefined || at(contextLength) === longFrom);
    return isOffset ? [{ node, own: sum.own, longFrom }] : [];
  });
  const [first, ...others] = sums;
  if (first === undefined || others.length > 0) return undefined;
  const nodes = graph.nodes.map((node) =>
    node === first.node ? makeNode("Identity", [first.own], node.outputs) : node
  );
  const wanted = graph.outputs.map(({ name }) => name);
  return { graph: { ...graph, nodes: findLiveNodes(nodes, wanted) }, longFrom: first.longFrom };
}

/** Reads the constants that the two branches of an `If` return; `undefined` if they do not return constants. */
function readConstantBranches(
  node: Node,
  constants: ReadonlyMap<string, Tensor>,
): Branches | undefined {
  if (node.opType !== "If") return undefined;
  const read = (branch: keyof Branches) => {
    const message = node.attributes.find(({ name }) => name === branch)?.message;
    if (message === undefined) return undefined;
    const { nodes, initializers, outputs } = readNested(message);
    const tensors = outputs.flatMap((name) => {
      const producer = nodes.find(({ outputs: [output] }) => output === name);
      const value = producer?.opType === "Constant" && readTensorAttribute(producer, "value");
      if (value) return decodeTensorMessage(value);
      const source = producer?.opType === "Identity" ? producer.inputs[0]! : name;
      return initializers.find((each) => each.name === source) ?? constants.get(source) ?? [];
    });
    return tensors.length === node.outputs.length ? tensors : undefined;
  };
  const [then, otherwise] = [read("then_branch"), read("else_branch")];
  return then && otherwise && { then_branch: then, else_branch: otherwise };
}

/**
 * Finds the greatest length of sequences that take the same branch as the shortest one, and whether that is the first
 * branch.
 */
function findChoice(
  probes: Probes,
  node: Node,
  contextLength: number,
): { readonly length: number; readonly isFirst: boolean } {
  const at = (length: number) => {
    const value = probes.at({ pastLength: length - 1, numTokens: 1 }).value(node.inputs[0]!);
    if (value?.data?.length === 1) return value.data[0] !== 0;
    throw new Refusal(
      `The condition of ${describeNode(node)} cannot be computed by partial evaluation.`,
    );
  };
  return { length: findChange(at, contextLength), isFirst: at(1) };
}

/** The greatest length for which `at` returns the same as for length 1, given that its result changes at most once. */
function findChange(at: (length: number) => unknown, contextLength: number): number {
  const first = at(1);
  if (at(contextLength) === first) return contextLength;
  let [same, other] = [1, contextLength];
  while (other - same > 1) {
    const middle = Math.floor((same + other) / 2);
    if (at(middle) === first) same = middle;
    else other = middle;
  }
  return same;
}

/** Joins the first rows of one table and all rows of another. */
function joinRows(
  name: string,
  { short, long, from, node }: {
    readonly short: Tensor;
    readonly long: Tensor;
    readonly from: number;
    readonly node: Node;
  },
): Tensor {
  const [shortRows, ...row] = short.shape;
  const [longRows, ...longRow] = long.shape;
  const isAlike = short.dtype === long.dtype && row.join() === longRow.join();
  if (!isAlike || shortRows === undefined || shortRows < from || longRows === undefined) {
    throw new Refusal(`${describeNode(node)} chooses between tables that do not fit each other.`);
  }
  const rowBytes = countStoredBytes(long) / longRows;
  return {
    name,
    dtype: long.dtype,
    shape: [from + longRows, ...row],
    data: {
      kind: "computed",
      sources: [short, long],
      length: (from + longRows) * rowBytes,
      compute: ([first, second], into) => {
        into.set(first!.subarray(0, from * rowBytes));
        into.set(second!, from * rowBytes);
      },
    },
    rest: [],
  };
}
