/** For a decoder in several dtypes, the one whose graph can be cut is chosen before the device's first preference. */
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { openFolder } from "../../src/hub/model_folder.ts";
import { FolderFiles } from "../../src/graph/file/external_data.ts";
import { readGraph } from "../../src/models/folder/graph_file.ts";
import { cutGraph } from "../../src/graph/cut/cut_graph.ts";
import { chooseCutGraphs } from "../../src/models/load/choose_files.ts";
import { additiveMask, spelledOut } from "../unit/graph/spelled_out.ts";
import { decoder } from "../unit/graph/test_decoder.ts";

const WANTED = [{ name: "model" }];

/** A folder with graphs, named by suffix or path, that can be cut or not. */
async function makeFolder(graphs: Readonly<Record<string, "cut" | "not cut">>) {
  const path = await Deno.makeTempDir();
  await Deno.writeTextFile(join(path, "config.json"), '{"model_type": "llama"}');
  for (const [suffix, kind] of Object.entries(graphs)) {
    const attention = kind === "cut"
      ? spelledOut({
        scores: (graph, scores) => graph.add("Add", [scores, additiveMask(graph)]),
      })
      // Without a mask, tokens see later ones.
      : spelledOut({});
    const file = join(path, suffix.endsWith(".onnx") ? suffix : `onnx/model${suffix}.onnx`);
    await Deno.mkdir(dirname(file), { recursive: true });
    await Deno.writeFile(file, decoder(attention));
  }
  return {
    folder: await openFolder(path),
    [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }),
  };
}

Deno.test("chooseCutGraphs() chooses the first of the preferred dtypes whose graph can be cut", async () => {
  await using made = await makeFolder({ _q4f16: "not cut", _q4: "cut", "": "cut" });
  const { folder } = made;
  const graphs = await chooseCutGraphs(folder, WANTED, { device: "gpuWithF16" });
  assert.equal(graphs.main.path, "onnx/model_q4.onnx");
  const asked = await chooseCutGraphs(folder, WANTED, { device: "gpuWithF16", dtype: "q4f16" });
  assert.equal(asked.main.path, "onnx/model_q4f16.onnx");
});

/** Ten folders, and the graph that each device takes from each. */
const FOLDERS: readonly (readonly [
  graphs: Readonly<Record<string, "cut" | "not cut">>,
  onGpu: string,
  onCpu: string,
])[] = [
  [{ _q4f16: "cut", _q4: "cut", _fp16: "cut" }, "onnx/model_q4f16.onnx", "onnx/model_q4.onnx"],
  [{ _q4f16: "cut", _q4: "not cut" }, "onnx/model_q4f16.onnx", "onnx/model_q4f16.onnx"],
  [{ _q4f16: "not cut", _fp16: "cut" }, "onnx/model_fp16.onnx", "onnx/model_fp16.onnx"],
  [
    { _q4: "not cut", _quantized: "cut" },
    "onnx/model_quantized.onnx",
    "onnx/model_quantized.onnx",
  ],
  [{ _q4: "not cut", "": "cut" }, "onnx/model.onnx", "onnx/model.onnx"],
  [{ _q2f16: "not cut", _q2: "cut", _q1: "cut" }, "onnx/model_q2.onnx", "onnx/model_q2.onnx"],
  [{ "model_q4f16.onnx": "not cut", "model_q4.onnx": "cut" }, "model_q4.onnx", "model_q4.onnx"],
  [{ "model_q4.onnx": "not cut", "model.onnx": "cut" }, "model.onnx", "model.onnx"],
  [
    { "cpu_and_mobile/cpu-int4/model.onnx": "cut", "gpu/gpu-int4/model.onnx": "not cut" },
    "cpu_and_mobile/cpu-int4/model.onnx",
    "cpu_and_mobile/cpu-int4/model.onnx",
  ],
  [
    { "gpu/gpu-int4/model.onnx": "not cut", "gpu/gpu-fp16/model.onnx": "cut" },
    "gpu/gpu-fp16/model.onnx",
    "gpu/gpu-fp16/model.onnx",
  ],
];

for (const [graphs, onGpu, onCpu] of FOLDERS) {
  const shown = Object.entries(graphs).map((each) => each.join(" ")).join(", ");
  Deno.test(`chooseCutGraphs() takes ${onGpu} on a GPU and ${onCpu} on the CPU of: ${shown}`, async () => {
    await using made = await makeFolder(graphs);
    for (const [device, path] of [["gpuWithF16", onGpu], ["cpu", onCpu]] as const) {
      const { main } = await chooseCutGraphs(made.folder, WANTED, { device });
      assert.equal(main.path, path, device);
    }
  });
}

Deno.test("chooseCutGraphs() chooses the preferred dtype if none can be cut", async () => {
  await using made = await makeFolder({ _q4f16: "not cut", _q4: "not cut" });
  const graphs = await chooseCutGraphs(made.folder, WANTED, { device: "gpuWithF16" });
  assert.equal(graphs.main.path, "onnx/model_q4f16.onnx");
});

Deno.test("chooseCutGraphs() keeps the graph that it has read and cut, for one later load", async () => {
  await using made = await makeFolder({ _q4f16: "not cut", _q4: "cut" });
  const { folder } = made;
  const path = join(folder.path, "config.json");
  await Deno.writeTextFile(path, '{"model_type": "llama", "max_position_embeddings": 64}');
  const reopened = await openFolder(folder.path);
  const graphs = await chooseCutGraphs(reopened, WANTED, { device: "gpuWithF16" });
  await using files = new FolderFiles(join(folder.path, "onnx"));
  const read = { path: "onnx/model_q4.onnx", version: await files.version("model_q4.onnx") };
  const chosen = graphs.takeRead(read.path, read.version)!;
  graphs.keepRead({ ...read, model: chosen });
  const backend = { kind: "webgpu", hasF16: true, adapter: "a card" } as const;
  const context = { folder: reopened, graphs, backend, onProgress: () => {} };
  await using first = await readGraph(context);
  await using second = await readGraph(context);
  assert.equal(first.model, chosen);
  assert.notEqual(second.model, chosen);
  const cut = cutGraph(first.model, { contextLength: 64 });
  assert.equal(cutGraph(first.model, { contextLength: 64 }), cut);
  assert.notEqual(cutGraph(first.model, { contextLength: 32 }), cut);
});

Deno.test("a graph whose file is replaced after it was chosen is read again", async () => {
  await using made = await makeFolder({ _q4: "cut", _fp16: "not cut" });
  const { folder } = made;
  const graphs = await chooseCutGraphs(folder, WANTED, { device: "gpuWithF16" });
  assert.equal(graphs.main.path, "onnx/model_q4.onnx");
  // Replaces the graph by one that cannot be cut.
  await Deno.rename(join(folder.path, "onnx/model_fp16.onnx"), join(folder.path, graphs.main.path));
  const backend = { kind: "webgpu", hasF16: true, adapter: "a card" } as const;
  await using graph = await readGraph({ folder, graphs, backend, onProgress: () => {} });
  assert.ok(
    "refused" in cutGraph(graph.model, { contextLength: 64 }),
    "the replaced graph was used",
  );
});
