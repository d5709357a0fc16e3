import assert from "node:assert/strict";
import { fuseSkipNorms } from "../../../src/graph/rewrite/fused_operators.ts";
import { Tensor } from "../../../src/device/ort/ort.ts";
import { makeNode, type ModelProto, type Node } from "../../../src/graph/file/proto.ts";
import { makeValueInfo, writeModel } from "../../../src/graph/file/proto_codec.ts";
import { constant } from "../../fixtures/graphs/onnx_builder.ts";
import { makeNormal } from "../../kernels/exact_sampling.ts";
import { openCpuSession } from "./cpu_session.ts";

const WIDTH = 8;
const ROWS = ["batch", "tokens", WIDTH];
const EPSILON = 0.01;

/** Builds `norm = LayerNormalization(sum)`, with the given nodes before it, which compute the sum, and after it. */
function build(
  before: readonly Node[],
  outputs: readonly string[],
  after: readonly Node[] = [],
): ModelProto {
  const normal = makeNormal(2);
  const vector = (name: string) =>
    constant(name, [WIDTH], new Float32Array(WIDTH).map(() => normal()));
  return {
    irVersion: 8,
    operatorSets: [{ domain: "", version: 17 }],
    rest: [],
    graph: {
      ...{ name: "test", valueInfos: [], rest: [] },
      nodes: [
        ...before,
        makeNode("LayerNormalization", ["sum", "scale", "shift"], ["norm"], {
          attributes: { axis: -1, epsilon: { float: EPSILON } },
        }),
        ...after,
      ],
      initializers: [
        ...["scale", "shift", "bias"].map(vector),
        constant("row", [1, 1, WIDTH], new Float32Array(WIDTH).map(() => normal())),
      ],
      inputs: ["x", "y"].map((name) => makeValueInfo(name, "float32", ROWS)),
      outputs: outputs.map((name) => makeValueInfo(name, "float32", ROWS)),
    },
  };
}

function operators({ graph }: ModelProto): string[] {
  return graph.nodes.map(({ opType }) => opType);
}

async function run(model: ModelProto): Promise<Record<string, Float32Array>> {
  const normal = makeNormal(3);
  const session = await openCpuSession(writeModel(model));
  const tensor = () =>
    new Tensor("float32", new Float32Array(2 * 3 * WIDTH).map(() => normal()), [2, 3, WIDTH]);
  const results = await session.run({ x: tensor(), y: tensor() });
  await session.release();
  return Object.fromEntries(
    Object.entries(results).map(([name, { data }]) => [name, data as Float32Array]),
  );
}

async function assertSame(model: ModelProto): Promise<void> {
  const [want, got] = [await run(model), await run(fuseSkipNorms(model))];
  assert.deepEqual(Object.keys(got), Object.keys(want));
  for (const [name, values] of Object.entries(want)) {
    values.forEach((x, i) => assert.ok(Math.abs(got[name]![i]! - x) < 1e-5, `${name}[${i}]`));
  }
}

const SUM = makeNode("Add", ["x", "y"], ["sum"]);

Deno.test("fuseSkipNorms() fuses a sum and its norm", async () => {
  const model = build([SUM], ["norm"]);
  assert.deepEqual(operators(fuseSkipNorms(model)), ["SkipLayerNormalization"]);
  await assertSame(model);
});

Deno.test("fuseSkipNorms() fuses the bias of either summand, and keeps a sum that has other readers", async () => {
  const sides = [["biased", "y"], ["x", "biased"]] as const;
  for (const side of sides) {
    const source = side[0] === "x" ? "y" : "x";
    for (const inputs of [[source, "bias"], ["bias", source]]) {
      const before = [makeNode("Add", inputs, ["biased"]), makeNode("Add", side, ["sum"])];
      const after = [makeNode("Mul", ["sum", "norm"], ["product"])];
      const model = build(before, ["norm", "sum", "product"], after);
      assert.deepEqual(operators(fuseSkipNorms(model)), ["SkipLayerNormalization", "Mul"]);
      await assertSame(model);
    }
  }
});

Deno.test("fuseSkipNorms() does not fuse a bias with other readers, or sums of different shapes", async () => {
  const shared = build(
    [makeNode("Add", ["x", "bias"], ["biased"]), makeNode("Add", ["biased", "y"], ["sum"])],
    ["norm", "biased"],
  );
  assert.deepEqual(operators(fuseSkipNorms(shared)), ["Add", "SkipLayerNormalization"]);
  await assertSame(shared);
  for (const inputs of [["x", "bias"], ["x", "row"]]) {
    const model = build([makeNode("Add", inputs, ["sum"])], ["norm"]);
    assert.equal(fuseSkipNorms(model), model);
  }
  const other = build([makeNode("Mul", ["x", "y"], ["sum"])], ["norm"]);
  assert.equal(fuseSkipNorms(other), other);
});

Deno.test("fuseSkipNorms() does not fuse the second of two norms of one sum", async () => {
  const second = makeNode("LayerNormalization", ["sum", "shift", "scale"], ["second"], {
    attributes: { axis: 2 },
  });
  const model = build([SUM], ["norm", "second"], [second]);
  assert.deepEqual(operators(fuseSkipNorms(model)), [
    "SkipLayerNormalization",
    "LayerNormalization",
  ]);
  await assertSame(model);
});
