import assert from "node:assert/strict";
import { EmbeddingList, writeEmbeddings } from "../../../src/wire/embeddings.ts";

const RESULT = { id: "i", model: 'a "quoted" name', promptTokens: 7 };

Deno.test("writeEmbeddings() writes JSON that EmbeddingList accepts, with every number unchanged", () => {
  const vectors = Float32Array.from([0.1, -1e-30, 3.4e38, 0]);
  for (const format of ["float", "base64"] as const) {
    const json = [...writeEmbeddings({ ...RESULT, vectors, dimensions: 2, format })].join("");
    const list = EmbeddingList.parse(JSON.parse(json));
    assert.equal(list.model, RESULT.model);
    assert.deepEqual(list.usage, { prompt_tokens: 7, total_tokens: 7 });
    const numbers = list.data.flatMap(({ embedding }) =>
      typeof embedding === "string"
        ? [...new Float32Array(Uint8Array.fromBase64(embedding).buffer)]
        : embedding
    );
    assert.deepEqual(numbers, [...vectors]);
  }
});

Deno.test("writeEmbeddings() writes a large list in small pieces", () => {
  const vectors = new Float32Array(1000 * 384).fill(0.25);
  const pieces = [...writeEmbeddings({ ...RESULT, vectors, dimensions: 384, format: "float" })];
  assert.ok(pieces.length >= 10);
  assert.ok(Math.max(...pieces.map(({ length }) => length)) < 300_000);
  assert.equal(JSON.parse(pieces.join("")).data.length, 1000);
});
