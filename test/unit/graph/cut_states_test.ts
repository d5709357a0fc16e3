import assert from "node:assert/strict";
import { compileForCpu, compileForGpu } from "../../../src/cli/cut_report.ts";
import { readIntsAttribute } from "../../../src/graph/file/proto.ts";
import { cutGraph } from "../../../src/graph/cut/cut_graph.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { assertSameAsWhole } from "./compare.ts";
import { additiveMask, spelledOut } from "./spelled_out.ts";
import { gatedDelta, scanned, shortConvolution, type StateLayer } from "./state_layers.ts";
import { decoder, inMemory } from "./test_decoder.ts";

/** Makes a decoder whose layers have these states, each before an attention in basic operators. */
function withStates(...states: StateLayer[]): Uint8Array<ArrayBuffer> {
  const attention = spelledOut({
    scores: (graph, scores) => graph.add("Add", [scores, additiveMask(graph)]),
  });
  return decoder(attention, { states, opset: 18 });
}

/** Lists the kinds of recurrences, in order. */
const readKinds = ({ states }: { readonly states: readonly { recurrence: { kind: string } }[] }) =>
  states.map(({ recurrence }) => recurrence.kind);

Deno.test("cutGraph() cuts short convolutions with a state, and leaves no transposes of their channels", async () => {
  const cut = await assertSameAsWhole(withStates(shortConvolution(0), shortConvolution(1)));
  assert.deepEqual(readKinds(cut), ["convolution", "convolution"]);
  assert.deepEqual(cut.states[0]!.output.shape, [1, "tokens", 24]);
  // No transposes between rows and channels remain.
  const transposes = cut.segments.flatMap(({ model }) => model.graph.nodes)
    .filter((node) => readIntsAttribute(node, "perm")?.join() === "0,2,1");
  assert.deepEqual(transposes.map(({ name }) => name), []);
});

Deno.test("cutGraph() reads integer convolutions as convolutions of the values that the integers stand for", async () => {
  const make = (levels: "integers" | "values") =>
    withStates(...[0, 1].map((index) => shortConvolution(index, { levels })));
  const cut = await assertSameAsWhole(make("integers"), { truth: make("values") });
  assert.deepEqual(readKinds(cut), ["convolution", "convolution"]);
});

Deno.test("cutGraph() cuts the gated delta rule in ONNX Runtime's operators", async () => {
  const cut = await assertSameAsWhole(withStates(gatedDelta(0), gatedDelta(1)));
  assert.deepEqual(readKinds(cut), [
    ...["convolution", "linear_attention"],
    ...["convolution", "linear_attention"],
  ]);
  const [convolution, attention] = cut.states.map(({ recurrence }) => recurrence);
  assert.ok(convolution?.kind === "convolution" && convolution.activation === "silu");
  assert.ok(attention?.kind === "linear_attention" && attention.decay === "logarithm");
  assert.deepEqual([attention.rates, attention.keyHeads, attention.heads], [4, 2, 4]);
  const operators = cut.segments.flatMap(({ model }) =>
    model.graph.nodes.map(({ opType }) => opType)
  );
  assert.ok(
    !operators.includes("LpNormalization"),
    "LpNormalization is replaced by a norm by mean square, which kernels have",
  );
});

Deno.test("cutGraph() expands the operators around linear attentions in exports for CUDA", async () => {
  const layers = [0, 1].map((index) =>
    gatedDelta(index, { isFused: true, sizes: { heads: 4, keyHeads: 2, keyDim: 8, valueDim: 8 } })
  );
  const cut = await assertSameAsWhole(withStates(...layers));
  assert.equal(cut.states.length, 4);
  for (const compiled of [compileForGpu(cut), compileForCpu(cut)]) {
    const refusals = compiled.map((segment) => "refused" in segment ? segment.refused : "");
    assert.deepEqual(new Set(refusals), new Set([""]));
  }
});

for (const [isDelta, hasProducts] of [[false, false], [true, false], [true, true]] as const) {
  const name = isDelta ? "the delta rule" : "Mamba-2's recurrence";
  const how = hasProducts ? ", written in products" : "";
  Deno.test(`cutGraph() finds ${name} in a Scan by its body${how}`, async () => {
    const layers = [0, 1].map((index) => scanned(index, { isDelta, hasProducts }));
    const cut = await assertSameAsWhole(withStates(...layers));
    const [{ recurrence }] = cut.states as [typeof cut.states[number]];
    assert.ok(recurrence.kind === "linear_attention");
    assert.deepEqual(
      [recurrence.keyHeads, recurrence.rates, recurrence.decay, recurrence.scale],
      isDelta ? [4, 4, "factor", 1] : [1, 0, "factor", 1],
    );
    assert.deepEqual([recurrence.keyDim, recurrence.valueDim], [8, 6]);
  });
}

Deno.test("cutGraph() refuses a convolution that looks ahead", async () => {
  const model = await readModel(inMemory(withStates(shortConvolution(0))), "model.onnx");
  const { graph } = model;
  const nodes = graph.nodes.map((node) =>
    node.opType === "Slice" && node.outputs[0]?.startsWith("Slice")
      // The first results, which belong to earlier tokens.
      ? { ...node, inputs: node.inputs.with(1, "ints_1_0").with(2, "ints_1_2") }
      : node
  );
  const result = cutGraph({ ...model, graph: { ...graph, nodes } }, { contextLength: 64 });
  assert.ok("refused" in result);
});
