/** Cuts in f16 are widened to f32 for the CPU. */
import assert from "node:assert/strict";
import { compileCut } from "../../../src/program/compile_cut.ts";
import { cutForCpu } from "../../../src/program/adapt_cut.ts";
import { findRefusal } from "../../../src/device/cpu/kernels.ts";
import { cutGraph } from "../../../src/graph/cut/cut_graph.ts";
import { FolderFiles } from "../../../src/graph/file/external_data.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { readRange, readStoredBytes } from "../../../src/graph/file/stored_range.ts";
import type { StoredTensor } from "../../../src/graph/file/tensor.ts";
import type { GraphCut } from "../../../src/graph/graph_cut.ts";
import { widenCut } from "../../../src/graph/rewrite/widen_cut.ts";
import { QWEN3, writeQwen3 } from "../../bench/real/qwen3.ts";
import { findModelFolder } from "../../fixtures/engine/goldens.ts";

async function makeCut(files: FolderFiles, graph: string): Promise<GraphCut> {
  const result = cutGraph(await readModel(files, graph), { contextLength: 64 });
  assert.ok("cut" in result, JSON.stringify(result));
  return result.cut;
}

function readDtypes({ segments, attentions, output }: GraphCut): Set<string> {
  const ports = segments.flatMap(({ inputs, outputs }) => [...inputs, ...outputs]);
  return new Set(
    [output, ...ports, ...attentions, ...attentions.map(({ output }) => output)]
      .map(({ dtype }) => dtype).filter((dtype) => dtype !== "int64"),
  );
}

Deno.test("widenCut() lets a 4-bit decoder in f16 run in the CPU's kernels, and leaves its large table in f16", async () => {
  const folder = await Deno.makeTempDir({ prefix: "hearth-widen-" });
  try {
    // The table is larger than 4 MiB.
    const sizes = {
      ...{ ...QWEN3, hidden: 64, intermediate: 128, layers: 2, heads: 2, kvHeads: 1, headDim: 32 },
      ...{ vocab: 40_000, positions: 64 },
    };
    await writeQwen3(folder, { sizes, dtypes: ["q4f16"] });
    await using files = new FolderFiles(`${folder}/onnx`);
    const cut = await makeCut(files, "model_q4f16.onnx");
    assert.deepEqual([...readDtypes(cut)], ["float16"]);
    const wide = widenCut(cut);
    assert.deepEqual([...readDtypes(wide)], ["float32"]);
    const halves = wide.segments.flatMap(({ model }) => model.graph.initializers)
      .filter(({ dtype }) => dtype === "float16");
    assert.deepEqual(halves.map(({ name }) => name), ["model.embed_tokens.weight"]);
    const options = {
      ...{ takesLayout: () => false, contextLength: 64, writesSums: false },
      findRefusal,
    };
    const refused = (cut: GraphCut) =>
      compileCut(cutForCpu(cut), options).map((each) => "refused" in each);
    assert.deepEqual(refused(cut), [true, true, true]);
    assert.deepEqual(refused(wide), [false, false, false]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("widenCut() widens matrices of f16, but changes neither f32 nor cuts whose widened matrices would exceed 1 GiB", async () => {
  await using files = new FolderFiles(`${findModelFolder("hearth-demo-chat")}/onnx`);
  const whole = await makeCut(files, "model.onnx");
  assert.equal(widenCut(whole), whole);
  const half = await makeCut(files, "model_fp16.onnx");
  assert.deepEqual([...readDtypes(widenCut(half))], ["float32"]);
  const segments = half.segments.map((segment) => {
    const { graph } = segment.model;
    const initializers = graph.initializers.map((tensor) => {
      const isMatrix = tensor.shape.length === 2 && tensor.data.kind === "file";
      return isMatrix ? { ...tensor, data: { ...tensor.data, length: 2 ** 29 + 2 } } : tensor;
    });
    return { ...segment, model: { ...segment.model, graph: { ...graph, initializers } } };
  });
  const large = { ...half, segments };
  assert.equal(widenCut(large), large);
});

Deno.test("readRange() reads parts of a constant that is widened", async () => {
  await using files = new FolderFiles(".");
  const values = Float16Array.of(1, -2.5, 65504, 6e-8, -0, Infinity, 0.1);
  const source: StoredTensor = {
    name: "half",
    dtype: "float16",
    shape: [7],
    data: { kind: "memory", bytes: new Uint8Array(values.buffer) },
  };
  const wide: StoredTensor = {
    name: "wide",
    dtype: "float32",
    shape: [7],
    data: { kind: "widened", source, length: 28 },
  };
  const all = new Float32Array((await readStoredBytes(wide, files)).buffer);
  assert.deepEqual(all, Float32Array.from(values));
  // The target's address is not a multiple of four.
  const part = new Uint8Array(13).subarray(1);
  await readRange(wide, { files, offset: 8 }, part);
  assert.deepEqual(new Float32Array(part.slice().buffer), all.subarray(2, 5));
});

/** Reads a constant whole, and in parts of every length from every offset. */
async function assertRanges(tensor: StoredTensor, wanted: Uint8Array): Promise<void> {
  await using files = new FolderFiles(".");
  assert.deepEqual(await readStoredBytes(tensor, files), wanted);
  const scratch = { bytes: new Uint8Array(0) };
  for (let offset = 0; offset < wanted.length; offset += 5) {
    for (let length = 1; offset + length <= wanted.length; length += 7) {
      const part = new Uint8Array(length);
      await readRange(tensor, { files, offset, scratch }, part);
      assert.deepEqual(part, wanted.subarray(offset, offset + length));
    }
  }
}

Deno.test("readRange() reads parts of a transposed constant with inverted bits", async () => {
  // 70 columns are more than are transposed together.
  const [numRows, numColumns] = [3, 70];
  const bytes = Uint8Array.from({ length: numRows * numColumns }, (_, i) => i * 11);
  const source = {
    ...{ name: "levels", dtype: "int8", shape: [numColumns, numRows] } as const,
    data: { kind: "memory", bytes } as const,
  };
  const wanted = Uint8Array.from(
    bytes,
    (_, i) => bytes[i % numColumns * numRows + Math.floor(i / numColumns)]! ^ 128,
  );
  await assertRanges({
    ...{ name: "turned", dtype: "uint8", shape: [numRows, numColumns] },
    data: { kind: "transposed", source, numRows, numColumns, flip: 128, length: bytes.length },
  }, wanted);
});

Deno.test("readRange() reads parts of a constant that is looked up, with the upper half of a byte first", async () => {
  const bytes = Uint8Array.of(0x01, 0xf2, 0x3e, 0xd4, 0x5c, 0xb6, 0x7a, 0x98);
  const source = {
    ...{ name: "codes", dtype: "uint8", shape: [8] } as const,
    data: { kind: "memory", bytes } as const,
  };
  const table = Uint8Array.from({ length: 16 }, (_, code) => 200 - code);
  const wanted = Uint8Array.of(0, 1, 15, 2, 3, 14, 13, 4, 5, 12, 11, 6, 7, 10, 9, 8)
    .map((code) => 200 - code);
  const data = { kind: "looked_up", source, table, length: 16 } as const;
  await assertRanges({ name: "levels", dtype: "uint8", shape: [16], data }, wanted);
});
