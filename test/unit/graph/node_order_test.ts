import assert from "node:assert/strict";
import { findLiveNodes, listReads, sortNodes } from "../../../src/graph/graph_index.ts";
import { ATTRIBUTE, makeNode, type Node } from "../../../src/graph/file/proto.ts";
import { MessageWriter } from "../../../src/graph/file/wire.ts";

const names = (nodes: readonly Node[]) => nodes.map(({ name }) => name);

/** Makes an `If` whose branch reads `inner` and computes `own`. */
function branching(output: string, inner: string): Node {
  const relu = new MessageWriter().text(1, inner).text(2, "own").text(4, "Relu");
  const result = new MessageWriter().text(1, "own");
  const graph = new MessageWriter().message(1, relu).message(12, result);
  const message = new MessageWriter().text(ATTRIBUTE.name, "then_branch")
    .message(ATTRIBUTE.graph, graph).finish();
  return {
    ...makeNode("If", ["condition"], [output]),
    attributes: [{ name: "then_branch", message }],
  };
}

Deno.test("sortNodes() does not change a sorted graph", () => {
  const nodes = [
    makeNode("Add", ["x", "x"], ["a"]),
    makeNode("Relu", ["x"], ["b"]),
    makeNode("Mul", ["a", "b"], ["c"]),
  ];
  assert.deepEqual(sortNodes(nodes), nodes);
});

Deno.test("sortNodes() moves late nodes before their readers", () => {
  const nodes = [
    makeNode("Mul", ["a", "b"], ["c"]),
    makeNode("Relu", ["x"], ["unneeded"]),
    makeNode("Relu", ["a", ""], ["b"]),
    makeNode("Add", ["x", "x"], ["a"]),
  ];
  assert.deepEqual(names(sortNodes(nodes)), ["a", "b", "c", "unneeded"]);
});

Deno.test("sortNodes() includes a branch's reads from the outer graph", () => {
  const nodes = [branching("y", "a"), makeNode("Relu", ["x"], ["a"])];
  assert.deepEqual(listReads(nodes[0]!), ["condition", "a"]);
  assert.deepEqual(names(sortNodes(nodes)), ["a", "y"]);
});

Deno.test("findLiveNodes() keeps what a branch reads", () => {
  const nodes = [
    makeNode("Relu", ["x"], ["a"]),
    makeNode("Relu", ["x"], ["dead"]),
    branching("y", "a"),
  ];
  assert.deepEqual(names(findLiveNodes(nodes, ["y"])), ["a", "y"]);
});

Deno.test("sortNodes() refuses a cycle of nodes, naming one", () => {
  const nodes = [makeNode("Relu", ["b"], ["a"]), makeNode("Relu", ["a"], ["b"])];
  assert.throws(() => sortNodes(nodes), { message: /node "a" \(Relu\) needs its own output/ });
});

Deno.test("sortNodes() sorts a chain of 100000 nodes in reverse order", () => {
  const count = 100_000;
  const nodes = Array.from(
    { length: count },
    (_, i) => makeNode("Relu", [`t${count - i - 1}`], [`t${count - i}`]),
  );
  assert.deepEqual(names(sortNodes(nodes)), names(nodes.toReversed()));
});
