/**
 * Joins tables between which a graph chooses by the sequence's length: LongRoPE has one pair of cosines and sines for
 * short sequences and one for long ones.
 *
 * @module
 */
import type { Graph, Node, Tensor } from "../file/proto.ts";
import { tensorAttribute } from "../file/proto.ts";
import { decodeTensorMessage } from "../file/proto_decode.ts";
import { storedBytes } from "../file/stored_tensor.ts";
import { describeNode } from "../graph_index.ts";
import { readBranch } from "../node_order.ts";
import type { Probes } from "../probes.ts";
import { Refusal } from "../refusal.ts";

/** A graph without such choices. */
interface WithoutChoices {
  readonly graph: Graph;
  /** Tokens of the longest sequence that reads rows 0, 1, 2 … of the tables; longer ones read from this row on. */
  readonly longFrom?: number | undefined;
}

type Branches = Readonly<Record<"then_branch" | "else_branch", readonly Tensor[]>>;

/**
 * Replaces each `If` between constants by one table: the rows of short sequences, then those of longer ones; or by the
 * short ones' table if no sequence can be longer.
 *
 * @throws {Refusal} when the choice depends on anything but one length.
 */
export function joinConstantBranches(probes: Probes, contextLength: number): WithoutChoices {
  const { graph } = probes.index;
  const joined: Tensor[] = [];
  let longFrom: number | undefined;
  const nodes = graph.nodes.filter((node) => {
    const branches = constantBranches(node, probes.index.constants);
    if (branches === undefined) return true;
    const choice = findChoice(probes, node, contextLength);
    const from = choice.length < contextLength ? choice.length : undefined;
    if (from !== undefined && longFrom !== undefined && from !== longFrom) {
      throw new Refusal(`${describeNode(node)} chooses at another length than one before it.`);
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
  if (joined.length === 0) return { graph };
  return { graph: { ...graph, nodes, initializers: [...graph.initializers, ...joined] }, longFrom };
}

/** The constants that the two branches of an `If` return, if they are constants. */
function constantBranches(
  node: Node,
  constants: ReadonlyMap<string, Tensor>,
): Branches | undefined {
  if (node.opType !== "If") return undefined;
  const read = (branch: keyof Branches) => {
    const message = node.attributes.find(({ name }) => name === branch)?.message;
    if (message === undefined) return undefined;
    const { nodes, initializers, outputs } = readBranch(message);
    const tensors = outputs.flatMap((name) => {
      const producer = nodes.find(({ outputs: [output] }) => output === name);
      const value = producer?.opType === "Constant" && tensorAttribute(producer, "value");
      if (value) return decodeTensorMessage(value);
      const source = producer?.opType === "Identity" ? producer.inputs[0]! : name;
      return initializers.find((each) => each.name === source) ?? constants.get(source) ?? [];
    });
    return tensors.length === node.outputs.length ? tensors : undefined;
  };
  const [then, otherwise] = [read("then_branch"), read("else_branch")];
  return then && otherwise && { then_branch: then, else_branch: otherwise };
}

/** The length up to which sequences take the same branch as the shortest, and whether that is the first branch. */
function findChoice(
  probes: Probes,
  node: Node,
  contextLength: number,
): { readonly length: number; readonly isFirst: boolean } {
  const at = (length: number) => {
    const value = probes.at({ pastLength: length - 1, numTokens: 1 }).value(node.inputs[0]!);
    if (value?.data?.length === 1) return value.data[0] !== 0;
    throw new Refusal(`${describeNode(node)} chooses by what cannot be followed.`);
  };
  const isFirst = at(1);
  if (at(contextLength) === isFirst) return { length: contextLength, isFirst };
  let [same, other] = [1, contextLength];
  while (other - same > 1) {
    const middle = Math.floor((same + other) / 2);
    if (at(middle) === isFirst) same = middle;
    else other = middle;
  }
  return { length: same, isFirst };
}

/** The first rows of one table, followed by all of another. */
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
  const rowBytes = storedBytes(long) / longRows;
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
