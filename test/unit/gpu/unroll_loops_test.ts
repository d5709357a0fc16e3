import assert from "node:assert/strict";
import { unrollLoops, unrollTiles } from "../../../src/gpu/ort_shaders.ts";
import { openSession, Tensor } from "../../../src/device/ort/ort.ts";
import { gpuTest } from "../../fixtures/engine/gpu.ts";
import { GraphBuilder } from "../../fixtures/graphs/graph_builder.ts";
import { makeNode } from "../../../src/graph/file/proto.ts";
import { buildModel, constant } from "../../fixtures/graphs/onnx_builder.ts";

/** Shaders of tiled products that were created on any device. */
const tiled: string[] = [];
const { createShaderModule } = GPUDevice.prototype;
GPUDevice.prototype.createShaderModule = function (descriptor) {
  if (/mm_Asub|a_data_tile/.test(descriptor.code)) tiled.push(descriptor.code);
  return createShaderModule.call(this, descriptor);
};

const loop = (counter: string, bound: string, body: string) =>
  `for (var ${counter} = 0; ${counter} < ${bound}; ${counter} = ${counter} + 1) {${body}}`;

Deno.test("unrollLoops() unrolls loops that are bounded by numbers, constants or their quotients", () => {
  const constants = "const rows = 2;\nconst tile: u32 = 8u;\n";
  const twice = "{ const i: i32 = 0;f(i);}\n{ const i: i32 = 1;f(i);}\n";
  for (const bound of ["2", "rows", "i32(rows)", "tile / 4", "i32(tile / 4)"]) {
    assert.equal(
      unrollLoops(`${constants}${loop("i", bound, "f(i);")}end`),
      `${constants}${twice}end`,
    );
  }
});

Deno.test("unrollLoops() unrolls nested loops", () => {
  const inner = (i: number) => `{ const k: i32 = ${i};f(i, k);}\n`;
  const outer = (i: number) => `{ const i: i32 = ${i};${inner(0)}${inner(1)}}\n`;
  assert.equal(unrollLoops(loop("i", "2", loop("k", "2", "f(i, k);"))), outer(0) + outer(1));
  const unsigned = "for (var i = 0u; i < 2u; i++) {f(i);}";
  assert.equal(
    unrollLoops(unsigned),
    "{ const i: u32 = 0;f(i);}\n{ const i: u32 = 1;f(i);}\n",
  );
  const kept = (body: string) => loop("t", "i32(num_tiles)", body);
  assert.equal(unrollLoops(kept(loop("k", "2", "f(i, k);"))), kept(inner(0) + inner(1)));
});

Deno.test("unrollLoops() leaves loops that it cannot unroll", () => {
  const whole = [
    loop("i", "uniforms.size", "f(i);"),
    loop("i", "33", "f(i);"),
    loop("i", "4", "if (i > n) { break; }"),
    loop("i", "4", "if (i > n) { continue; }"),
    loop("i", "32", "f(i);".repeat(1000)),
    "for (var i = 1; i < 4; i = i + 1) {f(i);}",
    "for (var i = 0; i < 4; i = i + 2) {f(i);}",
  ];
  for (const code of whole) assert.equal(unrollLoops(code), code);
});

Deno.test("unrollTiles() does not change other shaders", () => {
  const code = loop("i", "2", "f(i);");
  assert.equal(unrollTiles(code), code);
  assert.notEqual(unrollTiles(`var<workgroup> mm_Asub: f32; ${code}`), code);
});

const QUANTIZED = { columns: 130, inner: 96, block: 32 };

/** Builds a product with weights of 4 bits. */
function buildQuantized() {
  const { columns, inner, block } = QUANTIZED;
  const numBlocks = columns * inner / block;
  return buildModel({
    nodes: [makeNode("MatMulNBits", ["a", "b", "scales"], ["y"], {
      domain: "com.microsoft",
      attributes: { K: inner, N: columns, bits: 4, block_size: block },
    })],
    initializers: [
      constant(
        "b",
        [columns, inner / block, block / 2],
        Uint8Array.from({ length: numBlocks * block / 2 }, (_, i) => i * 77),
      ),
      constant(
        "scales",
        [numBlocks],
        Float32Array.from({ length: numBlocks }, (_, i) => 0.1 / (1 + i % 5)),
      ),
    ],
    inputs: [["a", "float32", [1, "rows", inner]]],
    outputs: [["y", "float32", [1, "rows", columns]]],
  });
}

/** Builds two products, a 1-D and a 2-D convolution. Some sizes are multiples of the tiles, others are not. */
function buildProducts() {
  const graph = new GraphBuilder();
  const names = ["wide", "narrow", "series", "image"];
  graph.add("MatMul", ["a", graph.weights([64, 96], 0.1)], { outputs: ["wide"] });
  graph.add("MatMul", ["a", graph.weights([64, 33], 0.1)], { outputs: ["narrow"] });
  graph.add("Conv", ["s", graph.weights([32, 16, 5], 0.1), graph.weights([32], 0.1)], {
    outputs: ["series"],
    attributes: { kernel_shape: [5], pads: [2, 2] },
  });
  graph.add("Conv", ["i", graph.weights([7, 5, 3, 3], 0.1)], {
    outputs: ["image"],
    attributes: { kernel_shape: [3, 3], pads: [1, 1, 1, 1] },
  });
  return graph.build({
    inputs: [
      ["a", "float32", [1, "rows", 64]],
      ["s", "float32", [1, 16, "frames"]],
      ["i", "float32", [1, 5, "height", "width"]],
    ],
    outputs: names.map((
      name,
    ) => [name, "float32", name === "image" ? [1, 7, "h", "w"] : [1, "n", "m"]]),
  });
}

function input(...dims: number[]): Tensor {
  const size = dims.reduce((product, dim) => product * dim, 1);
  return new Tensor("float32", Float32Array.from({ length: size }, (_, i) => Math.sin(i)), dims);
}

const PRODUCTS = {
  floats: {
    model: buildProducts(),
    feeds: (rows: number) => ({
      a: input(1, rows, 64),
      s: input(1, 16, rows),
      i: input(1, 5, rows, 9),
    }),
  },
  "block-quantised weights": {
    model: buildQuantized(),
    feeds: (rows: number) => ({ a: input(1, rows, QUANTIZED.inner) }),
  },
};

for (const [what, { model, feeds }] of Object.entries(PRODUCTS)) {
  gpuTest(`tiled products of ${what} on the GPU equal the CPU`, async (gpu) => {
    const native = await openSession(model, { runtime: "native", threads: 1 });
    const web = await openSession(model, { device: gpu.device });
    tiled.length = 0;
    for (const rows of [3, 45]) {
      const expected = await native.run(feeds(rows));
      const results = await web.run(feeds(rows));
      for (const [name, tensor] of Object.entries(expected)) {
        const got = await results[name]!.getData() as Float32Array;
        (tensor.data as Float32Array).forEach((value, i) =>
          assert.ok(Math.abs(got[i]! - value) < 1e-5, `${name}[${i}] of ${rows} rows`)
        );
        results[name]!.dispose();
      }
    }
    assert.ok(tiled.length > 0);
    for (const code of tiled) assert.doesNotMatch(code, /for \(var (inner|m_idx)/);
    await Promise.all([native.release(), web.release()]);
  });
}
