import assert from "node:assert/strict";
import { compileWasm, WASM_MODULES } from "../../../scripts/wasm.ts";
import { openSession, RUNTIME_WASM, Tensor } from "../../../src/onnx/ort.ts";
import { quickenProducts } from "../../../src/onnx/quick_products.ts";
import binary from "../../../src/onnx/quick_products.wasm.base64" with { type: "text" };
import { writeOneNodeModel } from "../../bench/one_node_model.ts";
import { Random } from "../engine/random.ts";

/** Within and beyond tiles of six, two and one rows, sixteen columns, and what is summed at once. */
const ROWS = [1, 2, 3, 5, 6, 7, 12, 13, 20];
const COLUMNS = [1, 2, 3, 4, 7, 8, 11, 15, 16, 17, 31, 32, 45, 150];
const DEPTHS = [1, 2, 7, 64, 300];

function openGemm(attributes: Parameters<typeof writeOneNodeModel>[0]["attributes"]) {
  const input = (name: string, dims: string[]) => ({ name, elem: "f32", dims }) as const;
  return openSession(writeOneNodeModel({
    opType: "Gemm",
    domain: "",
    inputs: [input("a", ["m", "k"]), input("b", ["k", "n"]), input("c", ["m", "n"])],
    outputs: [input("y", ["m", "n"])],
    attributes,
  }));
}

Deno.test("quickenProducts() knows the functions of the runtime that is served with", () => {
  const runtime = Deno.readFileSync(RUNTIME_WASM);
  const quicker = quickenProducts(runtime);
  assert.ok(quicker !== undefined, "find the functions of this runtime, as the module says");
  assert.notDeepEqual(quicker, runtime);
  assert.ok(WebAssembly.validate(quicker));
});

Deno.test("quickenProducts() leaves a runtime of other functions alone", () => {
  assert.equal(quickenProducts(Uint8Array.fromBase64(binary)), undefined);
});

Deno.test("products of every size are those of float64", async () => {
  const random = new Random(1);
  const fill = (length: number) =>
    Float32Array.from({ length }, () => random.between(-1000, 1000) / 1000);
  const session = await openGemm({ alpha: { float: 0.5 }, beta: { float: 2 } });
  for (const [rows, columns, depth] of product(ROWS, COLUMNS, DEPTHS)) {
    const [a, b, c] = [fill(rows * depth), fill(depth * columns), fill(rows * columns)];
    const { y } = await session.run({
      a: new Tensor("float32", a, [rows, depth]),
      b: new Tensor("float32", b, [depth, columns]),
      c: new Tensor("float32", c, [rows, columns]),
    });
    const found = y!.data as Float32Array;
    for (let at = 0; at < found.length; at++) {
      const [row, column] = [Math.floor(at / columns), at % columns];
      let sum = 0;
      for (let k = 0; k < depth; k++) sum += a[row * depth + k]! * b[k * columns + column]!;
      const wanted = 0.5 * sum + 2 * c[at]!;
      const error = Math.abs(found[at]! - wanted);
      assert.ok(error <= 1e-6 * (depth + 1), `${rows}x${depth}x${columns} at ${at}: ${found[at]}`);
    }
  }
  await session.release();
});

Deno.test("quick_products.wasm.base64 is what its sources compile to", async () => {
  assert.equal((await compileWasm(WASM_MODULES.products)).toBase64(), binary);
});

function* product(
  ...[first, second, third]: readonly [readonly number[], readonly number[], readonly number[]]
): Generator<[number, number, number]> {
  for (const x of first) for (const y of second) for (const z of third) yield [x, y, z];
}
