import assert from "node:assert/strict";
import { expand } from "../../kernels/common/wgsl.ts";

const lines = (text: string) => text.split("\n").map((line) => line.trim()).filter((line) => line);

Deno.test("expand() unrolls loops, including nested ones", () => {
  const template = `
    //# for r in 0..ROWS
    var sum$r = 0.0;
    //# for e, n in x 0, y 1
    sum$r += a.$e * b[$(r * 2 + n)];
    //# end
    //# end`;
  assert.deepEqual(lines(expand(template, { ROWS: 2 })), [
    "var sum0 = 0.0;",
    "sum0 += a.x * b[0];",
    "sum0 += a.y * b[1];",
    "var sum1 = 0.0;",
    "sum1 += a.x * b[2];",
    "sum1 += a.y * b[3];",
  ]);
  assert.deepEqual(lines(expand(template, { ROWS: 0 })), []);
});

Deno.test("expand() includes lines depending on a value", () => {
  const template = `
    //# if IS_HALF
    half
    //# else
    single
    //# end
    //# if !IS_HALF
    only single
    //# end`;
  assert.deepEqual(lines(expand(template, { IS_HALF: true })), ["half"]);
  assert.deepEqual(lines(expand(template, { IS_HALF: false })), ["single", "only single"]);
});

Deno.test("expand() inserts named parts, and refuses unknown ones", () => {
  const template = `
    //# part load
    //# for n in 0..2
    word$n = words[$from + $(n * 8)u];
    //# end
    //# end
    //# put load from 0u
    //# if 2 < COUNT
    //# put load from (next + $(COUNT)u)
    //# end`;
  const once = ["word0 = words[0u + 0u];", "word1 = words[0u + 8u];"];
  assert.deepEqual(lines(expand(template, { COUNT: 2 })), once);
  assert.deepEqual(lines(expand(template, { COUNT: 3 })), [
    ...once,
    "word0 = words[(next + 3u) + 0u];",
    "word1 = words[(next + 3u) + 8u];",
  ]);
  assert.throws(() => expand("//# put load", {}), /No part is called "load"/);
});

Deno.test("expand() evaluates arithmetic, and inserts names next to letters", () => {
  const values = { COUNT: 7, n: 3, q: 2, what: "key" };
  assert.equal(expand("score$n_$q = $(COUNT * (n - 1) + 10 / 4 % 3)u;", values), "score3_2 = 16u;");
  assert.equal(expand("load_$what(x, $COUNT)", values), "load_key(x, 7)");
  assert.equal(expand("$(COUNT - n - 1)", values), "3");
});

Deno.test("expand() reports faults of a template", () => {
  assert.throws(() => expand("$NOTHING", {}), /"NOTHING" has no value/);
  assert.throws(() => expand("//# if A\nb", { A: 1 }), /"if A" has no end/);
  assert.throws(() => expand("//# until A\n//# end", { A: 1 }), /"until A" is not a directive/);
  assert.throws(() => expand("$(A +)", { A: 1 }), /has no value/);
  assert.throws(() => expand("$((1 + (A)))", { A: 1 }), /three deep/);
  assert.throws(() => expand("$(A 2)", { A: 1 }), /"A 2" is not a sum/);
});
