import assert from "node:assert/strict";
import { Tensor } from "../../../src/device/ort/ort.ts";
import { makeNode } from "../../../src/graph/file/proto.ts";
import { openTensorOp } from "../../../src/device/ort/tensor_ops.ts";
import { buildModel, type Declared } from "../../fixtures/graphs/onnx_builder.ts";
import { openCpuSession } from "./cpu_session.ts";

const PICTURES: Declared = ["x", "float32", ["b", "c", "h", "w"]];
const RESULT: Declared = ["y", "float32", ["b", "c", "h2", "w2"]];
const ints = (name: string): Declared => [name, "int64", ["n"]];

function resizeModel(mode: string): Uint8Array {
  const node = makeNode("Resize", ["x", "", "", "s"], ["y"], { attributes: { mode } });
  const sizes: Declared = ["s", "int64", [4]];
  return buildModel({ nodes: [node], inputs: [PICTURES, sizes], outputs: [RESULT], opset: 20 });
}

function sliceModel(): Uint8Array {
  return buildModel({
    nodes: [makeNode("Slice", ["x", "s", "e", "a", "t"], ["y"])],
    inputs: [PICTURES, ints("s"), ints("e"), ints("a"), ints("t")],
    outputs: [RESULT],
    opset: 13,
  });
}

function int64(...values: number[]): Tensor {
  return new Tensor("int64", BigInt64Array.from(values, BigInt), [values.length]);
}

/** Makes a tensor of noise. */
function noise(dims: readonly number[]): Tensor {
  const count = dims.reduce((product, size) => product * size, 1);
  const data = Float32Array.from({ length: count }, (_, i) => Math.sin(i * 12.9898) * 43.5 % 1);
  return new Tensor("float32", data, dims);
}

async function assertSameAsRuntime(
  model: Uint8Array,
  feeds: Record<string, Tensor>,
): Promise<void> {
  const op = (await openTensorOp(model))!;
  const session = await openCpuSession(model);
  const [mine, theirs] = [(await op.run(feeds))["y"]!, (await session.run(feeds))["y"]!];
  await session.release();
  assert.deepEqual(mine.dims, theirs.dims);
  const wanted = theirs.data as Float32Array;
  (mine.data as Float32Array).forEach((value, i) =>
    assert.ok(Math.abs(value - wanted[i]!) < 1e-5, `${i}: ${value}, ${wanted[i]}`)
  );
}

Deno.test("openTensorOp() resizes like ONNX Runtime, larger, smaller and to a point", async () => {
  const model = resizeModel("linear");
  for (const [height, width] of [[9, 14], [3, 4], [6, 7], [1, 1], [25, 2]] as const) {
    await assertSameAsRuntime(model, {
      x: noise([2, 3, 6, 7]),
      s: int64(2, 3, height, width),
    });
  }
});

Deno.test("openTensorOp() refuses to resize other axes, and to slice with other steps than 1", async () => {
  const x = noise([2, 3, 6, 7]);
  const resize = (await openTensorOp(resizeModel("linear")))!;
  await assert.rejects(async () => await resize.run({ x, s: int64(2, 4, 6, 7) }), {
    name: "RangeError",
    message: /height and width .*\[2,3,6,7\] to \[2,4,6,7\]/,
  });
  const slice = (await openTensorOp(sliceModel()))!;
  const feeds = { x, s: int64(0), e: int64(6), a: int64(2), t: int64(2) };
  await assert.rejects(async () => await slice.run(feeds), {
    name: "RangeError",
    message: /steps of 1 .*\[2\]/,
  });
});

Deno.test("openTensorOp() slices like ONNX Runtime, also counted from the end", async () => {
  const model = sliceModel();
  for (const [s, e] of [[[1, 2], [4, 6]], [[0, -3], [100, -1]], [[5, 6], [6, 7]]] as const) {
    await assertSameAsRuntime(model, {
      x: noise([2, 3, 6, 7]),
      s: int64(...s),
      e: int64(...e),
      a: int64(2, 3),
      t: int64(1, 1),
    });
  }
});

Deno.test("openTensorOp() returns undefined for other graphs, which the runtime runs", async () => {
  assert.equal(await openTensorOp(resizeModel("cubic")), undefined);
  const nodes = [makeNode("Relu", ["x"], ["z"]), makeNode("Relu", ["z"], ["y"])];
  const two = buildModel({ nodes, inputs: [PICTURES], outputs: [RESULT] });
  assert.equal(await openTensorOp(two), undefined);
});
