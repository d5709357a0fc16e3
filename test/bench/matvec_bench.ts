/**
 * Compares `matvec` with ONNX Runtime's `MatMulNBits` on the same device, weights and rows: f16, 4 bits, blocks of 32.
 *
 * `deno run -A test/bench/matvec_bench.ts`
 *
 * @module
 */
import { Matvec } from "../../kernels/matmul/matvec.ts";
import { openDevice } from "../../src/gpu/device.ts";
import { Readback } from "../../src/gpu/readback.ts";
import { openSession, Tensor } from "../../src/device/ort/ort.ts";
import { makeNode } from "../../src/graph/file/proto.ts";
import { buildModel } from "../fixtures/graphs/onnx_builder.ts";
import { createRandom } from "./random_buffer.ts";
import { median, printTable } from "./report.ts";

const BLOCK = 32;
const MAX_ROWS = 512;
const ROUNDS = 9;
const REPEATS = 10;
/** Products of Qwen3-0.6B's layer, and a small one. */
const SIZES = [[1024, 1024], [1024, 3072], [3072, 1024], [256, 768]] as const;

const gpu = await openDevice({ allowFallback: true });
if (gpu === undefined) throw new Error("There is no WebGPU adapter to measure.");
const readback = await Readback.create(gpu, { maxBytes: 16 });

async function compare(k: number, n: number, numRows: number) {
  const blocks = k / BLOCK;
  const x = createRandom(gpu!, MAX_ROWS * k, "f16");
  // Any bits are valid levels.
  const weights = createRandom(gpu!, n * k / 4, "f16");
  const scales = createRandom(gpu!, n * blocks, "f16");
  const out = createRandom(gpu!, MAX_ROWS * n, "f16");
  const kernel = new Matvec(gpu!, {
    elem: "f16",
    ...{ k, n, x: { stride: k, offset: 0 }, matrixRows: n },
    weights: { kind: "nbits", bits: 4, blockSize: BLOCK, hasZeroPoints: false },
    ...{ hasBias: false, activation: "none", scale: 1, softcap: 0, hasResidual: false },
  });
  const node = makeNode("MatMulNBits", ["x", "weights", "scales"], ["y"], {
    domain: "com.microsoft",
    attributes: { K: k, N: n, bits: 4, block_size: BLOCK, accuracy_level: 4 },
  });
  const model = buildModel({
    nodes: [node],
    inputs: [
      ["x", "float16", [1, "rows", k]],
      ["weights", "uint8", [n, blocks, BLOCK / 2]],
      ["scales", "float16", [n * blocks]],
    ],
    outputs: [["y", "float16", [1, "rows", n]]],
  });
  const session = await openSession(model, { device: gpu!.device });
  const tensor = (buffer: GPUBuffer, dataType: "float16" | "uint8", dims: readonly number[]) =>
    Tensor.fromGpuBuffer(buffer, { dataType, dims });
  const feeds = {
    x: tensor(x, "float16", [1, numRows, k]),
    weights: tensor(weights, "uint8", [n, blocks, BLOCK / 2]),
    scales: tensor(scales, "float16", [n * blocks]),
  };
  const contenders = {
    ours: () => {
      kernel.encode(gpu!.commands, { x, weights, scales, out }, numRows);
      gpu!.commands.submit();
    },
    theirs: () => session.run(feeds, { y: tensor(out, "float16", [1, numRows, n]) }),
  };
  const times = { ours: [] as number[], theirs: [] as number[] };
  for (let round = 0; round <= ROUNDS; round++) {
    for (const name of ["ours", "theirs"] as const) {
      const start = performance.now();
      for (let i = 0; i < REPEATS; i++) await contenders[name]();
      const encoder = gpu!.device.createCommandEncoder();
      await readback.read(encoder, [{ buffer: out, offset: 0, size: 16 }]);
      // The first round compiles.
      if (round > 0) times[name].push((performance.now() - start) / REPEATS);
    }
  }
  await session.release();
  for (const buffer of [x, weights, scales, out]) buffer.destroy();
  return { ours: median(times.ours), theirs: median(times.theirs) };
}

const rows: string[][] = [];
for (const [k, n] of SIZES) {
  for (const numRows of [1, 8]) {
    const { ours, theirs } = await compare(k, n, numRows);
    rows.push([
      `${k} to ${n}, ${numRows} rows`,
      ...[ours, theirs].map((ms) => ms.toFixed(2)),
      `${(theirs / ours).toFixed(1)}×`,
    ]);
  }
}
printTable([gpu.adapterInfo.description, "matvec, ms", "MatMulNBits, ms", "ratio"], rows);
Deno.exit(0);
