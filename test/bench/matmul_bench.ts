/**
 * Finds the best tiles for integer products: every tile of a table on every product of Qwen3's layers, for several
 * numbers of rows. The choices in `int8_source.ts` come from this bench; `kernels/matmul/README.md` records what was
 * tried.
 *
 *     deno task bench matmul
 *     deno run -A test/bench/matmul_bench.ts 4B 1 2048
 *
 * @module
 */
import { type Int8Choices, Int8Products } from "../../kernels/matmul/int8_products.ts";
import {
  chooseInt8Row,
  chooseInt8Tile,
  countInt8TileBytes,
  type Int8Params,
  type Int8Row,
  type Int8Tile,
} from "../../kernels/matmul/int8_source.ts";
import { type GpuContext, openDevice } from "../../src/gpu/device.ts";
import { createRandom } from "./random_buffer.ts";
import { printTable } from "./report.ts";
import { type TimedKernel, timeKernels } from "./timed_passes.ts";

/** The products of a layer: `n` outputs for rows of `k` elements. The first one of the MLP has a gate. */
const MODELS: Readonly<Record<string, readonly { k: number; n: number; isGated?: boolean }[]>> = {
  "0.6B": [
    { k: 1024, n: 4096 },
    { k: 2048, n: 1024 },
    { k: 1024, n: 3072, isGated: true },
    { k: 3072, n: 1024 },
  ],
  "4B": [
    { k: 2560, n: 6144 },
    { k: 4096, n: 2560 },
    { k: 2560, n: 9728, isGated: true },
    { k: 9728, n: 2560 },
  ],
  "8B": [
    { k: 4096, n: 6144 },
    { k: 4096, n: 4096 },
    { k: 4096, n: 12_288, isGated: true },
    { k: 12_288, n: 4096 },
  ],
};
const ROWS = [1, 8, 32, 128, 512, 2048];
/** Fewest operations of a pass, so that its beginning and end do not matter. */
const PASS_OPS = 1e11;

/** The workgroups to try for a single row: how many outputs they compute, with how many threads. */
const ROW_FORMS: readonly { readonly outs: number; readonly threads: number }[] = [
  ...[64, 128, 256].map((threads) => ({ outs: 8, threads })),
  ...[128, 160, 192, 256].map((threads) => ({ outs: 16, threads })),
  ...[128, 256].map((threads) => ({ outs: 32, threads })),
];
/** The tiles to try: rows, columns, a thread's rows, a thread's columns, blocks per stage, and stages. */
const TILES: readonly (readonly [number, number, number, number, number, 1 | 2])[] = [
  ...[4, 8].flatMap((depth) => [[8, 16, 2, 1, depth, 1], [8, 32, 2, 2, depth, 1]] as const),
  [16, 16, 2, 1, 8, 1],
  ...[4, 8].flatMap((depth) => [[32, 16, 4, 1, depth, 1], [32, 32, 4, 2, depth, 1]] as const),
  [32, 32, 4, 2, 4, 2],
  [32, 64, 4, 4, 2, 2],
  [64, 32, 4, 4, 2, 2],
  [64, 64, 4, 4, 2, 2],
  [64, 64, 8, 4, 1, 2],
  [64, 64, 8, 4, 2, 1],
  [64, 64, 8, 4, 2, 2],
  [64, 128, 8, 8, 1, 2],
  [128, 64, 8, 8, 1, 2],
  [128, 128, 8, 8, 1, 1],
];

const wanted = Deno.args.filter((arg) => arg in MODELS);
const wantedRows = Deno.args.map(Number).filter((rows) => rows > 0);
const gpu = await openDevice({ allowFallback: true });
if (gpu === undefined) throw new Error("There is no WebGPU adapter to measure.");
// On a software adapter, the benchmark can only be tried out: its figures mean nothing.
const models = wanted.length > 0 ? wanted : gpu.isFallbackAdapter ? ["0.6B"] : Object.keys(MODELS);
const rowCounts = wantedRows.length > 0 ? wantedRows : gpu.isFallbackAdapter ? [1, 8] : ROWS;

function makeParams({ k, n, isGated }: (typeof MODELS)[string][number]): Int8Params {
  return {
    ...{ elem: "f16", k, n, x: { stride: k, offset: 0 }, matrixRows: isGated ? 2 * n : n },
    weights: {
      ...{ kind: "nbits", bits: 4, blockSize: 32, hasZeroPoints: false, allowsInt8: true },
    },
    norm: { kind: "rms", epsilon: 1e-6, hasBeta: false },
    gate: isGated ? { gateRow: 0, upRow: n } : undefined,
    ...{ activation: isGated ? "silu" : "none", hasBias: false, hasResidual: false },
    ...{ scale: 1, softcap: 0 },
  };
}

