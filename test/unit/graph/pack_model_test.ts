import assert from "node:assert/strict";
import { countWeightBytes } from "../../../src/graph/graph_cut.ts";
import v8 from "node:v8";
import vm from "node:vm";
import { FolderFiles, type ModelFiles } from "../../../src/graph/file/external_data.ts";
import { readStoredBytes } from "../../../src/graph/file/stored_range.ts";
import { countStoredBytes } from "../../../src/graph/file/tensor.ts";
import type { ModelProto, Tensor } from "../../../src/graph/file/proto.ts";
import { TENSOR, writeModel } from "../../../src/graph/file/proto_codec.ts";
import { readModel } from "../../../src/graph/file/proto_read.ts";
import { copyWeights, mapWeights } from "../../../src/device/ort/pack_model.ts";
import { cutGraph } from "../../../src/graph/cut/cut_graph.ts";
import { MessageWriter, readFields, WireType } from "../../../src/graph/file/wire.ts";
import { CutRunner, TestSequence } from "./cut_runner.ts";
import { type AddAttention, decoder, inMemory, lengths, projections } from "./test_decoder.ts";

v8.setFlagsFromString("--expose-gc");
const collectGarbage = vm.runInNewContext("gc") as () => void;

const attention: AddAttention = (graph, layer) =>
  graph.add("GroupQueryAttention", [
    ...projections(graph, layer),
    layer.pastKey,
    layer.pastValue,
    ...lengths(graph),
  ], {
    domain: "com.microsoft",
    outputs: [`gqa_${layer.index}`, layer.presentKey, layer.presentValue],
    attributes: { num_heads: graph.sizes.heads, kv_num_heads: graph.sizes.kvHeads },
  });

/** Files that count the bytes read, and track the buffers read into. */
class CountedFiles implements ModelFiles {
  bytesRead = 0;
  readonly #files: ModelFiles;
  readonly #buffers = new Map<WeakRef<ArrayBufferLike>, number>();

  constructor(files: ModelFiles) {
    this.#files = files;
  }

  size(file: string): Promise<number> {
    return this.#files.size(file);
  }

