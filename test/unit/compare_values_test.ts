import assert from "node:assert/strict";
import {
  assertClose,
  assertSameData,
  assertSameValues,
} from "../fixtures/engine/compare_values.ts";

Deno.test("assertSameValues() names the first difference and the largest error of a million", () => {
  const want = Float32Array.from({ length: 1_000_000 }, (_, i) => i % 1000);
  const got = want.slice();
  got[10] = 10.5;
  got[999_999] = 0;
  assert.throws(() => assertSameValues(got, want, "sound"), {
    message: "sound: 2 of 1000000 values differ; the first: 10 is 10.5, wanted 10; " +
      "the largest error, 999: 999999 is 0, wanted 999",
  });
});

Deno.test("assertSameValues() compares like deepEqual()", () => {
  assertSameValues([NaN, 1, -0], [NaN, 1, -0]);
  for (const got of [[NaN, 1, 0], [NaN, 1], Float32Array.of(NaN, 1, -0)]) {
    assert.throws(() => assertSameValues(got, [NaN, 1, -0]), assert.AssertionError);
  }
  assert.throws(() => assertSameData({ width: 1, data: [1] }, { width: 2, data: [1] }));
});

Deno.test("assertClose() rejects NaN, and accepts errors up to its bounds", () => {
  assertClose([1, 100.5], [1.25, 100], { abs: 0.25, rel: 0.01 });
  assert.throws(() => assertClose([1.3], [1], { abs: 0.25 }));
  assert.throws(() => assertClose([NaN], [1], { abs: 0.25 }));
});
