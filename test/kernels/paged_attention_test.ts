import { PagedAttention } from "../../kernels/paged_attention.ts";
import type { AttentionShape } from "../../kernels/attention_shape.ts";
import { StepBuffer } from "../../kernels/step_buffer.ts";
import { createBuffer, type GpuContext } from "../../src/gpu/device.ts";
import { type Elem, sizeOf } from "../../src/gpu/kernel.ts";
import { gpuTest } from "../fixtures/gpu.ts";
import {
  attendExactly,
  type CaseOptions,
  type CaseSequence,
  makeCase,
  type PagedCase,
} from "./paged_case.ts";
import { assertClose, runAndRead, upload } from "./tensors.ts";

async function attend(gpu: GpuContext, paged: PagedCase, scale: number, options: CaseOptions) {
  const { shape, step } = paged;
  const stepBuffer = new StepBuffer(gpu, shape, {
    maxTokens: step.numTokens,
    maxSequences: step.sequences.length,
    maxBlocksPerSequence: step.maxBlocksPerSequence,
  });
  const attention = new PagedAttention(gpu, stepBuffer, {
    scale,
    softcap: options.softcap ?? 0,
    window: options.window ?? 0,
    hasSinks: options.hasSinks ?? false,
    queryStride: shape.heads * shape.headSize,
    queryOffset: 0,
  });
  const length = step.numTokens * shape.heads * shape.headSize;
  const out = createBuffer(gpu, {
    size: Math.max(16, length * sizeOf(shape.elem)),
    usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC,
  });
  const tensors = {
    q: upload(gpu, paged.q, shape.elem),
    kCache: upload(gpu, paged.kCache, shape.elem),
    vCache: upload(gpu, paged.vCache, shape.elem),
    sinks: upload(gpu, paged.sinks, "f32"),
    out,
  };
  stepBuffer.write(step);
  const result = await runAndRead(gpu, (pass) => attention.encode(pass, tensors), {
    buffer: out,
    length,
    elem: shape.elem,
  });
  for (const buffer of Object.values(tensors)) buffer.destroy();
  stepBuffer.dispose();
  return result;
}

const TOLERANCE = { f32: { abs: 2e-5, rel: 1e-4 }, f16: { abs: 1e-3, rel: 2e-3 } };

async function check(
  gpu: GpuContext,
  shape: AttentionShape,
  sequences: readonly CaseSequence[],
  options: CaseOptions = {},
) {
  const scale = 1 / Math.sqrt(shape.headSize);
  const paged = makeCase(shape, sequences, options);
  const got = await attend(gpu, paged, scale, options);
  assertClose(got, attendExactly(paged, scale, options), TOLERANCE[shape.elem]);
}

const SHAPE: AttentionShape = { heads: 4, kvHeads: 2, headSize: 64, blockSize: 16, elem: "f32" };
const decodes = (...keys: number[]) => keys.map((keys) => ({ queries: 1, keys }));

for (const elem of ["f32", "f16"] as Elem[]) {
  for (const headSize of [8, 16, 32, 64, 80, 96, 128, 256]) {
    gpuTest(`PagedAttention.encode() heads of ${headSize}, ${elem}`, async (gpu) => {
      const shape = { ...SHAPE, headSize, elem };
      await check(gpu, shape, [...decodes(1, 15, 16, 17, 100), { queries: 40, keys: 40 }]);
    });
  }
  for (const group of [1, 2, 3, 7, 8, 12]) {
    gpuTest(`PagedAttention.encode() groups of ${group} heads, ${elem}`, async (gpu) => {
      const shape = { ...SHAPE, heads: group * 2, headSize: 32, elem };
      await check(gpu, shape, [...decodes(1, 33, 200), { queries: 37, keys: 90 }]);
    });
  }
}
