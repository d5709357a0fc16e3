import assert from "node:assert/strict";
import { assertSameValues } from "../../fixtures/engine/compare_values.ts";
import {
  copyNormalNoise,
  getNormalTable,
  noiseOffset,
  readNoiseInput,
  seedNoise,
} from "../../../src/graph/rewrite/seeded_noise.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { writeModel } from "../../../src/graph/file/proto_codec.ts";
import { makeInputTensor } from "../../../src/models/folder/graph_file.ts";
import { GraphBuilder } from "../../fixtures/graphs/graph_builder.ts";
import { openCpuSession } from "./cpu_session.ts";

function bytesAsFiles(bytes: Uint8Array) {
  return {
    size: () => Promise.resolve(bytes.length),
    read: (_: string, offset: number, target: Uint8Array) => {
      target.set(bytes.subarray(offset, offset + target.length));
      return Promise.resolve();
    },
  };
}

/** Builds a graph with random operators. */
function buildNoisy(): Uint8Array<ArrayBuffer> {
  const graph = new GraphBuilder();
  const float = (value: number) => ({ float: value });
  graph.add("RandomNormalLike", ["x"], { attributes: { dtype: 1 }, outputs: ["normal"] });
  graph.add("RandomNormalLike", ["x"], {
    attributes: { mean: float(5), scale: float(2) },
    outputs: ["moved"],
  });
  graph.add("RandomUniformLike", ["x"], {
    attributes: { low: float(-3), high: float(-1) },
    outputs: ["uniform"],
  });
  graph.add("RandomNormal", [], { attributes: { shape: [3, 4] }, outputs: ["fixed"] });
  return graph.build({
    inputs: [["x", "float32", ["rows", "columns"]]],
    outputs: ["normal", "moved", "uniform", "fixed"].map((name) => [name, "float32"]),
  });
}

async function open() {
  const bytes = buildNoisy();
  const model = seedNoise(await readModel(bytesAsFiles(bytes), "x"));
  const session = await openCpuSession(writeModel(model));
  return {
    run: async (position: number, rows = 40, columns = 50) => {
      const x = { values: new Float32Array(rows * columns), dims: [rows, columns] };
      const outputs = await session.run(Object.fromEntries(
        session.inputs.map((input) => {
          const { values, dims } = readNoiseInput(input.name, position) ?? x;
          return [input.name, makeInputTensor(input, values, dims)];
        }),
      ));
      return Object.fromEntries(
        Object.entries(outputs).map(([name, { data, dims }]) => [
          name,
          { data: data as Float32Array, dims: [...dims] },
        ]),
      );
    },
    [Symbol.asyncDispose]: () => session.release(),
  };
}

function moments(values: Float32Array): { mean: number; deviation: number } {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const square = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  return { mean, deviation: Math.sqrt(square) };
}

Deno.test("seedNoise() returns noise of the requested shape and distribution", async () => {
  await using graph = await open();
  const { normal, moved, uniform, fixed } = await graph.run(123);
  assert.deepEqual(normal!.dims, [40, 50]);
  assert.deepEqual(fixed!.dims, [3, 4]);
  const close = (seen: number, wanted: number) =>
    assert.ok(Math.abs(seen - wanted) < 0.15, `${seen}`);
  close(moments(normal!.data).mean, 0);
  close(moments(normal!.data).deviation, 1);
  close(moments(moved!.data).mean, 5);
  close(moments(moved!.data).deviation, 2);
  close(moments(uniform!.data).mean, -2);
  assert.ok(uniform!.data.every((value) => value >= -3 && value <= -1));
  // Each operator has separate noise.
  assert.notDeepEqual(normal!.data.slice(0, 12), fixed!.data);
});

Deno.test("seedNoise() repeats the noise of a position after any other runs", async () => {
  await using graph = await open();
  const first = await graph.run(99);
  const other = await graph.run(100_000);
  for (const [name, { data }] of Object.entries(await graph.run(99))) {
    assertSameValues(data as Float32Array, first[name]!.data as Float32Array, name);
  }
  assert.notDeepEqual(other, first);
  assertSameValues(first["normal"]!.data as Float32Array, copyNormalNoise(99, 2_000));
});

Deno.test("seedNoise() continues at the table's start after its end", async () => {
  await using graph = await open();
  const { normal } = await graph.run(getNormalTable().length - 1, 1, 3);
  const table = getNormalTable();
  assert.deepEqual(normal!.data, Float32Array.of(table.at(-1)!, table[0]!, table[1]!));
});

Deno.test("seedNoise() does not change a graph without noise", async () => {
  const graph = new GraphBuilder();
  graph.add("Relu", ["x"], { outputs: ["y"] });
  const bytes = graph.build({ inputs: [["x", "float32", [1]]], outputs: [["y", "float32", [1]]] });
  const model = await readModel(bytesAsFiles(bytes), "x");
  assert.equal(seedNoise(model), model);
});

Deno.test("noiseOffset() spreads seeds and chunks over the table", () => {
  const positions = new Set<number>();
  for (let seed = 0; seed < 40; seed++) {
    for (let chunk = 0; chunk < 40; chunk++) {
      const position = noiseOffset(seed, chunk);
      assert.ok(Number.isInteger(position) && position >= 0 && position < getNormalTable().length);
      positions.add(position);
    }
  }
  assert.ok(positions.size > 1_590);
});
