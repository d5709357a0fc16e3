/** Cuts in f16 compute in f32 on the CPU. */
import assert from "node:assert/strict";
import { compileCut, refuseSegments } from "../../../src/program/compile_cut.ts";
import { cutForCpu } from "../../../src/program/cpu_cut.ts";
import { findRefusal } from "../../../src/device/cpu/program.ts";
import { splitGraph } from "../../../src/graph/cut/split.ts";
import { FolderFiles } from "../../../src/graph/file/external_data.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { bytesOfStored, readRange } from "../../../src/graph/file/stored_range.ts";
import type { StoredTensor } from "../../../src/graph/file/stored_tensor.ts";
import type { GraphCut } from "../../../src/graph/graph_cut.ts";
import { widenCut } from "../../../src/graph/rewrite/widen_cut.ts";
import { QWEN3, writeQwen3 } from "../../bench/real/qwen3.ts";
import { findModelFolder } from "../../fixtures/engine/goldens.ts";

async function makeCut(files: FolderFiles, graph: string): Promise<GraphCut> {
  const result = splitGraph(await readModel(files, graph), { contextLength: 64 });
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

Deno.test("widenCut() lets all of a 4-bit decoder in f16 but its table run in the CPU's kernels", async () => {
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
    const options = { takesForm: () => false, contextLength: 64, writesSums: false };
    const refused = (cut: GraphCut) =>
      refuseSegments(compileCut(cutForCpu(cut), options), findRefusal).map((each) =>
        "refused" in each
      );
    assert.deepEqual(refused(cut), [true, true, true]);
    assert.deepEqual(refused(wide), [false, false, false]);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("widenCut() widens matrices of f16 up to what ONNX Runtime reads, and leaves what is f32", async () => {
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
  const all = new Float32Array((await bytesOfStored(wide, files)).buffer);
  assert.deepEqual(all, Float32Array.from(values));
  // At an address that is no multiple of four.
  const part = new Uint8Array(13).subarray(1);
  await readRange(wide, { files, offset: 8 }, part);
  assert.deepEqual(new Float32Array(part.slice().buffer), all.subarray(2, 5));
});
