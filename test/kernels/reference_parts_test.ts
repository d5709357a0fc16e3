import assert from "node:assert/strict";
import { assertSameValues } from "../fixtures/engine/compare_values.ts";
import { Candidates } from "../../kernels/sample/candidates.ts";
import { expNonPositive, sumExps, widen } from "../../kernels/common/floats.ts";
import { exponential, mix32, rowKey, uniform } from "../../kernels/sample/sample_terms.ts";
import { chiSquareDeviation, makeNormal } from "./exact_sampling.ts";

Deno.test("expNonPositive() is within 1e-10 of Math.exp from -87 to 0, and 0 at -88", () => {
  for (let x = 0; x > -87; x -= 0.00137) {
    const error = Math.abs(expNonPositive(x) / Math.exp(x) - 1);
    assert.ok(error < 1e-10, `exp(${x}) is off by ${error}`);
  }
  assert.equal(expNonPositive(0), 1);
  assert.equal(expNonPositive(-88), 0);
  assert.equal(expNonPositive(-Infinity), 0);
  assert.ok(Number.isNaN(expNonPositive(NaN)));
});

Deno.test("sumExps() equals the sum of Math.exp; NaN, -infinity and underflowing values count as 0", () => {
  const normal = makeNormal(1);
  const values = Float32Array.from({ length: 1000 }, () => Math.min(10 * normal(), 20));
  values.set([20, NaN, -Infinity, -1e30], 500);
  for (const scale of [0.5, 1, 3]) {
    const range = { start: 7, end: 990, max: 20, scale };
    let sum = 0;
    for (const x of values.subarray(7, 990)) if (x > -1e30) sum += Math.exp((x - 20) * scale);
    const error = Math.abs(sumExps(values, range) / sum - 1);
    assert.ok(error < 1e-10, `off by ${error}`);
  }
});

Deno.test("widen() keeps the value of every float16", () => {
  const halves = new Float16Array(Uint16Array.from({ length: 65536 }, (_, i) => i).buffer);
  const wide = new Float32Array(65536);
  widen(halves, wide);
  assertSameValues(wide, new Float32Array(halves));
});

Deno.test("Candidates keeps the tokens that a sort puts first, ties by lower id", () => {
  const normal = makeNormal(8);
  for (let round = 0; round < 200; round++) {
    const size = 1 + round % 90;
    const list = new Candidates(size);
    // Coarse values cause ties.
    const values = Float32Array.from({ length: size }, () => Math.round(normal() * 3));
    const order = [...values.keys()].sort((a, b) => values[b]! - values[a]! || a - b);
    const fill = () => {
      list.length = 0;
      values.forEach((value, id) => list.push(id, value));
      for (let i = 0; i < size; i++) list.weights[i] = Math.exp(list.values[i]!);
    };
    const kept = () => [...list.ids.subarray(0, list.length)].sort((a, b) => a - b);
    const first = (count: number) => order.slice(0, count).sort((a, b) => a - b);

    const count = 1 + round % size;
    fill();
    list.keepLargest(count);
    assert.deepEqual(kept(), first(count));

    fill();
    const total = order.reduce((sum, id) => sum + Math.exp(values[id]!), 0);
    const mass = total * (0.05 + 0.9 * (round % 17) / 17);
    list.keepMass(mass);
    let sum = 0;
    const prefix = order.findIndex((id) => (sum += Math.exp(values[id]!)) >= mass) + 1;
    assert.deepEqual(kept(), first(prefix));

    fill();
    list.sort();
    assert.deepEqual([...list.ids], order);
  }
});

Deno.test("uniform() is uniform and exponential() has mean 1 over adjacent tokens, token indices and seeds", () => {
  const draws = 20_000;
  const axes = {
    token: (i: number) => mix32(rowKey(1, 2) + i | 0),
    tokenIndex: (i: number) => mix32(rowKey(1, i) + 5 | 0),
    seed: (i: number) => mix32(rowKey(i, 2) + 5 | 0),
  };
  for (const [axis, draw] of Object.entries(axes)) {
    let sum = 0;
    const counts = new Uint32Array(64);
    for (let i = 0; i < draws; i++) {
      const u = uniform(draw(i));
      assert.ok(u > 0 && u < 1);
      counts[Math.floor(u * 64)]!++;
      sum += exponential(u);
    }
    assert.ok(Math.abs(sum / draws - 1) < 5 / Math.sqrt(draws), axis);
    assert.ok(chiSquareDeviation(counts, new Float64Array(64).fill(1 / 64)) < 4.5, axis);
  }
});