/** Tiles that a product can take. */
function tilesFor(gpu: GpuContext, { k, gate }: Int8Params): Int8Tile[] {
  return TILES.flatMap(([rows, columns, threadRows, threadColumns, depth, stages]) => {
    // With each column, a thread also multiplies a column of the gate.
    const times = gate && threadColumns === 1 ? 2 : 1;
    const tile: Int8Tile = {
      ...{ rows, columns: times * columns, threadRows, threadColumns: times * threadColumns },
      ...{ depth, isDouble: stages === 2 },
    };
    const fits = countInt8TileBytes(tile) <= gpu.limits.maxComputeWorkgroupStorageSize;
    return fits && k / 32 % depth === 0 ? [tile] : [];
  });
}

const nameTile = ({ rows, columns, threadRows, threadColumns, depth, isDouble }: Int8Tile) =>
  `${rows}x${columns}, ${threadRows}x${threadColumns}, ${depth} deep${
    isDouble ? ", two stages" : ""
  }`;
const nameRow = ({ outs, threads, blocks }: Int8Row) => `${outs} by ${threads}, ${blocks} blocks`;

/** The variants of a product to try, by name; the first is the one that Hearth chooses. */
function formsFor(gpu: GpuContext, params: Int8Params, numRows: number) {
  if (numRows === 1) {
    const chosen = chooseInt8Row(params)!;
    const rows = [chosen, ...ROW_FORMS.map((form) => ({ ...chosen, ...form }))];
    return new Map<string, Int8Choices>(rows.map((row) => [nameRow(row), { row: () => row }]));
  }
  const tiles = [chooseInt8Tile(gpu, params, numRows), ...tilesFor(gpu, params)];
  return new Map<string, Int8Choices>(tiles.map((tile) => [nameTile(tile), { tile: () => tile }]));
}

async function search(gpu: GpuContext, params: Int8Params, numRows: number): Promise<string[]> {
  const { k, n, matrixRows } = params;
  const blocks = k / 32;
  const room = Math.ceil(numRows / 128) * 128;
  const buffers = {
    x: createRandom(gpu, room * k, "f16"),
    affine: createRandom(gpu, k, "f16"),
    // Any bits are valid levels.
    weights: createRandom(gpu, matrixRows * k / 4, "f16"),
    scales: createRandom(gpu, matrixRows * blocks, "f16"),
    out: createRandom(gpu, room * n, "f16"),
  };
  const unused = { bias: buffers.x, residual: buffers.x, zeroPoints: buffers.x };
  const ops = 2 * numRows * matrixRows * k;
  const forms = formsFor(gpu, params, numRows);
  const kernels = [...forms.values()].map((choices): TimedKernel => {
    const products = new Int8Products(gpu, params, choices);
    const repeats = gpu.isFallbackAdapter ? 1 : Math.ceil(PASS_OPS / ops);
    return {
      encode: (pass) => products.encode(pass, { ...buffers, ...unused }, numRows),
      repeats: Math.min(100, repeats),
    };
  });
  const times = await timeKernels(gpu, kernels);
  for (const buffer of Object.values(buffers)) buffer.destroy();
  const named = [...forms.keys()].map((name, i) => ({ name, time: times[i]! }));
  // For a single row, most of the time goes to reading the weights.
  const bytes = matrixRows * k / 2 + matrixRows * blocks * 2;
  const rate = (time: number) =>
    numRows === 1
      ? `${(bytes / time / 1e3).toFixed(0)} GB/s`
      : `${(ops / time / 1e6).toFixed(1)} TOP/s`;
  const describe = ({ name, time }: (typeof named)[number]) =>
    `${name}: ${time.toFixed(1)} µs, ${rate(time)}`;
  const best = named.toSorted((a, b) => a.time - b.time).slice(0, 3).map(describe);
  return [`${numRows}`, `${n} x ${k}${params.gate ? ", gated" : ""}`, describe(named[0]!), ...best];
}

for (const model of models) {
  const rows: string[][] = [];
  for (const numRows of rowCounts) {
    for (const product of MODELS[model]!) {
      rows.push(await search(gpu, makeParams(product), numRows));
    }
  }
  printTable([`rows, ${model}`, "product", "chosen", "best", "second", "third"], rows);
}
Deno.exit(0);
