/** Pooling on graphs with known token vectors, compared with the formulas. */
import assert from "node:assert/strict";
import type { Backend } from "../../src/device/backend.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { gpuTest } from "../fixtures/engine/gpu.ts";
import { embed, openModel } from "../fixtures/engine/model.ts";
import { makeTinyEncoder, tokenVector, WIDTH } from "../fixtures/models/tiny_encoder.ts";

const CLS = 2;
const SEP = 3;
const INPUTS = [[15], [631, 1410, 77, 78, 79, 80, 81], [900, 901], [5, 6, 7]];

type Formula = (vectors: readonly (readonly number[])[]) => number[];

function weighted(weight: (token: number, numTokens: number) => number): Formula {
  return (vectors) =>
    Array.from(
      { length: WIDTH },
      (_, element) =>
        vectors.reduce(
          (sum, vector, token) => sum + vector[element]! * weight(token, vectors.length),
          0,
        ),
    );
}

const FORMULAS: Readonly<Record<string, Formula>> = {
  pooling_mode_cls_token: (vectors) => [...vectors[0]!],
  pooling_mode_max_tokens: (vectors) =>
    vectors[0]!.map((_, element) => Math.max(...vectors.map((vector) => vector[element]!))),
  pooling_mode_mean_tokens: weighted((_, numTokens) => 1 / numTokens),
  pooling_mode_mean_sqrt_len_tokens: weighted((_, numTokens) => 1 / Math.sqrt(numTokens)),
  pooling_mode_weightedmean_tokens: weighted((token, n) => (token + 1) / (n * (n + 1) / 2)),
  pooling_mode_lasttoken: (vectors) => [...vectors.at(-1)!],
};

async function assertPools(
  backend: Backend,
  modes: readonly string[],
  opset?: number,
): Promise<void> {
  const pooling = Object.fromEntries(modes.map((mode) => [mode, true]));
  await using tiny = await makeTinyEncoder({
    files: {
      "1_Pooling/config.json": pooling,
      "modules.json": [{ type: "sentence_transformers.models.Transformer", path: "" }],
    },
    ...(opset && { opset }),
  });
  await using model = await openModel(tiny.folder, { backend, maxBatchTokens: 1000 });
  const { rows, dimensions } = await embed(model, INPUTS);
  assert.equal(dimensions, WIDTH * modes.length);
  INPUTS.forEach((ids, index) => {
    const vectors = [CLS, ...ids, SEP].map(tokenVector);
    const expected = modes.flatMap((mode) => FORMULAS[mode]!(vectors));
    expected.forEach((value, element) => {
      assert.ok(Math.abs(rows[index]![element]! - value) < 1e-5, `${modes} ${rows[index]}`);
    });
  });
}

for (const mode of Object.keys(FORMULAS)) {
  Deno.test(`${mode} pools a padded batch on the CPU`, () => assertPools(new CpuBackend(), [mode]));
  gpuTest(`${mode} pools a padded batch on WebGPU`, async (gpu) => {
    await assertPools(await WebGpuBackend.create(gpu), [mode]);
  });
}

Deno.test("several poolings are concatenated into one vector", () =>
  assertPools(new CpuBackend(), [
    "pooling_mode_cls_token",
    "pooling_mode_mean_tokens",
    "pooling_mode_lasttoken",
  ]));

Deno.test("pooling_mode_max_tokens pools graphs of opset 18, whose axes are an input", () =>
  assertPools(new CpuBackend(), ["pooling_mode_max_tokens"], 18));
