/** Large weights are packed on a separate thread; if that fails, this thread packs them. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { join } from "node:path";
import { KernelThreads } from "../../../kernels/cpu/kernel_threads.ts";
import { RowArena } from "../../../kernels/cpu/row_arena.ts";
import { SimdRows } from "../../../kernels/cpu/row_simd.ts";
import { packMatrices, packWeights } from "../../../src/device/cpu/memory_plan.ts";
import { StartupError } from "../../../src/base/errors.ts";
import { FolderFiles } from "../../../src/graph/file/external_data.ts";
import type { StoredTensor } from "../../../src/graph/file/tensor.ts";
import { CapturedStderr } from "../../fixtures/servers/capture_stderr.ts";

const [K, OUTPUTS] = [4096, 32_768];
const LEVELS = OUTPUTS * K / 2;
const SCALES = OUTPUTS * K / 32;
const FILE = "weights.bin";

/** Makes levels that do not repeat at row boundaries, followed by scales in half precision. */
function makeWeights(): Uint8Array {
  const bytes = new Uint8Array(LEVELS + SCALES * 2);
  const period = 1_000_003;
  let seed = 1;
  for (let i = 0; i < period; i++) {
    bytes[i] = (seed = (seed * 1_664_525 + 1_013_904_223) >>> 0) >> 24;
  }
  for (let end = period; end < LEVELS; end *= 2) {
    bytes.copyWithin(end, 0, Math.min(end, LEVELS - end));
  }
  const scales = Float16Array.from({ length: 509 }, (_, i) => i / 512);
  const halves = new Float16Array(bytes.buffer, LEVELS);
  for (let at = 0; at < SCALES; at += 509) halves.set(scales.subarray(0, SCALES - at), at);
  return bytes;
}

const WEIGHTS = makeWeights();

const stored = (
  dtype: StoredTensor["dtype"],
  shape: readonly number[],
  [offset, length]: [offset: number, length: number],
): StoredTensor => ({
  name: dtype,
  dtype,
  shape,
  data: { kind: "file", file: FILE, offset, length },
});

/** Reserves an empty memory for a matrix. */
function plan() {
  const arena = new RowArena(1);
  const format = { kind: "nbits", bits: 4, blockSize: 32, hasZeroPoints: false } as const;
  const at = arena.reserveMatrix({ ...format, k: K, outputs: OUTPUTS });
  const memory = arena.allocate(1);
  const rows = new SimdRows(new KernelThreads(1), memory);
  const halves = stored("float16", [OUTPUTS, K / 32], [LEVELS, SCALES * 2]);
  const matrices = [
    {
      ...{ at, format, k: K, outputs: OUTPUTS, zeroPoints: undefined },
      weights: stored("uint8", [OUTPUTS, K / 32, 16], [0, LEVELS]),
      scales: { ...halves, data: { kind: "widened", source: halves, length: SCALES * 4 } },
    } as const,
  ];
  const packed = () => new Uint8Array(memory.memory.buffer, at, LEVELS + SCALES * 4);
  return { rows, memory, matrices, packed };
}

async function withWeights(
  use: (folder: string, files: FolderFiles) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeFile(join(folder, FILE), WEIGHTS);
    await using files = new FolderFiles(folder);
    await use(folder, files);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Packs the matrix on this thread. */
async function packedHere(files: FolderFiles): Promise<Uint8Array> {
  const { rows, matrices, packed } = plan();
  await packMatrices(rows, matrices, files);
  return packed();
}

Deno.test("packWeights() packs the same bytes on a separate thread as on this one", () =>
  withWeights(async (_, files) => {
    const { packed, ...planned } = plan();
    using stderr = new CapturedStderr("warn");
    await packWeights({ ...planned, files });
    assert.deepEqual(stderr.lines, [], "the thread failed");
    assert.equal(Buffer.compare(packed(), await packedHere(files)), 0);
  }));

Deno.test("packWeights() packs on this thread if another cannot", () =>
  withWeights(async (folder, files) => {
    const { packed, ...planned } = plan();
    const wanted = await packedHere(files);
    // The file is still open here, but the other thread cannot find it.
    await Deno.remove(join(folder, FILE));
    using stderr = new CapturedStderr("warn");
    await packWeights({ ...planned, files });
    assert.match(stderr.lines.join(), /WARN .*without a thread/);
    assert.equal(Buffer.compare(packed(), wanted), 0);
  }));

Deno.test("packWeights() refuses a file that is too short", () =>
  withWeights(async (folder, files) => {
    await Deno.truncate(join(folder, FILE), LEVELS);
    using _stderr = new CapturedStderr("warn");
    const packed = packWeights({ ...plan(), files });
    await assert.rejects(packed, (error) =>
      error instanceof StartupError &&
      /ends at byte .* download may be incomplete/.test(error.message));
  }));
