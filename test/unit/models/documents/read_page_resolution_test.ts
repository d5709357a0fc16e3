import assert from "node:assert/strict";
import { readPageResolution } from "../../../../src/models/documents/document_reader.ts";

Deno.test("readPageResolution() returns the page size that the model's preprocessor keeps", () => {
  const read = (preprocessor: Record<string, unknown>, maxImagePixels?: number) =>
    readPageResolution(preprocessor, { kind: "vision", maxImagePixels });
  const nothing = { dpi: 144, maxSide: undefined, maxPixels: Infinity };
  assert.deepEqual(read({}), nothing);
  assert.deepEqual(read({ size: 224 }), nothing);
  // SmolVLM, with tiles.
  assert.deepEqual(read({ size: { longest_edge: 2048 } }), { ...nothing, maxSide: 2048 });
  // Gemma 3: the shorter side of a page must have 896 pixels.
  assert.equal(read({ size: { width: 896, height: 896 } }).maxSide, 1268);
  // Qwen2-VL, in its older and its newer format.
  assert.equal(
    read({ max_pixels: 1_003_520, size: { longest_edge: 12_845_056 } }).maxPixels,
    1_003_520,
  );
  assert.equal(read({ size: { longest_edge: 12_845_056 } }).maxPixels, 12_845_056);
  assert.equal(read({ size: { longest_edge: 12_845_056 } }, 4e6).maxPixels, 4e6);
  assert.equal(readPageResolution({}, { kind: "ocr" }).dpi, 200);
});
