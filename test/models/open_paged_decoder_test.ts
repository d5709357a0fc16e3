/** Resources of a decoder, and their release if the decoder cannot be opened completely. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { CpuAttention } from "../../src/device/cpu/attention.ts";
import { openPagedDecoder } from "../../src/decoder/open_paged_decoder.ts";
import { FolderFiles } from "../../src/graph/file/external_data.ts";
import type { GraphSession } from "../../src/device/ort/ort.ts";
import { countStoredBytes } from "../../src/graph/file/tensor.ts";
import type { ModelProto } from "../../src/graph/file/proto.ts";
import { readModel } from "../../src/graph/file/proto_read.ts";
import { cutGraph } from "../../src/graph/cut/cut_graph.ts";
import { countCalls } from "../fixtures/engine/count_calls.ts";

const EXPORTS = fileURLToPath(new URL("../fixtures/graphs/exports", import.meta.url));

class CountingBackend extends CpuBackend {
  readonly opened: ModelProto[] = [];
  numReleased = 0;
  numCompiled = 0;

  override async openKernels(...args: Parameters<CpuBackend["openKernels"]>) {
    this.numCompiled++;
    return await super.openKernels(...args);
  }

  override async openModel(...args: Parameters<CpuBackend["openModel"]>): Promise<GraphSession> {
    const session = await super.openModel(...args);
    this.opened.push(args[0]);
    const release = () => {
      this.numReleased++;
      return session.release();
    };
    return { ...session, release };
  }
}

const CONTEXT_LENGTH = 32;

/** A cut of a small export in f32, and the options to open it. */
async function readExport(files: FolderFiles) {
  const model = await readModel(files, "llama_script_17.onnx");
  const result = cutGraph(model, { contextLength: CONTEXT_LENGTH });
  assert.ok("cut" in result, JSON.stringify(result));
  const { cut } = result;
  const limits = {
    contextLength: CONTEXT_LENGTH,
    vocabSize: cut.output.width,
    maxSequences: 1,
    maxBatchTokens: CONTEXT_LENGTH,
    numBlocks: 2,
    blockSize: 16,
    sharesBlocks: false,
  };
  return {
    cut,
    files,
    limits,
    openEmbedding: () => Promise.reject(new Error("No such file.")),
    onProgress: () => {},
  };
}

Deno.test("openPagedDecoder() frees attention and segments when the embeddings cannot be opened", async () => {
  await using files = new FolderFiles(EXPORTS);
  const options = await readExport(files);
  const { cut } = options;
  const backend = new CountingBackend();
  using disposed = countCalls(CpuAttention.prototype, "dispose");
  const opening = openPagedDecoder({
    ...options,
    backend,
    cut: { ...cut, tokens: { ...cut.tokens, kind: "embeddings" } },
  });
  await assert.rejects(opening, { message: "No such file." });
  assert.equal(backend.opened.length, cut.segments.length);
  assert.equal(backend.numReleased, backend.opened.length);
  assert.equal(disposed.count, 1);
  // ONNX Runtime holds a session's weights twice while it opens it, so the largest segment is
  // opened first.
  const opened = backend.opened.map(({ graph }) =>
    graph.initializers.reduce((sum, tensor) => sum + countStoredBytes(tensor), 0)
  );
  assert.deepEqual(opened, opened.toSorted((a, b) => b - a));
});

Deno.test("openPagedDecoder() refuses embeddings of another export, and frees them", async () => {
  await using files = new FolderFiles(EXPORTS);
  const options = await readExport(files);
  const { cut } = options;
  let numReleased = 0;
  const session: GraphSession = {
    inputs: [],
    outputs: [],
    run: () => Promise.reject(new Error("not reached")),
    release: () => Promise.resolve(void numReleased++),
  };
  const opening = openPagedDecoder({
    ...options,
    backend: new CpuBackend(),
    cut: { ...cut, tokens: { ...cut.tokens, kind: "embeddings" } },
    openEmbedding: () => Promise.resolve(session),
  });
  await assert.rejects(opening, { name: "StartupError", message: /not come from the same export/ });
  assert.equal(numReleased, 1);
});

Deno.test("openPagedDecoder() does not compile a decoder with too many weights in f32", async () => {
  await using files = new FolderFiles(EXPORTS);
  const options = await readExport(files);
  const bytes = new Map(
    options.cut.segments.flatMap(({ model }) => model.graph.initializers)
      .filter(({ dtype }) => dtype === "float32")
      .map((tensor) => [tensor.name, countStoredBytes(tensor)]),
  ).values().reduce((sum, count) => sum + count, 0);
  for (const [maxCompiledFloatBytes, numCompiled] of [[bytes - 1, 0], [bytes, 1], [undefined, 1]]) {
    const backend = new CountingBackend();
    const decoder = await openPagedDecoder({ ...options, backend, maxCompiledFloatBytes });
    await decoder.dispose();
    assert.equal(backend.numCompiled, numCompiled);
  }
});
