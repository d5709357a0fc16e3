import assert from "node:assert/strict";
import { ACTIVATIONS } from "../../kernels/common/activation.ts";
import {
  Norm,
  type NormKernelParams,
  Pointwise,
  type PointwiseParams,
  TakeRows,
} from "../../kernels/rows/row_kernels.ts";
import { normReference } from "./references/norm_reference.ts";
import { pointwiseReference } from "./references/pointwise_reference.ts";
import { takeRowsReference } from "./references/take_rows_reference.ts";
import { HAS_F16, kernelTest } from "../fixtures/engine/gpu.ts";
import { makeNormal } from "./exact_sampling.ts";
import { assertClose } from "../fixtures/engine/compare_values.ts";
import { makeAffine, runAndRead, upload, uploadBytes } from "./tensors.ts";

const ROWS = 5;
const TOLERANCE = { f32: { abs: 1e-4, rel: 1e-4 }, f16: { abs: 4e-3, rel: 4e-3 } } as const;

function makeRandom(elem: "f32" | "f16") {
  const normal = makeNormal(3);
  return (length: number) =>
    new Float32Array(length).map(() => elem === "f16" ? Math.f16round(normal()) : normal());
}

for (const elem of ["f32", "f16"] as const) {
  const ignore = elem === "f16" && !HAS_F16;

  kernelTest(
    `norm equals its reference for rows and for heads, with and without beta, ${elem}`,
    async (gpu) => {
      const random = makeRandom(elem);
      for (const kind of ["rms", "layer"] as const) {
        for (const [k, heads] of [[192, 1], [37, 3], [8, 6]] as const) {
          // The cases with beta also have a residual.
          for (const hasBeta of [false, true]) {
            const width = k * heads;
            const params: NormKernelParams = {
              elem,
              k,
              heads,
              x: { stride: width + 8, offset: 4 },
              norm: { kind, epsilon: 1e-5, hasBeta },
              hasResidual: hasBeta,
            };
            const tensors = {
              x: random(ROWS * (width + 8)),
              gamma: random(k),
              ...hasBeta ? { beta: random(k), residual: random(ROWS * width) } : {},
            };
            const out = upload(gpu, new Float32Array(ROWS * width), elem);
            const on = (values: Float32Array | undefined) => values && upload(gpu, values, elem);
            const { x, residual } = tensors;
            const affine = on(makeAffine(tensors))!;
            const buffers = { out, x: on(x)!, affine, residual: on(residual) };
            const kernel = new Norm(gpu, params);
            const got = await runAndRead(gpu, (pass) => kernel.encode(pass, buffers, ROWS), {
              buffer: out,
              length: ROWS * width,
              elem,
            });
            assertClose(got, normReference(params, tensors, ROWS), TOLERANCE[elem]);
          }
        }
      }
    },
    { ignore },
  );

  kernelTest(
    `pointwise equals its reference with each operation and activation, ${elem}`,
    async (gpu) => {
      const random = makeRandom(elem);
      const width = 77;
      const [a, b] = [random(ROWS * 80), random(ROWS * width)];
      const [x, y] = [upload(gpu, a, elem), upload(gpu, b, elem)];
      const cases = [
        ...ACTIVATIONS.map((activation) => ({
          activation,
          operation: "multiply" as const,
          stride: width,
        })),
        { activation: "none", operation: "add", stride: 0 },
        { activation: "none", operation: "none", stride: 0 },
        { activation: "softplus", operation: "max", stride: 0 },
        { activation: "none", operation: "min", stride: width },
        { activation: "silu", operation: "multiply", stride: 1, repeats: width },
        { activation: "none", operation: "multiply", stride: 11, repeats: 7 },
      ] as const;
      for (const { activation, operation, stride, ...rest } of cases) {
        const params: PointwiseParams = {
          elem,
          width,
          a: { stride: 80, offset: 3 },
          b: { stride, offset: 0 },
          operation,
          activation,
          scale: 1.5,
          ...rest,
        };
        const out = upload(gpu, new Float32Array(ROWS * width), elem);
        const kernel = new Pointwise(gpu, params);
        const got = await runAndRead(
          gpu,
          (pass) => kernel.encode(pass, { a: x, b: y, out }, ROWS),
          { buffer: out, length: ROWS * width, elem },
        );
        assertClose(got, pointwiseReference(params, { a, b }, ROWS), TOLERANCE[elem]);
      }
    },
    { ignore },
  );
}

kernelTest("pointwise reads f16 and writes f32", async (gpu) => {
  const params: PointwiseParams = {
    elem: "f32",
    from: "f16",
    width: 9,
    a: { stride: 10, offset: 1 },
    b: { stride: 0, offset: 0 },
    operation: "none",
    activation: "none",
    scale: 1,
  };
  const a = makeRandom("f16")(20);
  const out = upload(gpu, new Float32Array(18), "f32");
  const kernel = new Pointwise(gpu, params);
  const encode = (pass: GPUComputePassEncoder) =>
    kernel.encode(pass, { a: upload(gpu, a, "f16"), out }, 2);
  const got = await runAndRead(gpu, encode, { buffer: out, length: 18, elem: "f32" });
  assert.deepEqual(got, pointwiseReference(params, { a }, 2));
}, { ignore: !HAS_F16 });

kernelTest("take_rows copies rows by index, and the last row for larger indices", async (gpu) => {
  const params = { rowBytes: 4 * 70, tableRows: 9 };
  const values = Float32Array.from({ length: 9 * 70 }, (_, i) => i);
  const numbers = [8, 0, 3, 3, 12];
  const out = upload(gpu, new Float32Array(numbers.length * 70), "f32");
  const tensors = {
    table: upload(gpu, values, "f32"),
    numbers: uploadBytes(gpu, new Uint8Array(BigInt64Array.from(numbers, BigInt).buffer)),
    out,
  };
  const kernel = new TakeRows(gpu, params);
  const encode = (pass: GPUComputePassEncoder) => kernel.encode(pass, tensors, numbers.length);
  const got = await runAndRead(gpu, encode, { buffer: out, length: 350, elem: "f32" });
  const want = takeRowsReference(params, { table: new Uint8Array(values.buffer), numbers });
  assert.deepEqual(got, new Float32Array(want.buffer));
  assert.throws(() => new TakeRows(gpu, { rowBytes: 6, tableRows: 1 }), /Rows of 6 bytes/);
});
