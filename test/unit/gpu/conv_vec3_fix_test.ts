import assert from "node:assert/strict";
import { basename } from "node:path";
import * as ort from "onnxruntime-web/jspi";
import { fixConvVec3Source } from "../../../src/gpu/ort_shaders.ts";
import { gpuTest } from "../../fixtures/engine/gpu.ts";

interface Case {
  readonly model: string;
  readonly shape: number[];
  readonly x: number[];
  readonly y: number[];
}

Deno.test("fixConvVec3Source() fixes only the vec3 path of Conv2dMM", () => {
  const conv = "fn mm_readA(row: i32) -> vec3<x_element_t> { let i = base + xCh / 4; }";
  assert.equal(
    fixConvVec3Source(conv),
    "fn mm_readA(row: i32) -> vec3<x_element_t> { let i = base + xCh; }",
  );
  const vec4 = conv.replace("vec3", "vec4");
  assert.equal(fixConvVec3Source(vec4), vec4);
});

const folder = new URL("../../fixtures/graphs/ort/", import.meta.url);

gpuTest("openDevice() returns a device on which ORT's vec3 Conv is correct", async (gpu) => {
  const { cases } = JSON.parse(await Deno.readTextFile(new URL("golden.json", folder))) as {
    cases: Case[];
  };
  for (const { model, shape, x, y } of cases) {
    const bytes = await Deno.readFile(new URL(basename(model), folder));
    const session = await ort.InferenceSession.create(bytes, {
      executionProviders: [{ name: "webgpu", device: gpu.device }],
    });
    const input = new ort.Tensor("float32", Float32Array.from(x), shape);
    const results = await session.run({ [session.inputNames[0]!]: input });
    const output = await results[session.outputNames[0]!]!.getData() as Float32Array;
    assert.equal(output.length, y.length);
    y.forEach((want, i) => assert.ok(Math.abs(output[i]! - want) < 1e-4, `${model} y[${i}]`));
    await session.release();
  }
});
