/** Memory that native sessions write into. */
import assert from "node:assert/strict";
import { CpuBackend } from "../../../src/device/cpu/cpu.ts";
import { Tensor } from "../../../src/device/ort/ort.ts";
import { makeNode } from "../../../src/graph/file/proto.ts";
import { buildModel } from "../../fixtures/graphs/onnx_builder.ts";

const doubling = buildModel({
  nodes: [makeNode("Add", ["x", "x"], ["y"])],
  inputs: [["x", "float32", [1, "n"]]],
  outputs: [["y", "float32", [1, "n"]]],
});

Deno.test("CpuBackend.allocate() returns memory that sessions write into, and read() returns a copy", async (t) => {
  const backend = await CpuBackend.open();
  try {
    if (backend.runtime !== "native") {
      await t.step({ name: "no native runtime here", ignore: true, fn: () => {} });
      assert.equal(backend.allocate(16), undefined);
      return;
    }
    const storage = backend.allocate(16)!;
    const session = await backend.openSession(doubling);
    const run = async (values: readonly number[]) => {
      const dims = [1, values.length];
      const y = storage.tensor("float32", dims);
      const x = new Tensor("float32", Float32Array.from(values), dims);
      assert.equal((await session.run({ x }, { y }))["y"], y);
      return y;
    };
    const first = await run([1, 2, 3, 4]);
    const read = await backend.read(first);
    const second = await run([5, 6]);
    assert.deepEqual([...second.data as Float32Array], [10, 12]);
    assert.deepEqual(
      [...first.data as Float32Array],
      [10, 12, 6, 8],
      "a tensor of the same storage shares its memory",
    );
    assert.deepEqual([...read], [2, 4, 6, 8], "what read() returned is a copy");
    storage.dispose();
  } finally {
    await backend.dispose();
  }
});
