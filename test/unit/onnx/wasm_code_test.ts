import assert from "node:assert/strict";
import { listFunctions, replaceFunctions } from "../../../src/onnx/wasm_code.ts";

const LOCAL_GET_0 = [0x20, 0];
const END = 0x0b;
const NOP = 0x01;

/** A module of functions from an i32 to an i32, exported as `a`, `b` …; `bodies` go without locals and end. */
function makeModule(bodies: readonly (readonly number[])[]): Uint8Array<ArrayBuffer> {
  const section = (
    id: number,
    content: readonly number[],
  ) => [id, ...leb(content.length), ...content];
  const many = (items: readonly (readonly number[])[]) => [items.length, ...items.flat()];
  const code = bodies.map((body) => [...leb(body.length + 2), 0, ...body, END]);
  return Uint8Array.from([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, many([[0x60, 1, 0x7f, 1, 0x7f]])),
    ...section(3, many(bodies.map(() => [0]))),
    ...section(7, many(bodies.map((_, i) => [1, 0x61 + i, 0, i]))),
    ...section(10, many(code)),
    ...section(0, [1, 0x78, 1, 2, 3]),
  ]);
}

function leb(value: number): number[] {
  return value < 128 ? [value] : [value % 128 | 128, ...leb(Math.floor(value / 128))];
}

const plus = (n: number) => [...LOCAL_GET_0, 0x41, n, 0x6a];

function run(module: Uint8Array<ArrayBuffer>): number[] {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(module));
  return Object.values(exports).map((call) => (call as (x: number) => number)(10));
}

function bodyOf(module: Uint8Array, place: number): Uint8Array {
  const { start, end } = listFunctions(module)[place]!;
  return module.subarray(start, end);
}

Deno.test("replaceFunctions() puts bodies of any length in the places of others", () => {
  const module = makeModule([plus(1), plus(2), plus(3)]);
  assert.deepEqual(run(module), [11, 12, 13]);
  for (const padding of [0, 200, 70_000]) {
    const other = makeModule([[...Array(padding).fill(NOP), ...plus(40)]]);
    const bodies = new Map([[1, bodyOf(other, 0)]]);
    assert.deepEqual(run(replaceFunctions(module, bodies)), [11, 50, 13], `${padding} more bytes`);
  }
  const long = makeModule([plus(1), [...Array(200).fill(NOP), ...plus(2)]]);
  const bodies = new Map([[0, bodyOf(module, 2)], [1, bodyOf(module, 0)]]);
  assert.deepEqual(run(replaceFunctions(long, bodies)), [13, 11]);
});

Deno.test("replaceFunctions() changes nothing but what it replaces", () => {
  const module = makeModule([plus(1), plus(2)]);
  assert.deepEqual(replaceFunctions(module, new Map()), module);
});

Deno.test("listFunctions() refuses a module without code", () => {
  assert.throws(() => listFunctions(Uint8Array.of(0, 0x61, 0x73, 0x6d, 1, 0, 0, 0)), RangeError);
});
