/** What was opened for a decoder that cannot be opened whole is freed. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { CpuBackend } from "../../src/backend/cpu.ts";
import { CpuAttention } from "../../src/backend/cpu_attention.ts";
import { openPagedDecoder } from "../../src/decoder/open_paged_decoder.ts";
import { FolderFiles } from "../../src/onnx/file/external_data.ts";
import type { GraphSession } from "../../src/onnx/runtime/ort.ts";
import { readModel } from "../../src/onnx/file/proto_read.ts";
import { splitGraph } from "../../src/onnx/cut/split.ts";
import { countCalls } from "../fixtures/count_calls.ts";

const EXPORTS = fileURLToPath(new URL("../fixtures/exports", import.meta.url));

class CountingBackend extends CpuBackend {
  numOpened = 0;
  numReleased = 0;

  override async openModel(...args: Parameters<CpuBackend["openModel"]>): Promise<GraphSession> {
    const session = await super.openModel(...args);
    this.numOpened++;
    const release = () => {
      this.numReleased++;
      return session.release();
    };
    return { ...session, release };
  }
}

Deno.test("openPagedDecoder() frees attention and segments when the embeddings cannot be opened", async () => {
  await using files = new FolderFiles(EXPORTS);
  const model = await readModel(files, "llama_script_17.onnx");
  const result = splitGraph(model, { contextLength: 32 });
  assert.ok("cut" in result, JSON.stringify(result));
  const { cut } = result;
  const backend = new CountingBackend();
  using disposed = countCalls(CpuAttention.prototype, "dispose");
  const opening = openPagedDecoder({
    ...{ backend, files },
    cut: { ...cut, tokens: { ...cut.tokens, kind: "embeddings" } },
    limits: {
      contextLength: 32,
      vocabSize: cut.output.width,
      maxSequences: 1,
      maxBatchTokens: 32,
      numBlocks: 2,
      blockSize: 16,
      sharesBlocks: false,
    },
    openEmbedding: () => Promise.reject(new Error("No such file.")),
    onProgress: () => {},
  });
  await assert.rejects(opening, { message: "No such file." });
  assert.equal(backend.numOpened, cut.segments.length);
  assert.equal(backend.numReleased, backend.numOpened);
  assert.equal(disposed.count, 1);
});