  async read(file: string, offset: number, into: Uint8Array): Promise<void> {
    this.bytesRead += into.length;
    const known = [...this.#buffers.keys()].some((ref) => ref.deref() === into.buffer);
    if (!known) this.#buffers.set(new WeakRef(into.buffer), into.buffer.byteLength);
    await this.#files.read(file, offset, into);
  }

  /** Counts the bytes of those buffers that are still reachable. */
  async bytesHeld(): Promise<number> {
    // Weak references hold until the current job ends.
    await new Promise((resolve) => setTimeout(resolve, 0));
    collectGarbage();
    return [...this.#buffers].reduce((sum, [ref, bytes]) => sum + (ref.deref() ? bytes : 0), 0);
  }
}

async function inTempFolder(run: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await run(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function sum(numbers: Iterable<number>): number {
  return [...numbers].reduce((total, x) => total + x, 0);
}

/** Encodes the header of a field with `length` bytes. */
function fieldHead(number: number, length: number): Uint8Array {
  const bytes: number[] = [number * 8 + WireType.bytes];
  for (let rest = length;; rest = Math.floor(rest / 128)) {
    bytes.push(rest < 128 ? rest : rest % 128 + 128);
    if (rest < 128) return Uint8Array.from(bytes);
  }
}

Deno.test("copyWeights() of external data around 4 GiB reads each byte once and holds one segment at a time", async () => {
  await inTempFolder(async (folder) => {
    const externalFile = "model.onnx_data";
    const sizes = { layers: 14, heads: 18, kvHeads: 18, headDim: 64, hidden: 1152, vocab: 4400 };
    const externalOffset = 2 ** 32 - 2 ** 27;
    const graph = decoder(attention, { sizes, externalFile, externalOffset });
    await Deno.writeFile(`${folder}/model.onnx`, graph);
    // Sparse: needs no space on the disk.
    await Deno.writeFile(`${folder}/${externalFile}`, new Uint8Array());
    await Deno.truncate(`${folder}/${externalFile}`, 2 ** 33);

    await using folderFiles = new FolderFiles(folder);
    const files = new CountedFiles(folderFiles);
    const model = await readModel(files, "model.onnx");
    const result = cutGraph(model);
    assert.ok("cut" in result);
    const { segments } = result.cut;
    assert.equal(segments.length, 15);
    assert.ok(files.bytesRead < 2 * graph.length, `the cut read ${files.bytesRead} bytes`);

    const largest = Math.max(...segments.map(countWeightBytes));
    const all = sum(model.graph.initializers.map(countStoredBytes));
    assert.ok(externalOffset + all > 2 ** 32 + 2 ** 27 && largest < all / 10);
    const readBefore = files.bytesRead;
    let mostHeld = 0;
    for (const segment of segments) {
      const { externalData } = await copyWeights(segment.model, files);
      assert.ok(externalData[0]!.data.length <= countWeightBytes(segment) + 2 ** 10);
      mostHeld = Math.max(mostHeld, await files.bytesHeld());
    }
    // Weights of norms are in the graph by then; nothing is read twice.
    assert.ok(files.bytesRead - readBefore <= all, `${files.bytesRead - readBefore} of ${all}`);
    assert.ok(files.bytesRead - readBefore > all - 2 ** 20);
    assert.ok(
      mostHeld >= largest && mostHeld < largest + 2 ** 20,
      `${mostHeld} held of ${largest}`,
    );
  });
});

Deno.test("readModel() of a graph with 600 MB of inline weights reads only the nodes", async () => {
  await inTempFolder(async (folder) => {
    const inline = decoder(attention);
    const model = await readModel(inMemory(inline), "model.onnx");
    // Adds a weight of 600 MB of zeros to the graph without having it in memory.
    const rawBytes = 600e6;
    const head = new MessageWriter().int(1, rawBytes / 4).int(2, 1).text(8, "huge").finish();
    const raw = fieldHead(TENSOR.rawData, rawBytes);
    const tensorBytes = head.length + raw.length + rawBytes;
    const tensor = fieldHead(5, tensorBytes);
    const graph = [...readFields(inline)].find(({ number }) => number === 7)!.payload;
    const before = new MessageWriter();
    for (const field of readFields(inline)) if (field.number !== 7) before.field(field);
    const parts = [
      before.finish(),
      fieldHead(7, graph.length + tensor.length + tensorBytes),
      graph,
      tensor,
      head,
      raw,
    ];
    const path = `${folder}/model.onnx`;
    await Deno.writeFile(path, new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer()));
    await Deno.truncate(path, sum(parts.map(({ length }) => length)) + rawBytes);

    await using folderFiles = new FolderFiles(folder);
    const files = new CountedFiles(folderFiles);
    const read = await readModel(files, "model.onnx");
    assert.equal(read.graph.nodes.length, model.graph.nodes.length);
    const huge = read.graph.initializers.find(({ name }) => name === "huge")!;
    assert.deepEqual([huge.data.kind, countStoredBytes(huge)], ["file", rawBytes]);
    assert.ok(files.bytesRead < inline.length + 2 ** 20, `${files.bytesRead} bytes read`);
  });
});

Deno.test("copyWeights() of a graph with external data gives the logits of the graph with inline weights", async () => {
  await inTempFolder(async (folder) => {
    const sizes = { hidden: 64, vocab: 97 };
    const inline = decoder(attention, { sizes });
    const model = await readModel(inMemory(inline), "inline.onnx");
    const data: Uint8Array[] = [];
    let end = 0;
    const initializers: Tensor[] = [];
    for (const tensor of model.graph.initializers) {
      const bytes = await readStoredBytes(tensor, inMemory(inline));
      const range = {
        kind: "file",
        file: "sub/weights.bin",
        offset: end,
        length: bytes.length,
      } as const;
      initializers.push({ ...tensor, data: range });
      data.push(bytes);
      end += bytes.length;
    }
    await Deno.mkdir(`${folder}/sub`);
    await Deno.writeFile(
      `${folder}/sub/weights.bin`,
      new Uint8Array(await new Blob(data as BlobPart[]).arrayBuffer()),
    );
    const outside = writeModel({ ...model, graph: { ...model.graph, initializers } });
    await Deno.writeFile(`${folder}/model.onnx`, outside);
    assert.ok(outside.length < inline.length / 4);

    await using cut = await CutRunner.openFile(`${folder}/model.onnx`);
    await using same = await CutRunner.open(inMemory(inline), "inline.onnx");
    const tokens = [3, 1, 4, 1, 5];
    const run = (runner: CutRunner) =>
      runner.step([{ sequence: new TestSequence(), tokens }], [4, 2]);
    assert.deepEqual(await run(cut), await run(same));
  });
});

Deno.test("FolderFiles.read() refuses files outside the folder", async () => {
  await inTempFolder(async (folder) => {
    await using files = new FolderFiles(folder);
    for (const file of ["../secret", "/etc/passwd", "a/../../b", "C:\\data", "..\\up", ""]) {
      await assert.rejects(files.read(file, 0, new Uint8Array(1)), /not inside the model's folder/);
    }
  });
});

Deno.test("FolderFiles.read() reports how much of a file is missing", async () => {
  await inTempFolder(async (folder) => {
    await Deno.writeFile(`${folder}/weights`, new Uint8Array(10));
    await using files = new FolderFiles(folder);
    await assert.rejects(
      files.read("weights", 4, new Uint8Array(8)),
      /ends at byte 10, .* 8 bytes from 4 on/,
    );
    await assert.rejects(
      files.read("weights", 400, new Uint8Array(8)),
      /ends at byte 10, .* 8 bytes from 400 on/,
    );
    await assert.rejects(files.read("absent", 0, new Uint8Array(1)), /Cannot read .*absent/);
  });
});

/** Calls `run` with a folder that contains a decoder's graph and its weights. */
async function withWeightsFile(
  run: (folder: string, model: ModelProto) => Promise<void>,
): Promise<void> {
  await inTempFolder(async (folder) => {
    const externalFile = "model.onnx_data";
    const sizes = { layers: 1, hidden: 64, vocab: 97 };
    await Deno.writeFile(`${folder}/model.onnx`, decoder(attention, { sizes, externalFile }));
    await Deno.writeFile(`${folder}/${externalFile}`, new Uint8Array(2 ** 20));
    await using files = new FolderFiles(folder);
    await run(folder, await readModel(files, "model.onnx"));
  });
}

Deno.test("mapWeights() refers to the files that the model's links lead to", async () => {
  await withWeightsFile(async (folder, model) => {
    await Deno.mkdir(`${folder}/blobs`);
    await Deno.rename(`${folder}/model.onnx_data`, `${folder}/blobs/abc`);
    await Deno.symlink("blobs/abc", `${folder}/model.onnx_data`);
    await using files = new FolderFiles(folder);
    const { bytes, weightsFolder } = await mapWeights(model, files);
    assert.equal(weightsFolder, await Deno.realPath(`${folder}/blobs`));
    const { graph } = await readModel(inMemory(bytes), "model.onnx");
    const mapped = graph.initializers.filter(({ data }) => data.kind === "file");
    assert.ok(mapped.length > 0);
    for (const { data } of mapped) assert.ok(data.kind === "file" && data.file === "abc");
  });
});

Deno.test("mapWeights() refuses weights beyond the end of their file", async () => {
  await withWeightsFile(async (folder, model) => {
    await Deno.truncate(`${folder}/model.onnx_data`, 5000);
    await using files = new FolderFiles(folder);
    await assert.rejects(mapWeights(model, files), {
      name: "StartupError",
      message: /model\.onnx_data ends at byte 5000, but the graph needs \d+ bytes from \d+ on/,
    });
  });
});

Deno.test("FolderFiles.requireUnchanged() refuses files that are being written", async () => {
  await withWeightsFile(async (folder) => {
    await using files = new FolderFiles(folder);
    await files.size("model.onnx_data");
    await files.requireUnchanged();
    await Deno.truncate(`${folder}/model.onnx_data`, 2 ** 21);
    await assert.rejects(files.requireUnchanged(), {
      message: /changed while it was loaded \(1048576 bytes, now 2097152\)/,
    });
  });
});
