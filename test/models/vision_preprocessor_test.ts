import assert from "node:assert/strict";
import type { HearthError } from "../../src/base/errors.ts";
import { ImagePreprocessor } from "../../src/models/images/image_preprocessor.ts";
import { drawImage } from "../fixtures/models/vision/vision_cases.ts";
import { makeVisionFolder } from "../fixtures/models/vision/vision_folder.ts";

const NEVER = new AbortController();

/** Starts a preprocessor and stops it after use. */
async function withPreparer(use: (preparer: ImagePreprocessor) => Promise<void>): Promise<void> {
  await using folder = await makeVisionFolder("qwen2_5_vl");
  const preparer = await ImagePreprocessor.open({
    processor: { load: "loadProcessor", folder: folder.path },
  });
  try {
    await use(preparer);
  } finally {
    preparer.close();
  }
}

Deno.test("ImagePreprocessor.call() returns the encoder's inputs and the image's prompt text", () =>
  withPreparer(async (preparer) => {
    assert.equal(preparer.placeholder, "<|image_pad|>");
    const { text, tensors } = await preparer.call(
      "prepare",
      { bytes: drawImage(0, [112, 56]) },
      NEVER,
    );
    assert.equal(text, "<|image_pad|>".repeat(8));
    assert.deepEqual(tensors["pixel_values"]!.dims, [32, 1176]);
    assert.deepEqual([...tensors["image_grid_thw"]!.data], [1n, 4n, 8n]);
  }));

Deno.test("ImagePreprocessor.call() renders transparency on white", () =>
  withPreparer(async (preparer) => {
    const clear = Uint8Array.fromBase64(
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg==",
    );
    const { tensors } = await preparer.call("prepare", { bytes: clear }, NEVER);
    const white = [0.48145466, 0.4578275, 0.40821073].map((mean, i) =>
      (1 - mean) / [0.26862954, 0.26130258, 0.27577711][i]!
    );
    const data = tensors["pixel_values"]!.data as Float32Array;
    for (const value of new Set(data)) {
      assert.ok(white.some((level) => Math.abs(level - value) < 1e-5), `${value}`);
    }
  }));

Deno.test("ImagePreprocessor.call() leaves the queue when aborted, and serves the next after a refusal", () =>
  withPreparer(async (preparer) => {
    const image = drawImage(1, [400, 300]);
    const abort = new AbortController();
    const first = preparer.call("prepare", { bytes: image }, NEVER);
    const second = preparer.call("prepare", { bytes: image }, abort);
    const broken = preparer.call("prepare", { bytes: image.slice(0, 40) }, NEVER);
    abort.abort(new Error("gone"));
    await assert.rejects(second, /gone/);
    await assert.rejects(broken, (error: HearthError) => error.kind === "invalid_media");
    assert.equal(
      (await first).text,
      (await preparer.call("prepare", { bytes: image }, NEVER)).text,
    );
  }));

Deno.test("ImagePreprocessor.call() replaces a thread that has ended", () =>
  withPreparer(async (preparer) => {
    const image = drawImage(1, [800, 600]);
    const interrupted = preparer.call("prepare", { bytes: image }, NEVER);
    await new Promise((resolve) => setTimeout(resolve, 1));
    preparer.close();
    await assert.rejects(interrupted, /was ended/);
    assert.ok((await preparer.call("prepare", { bytes: image }, NEVER)).text.length > 0);
  }));

Deno.test("ImagePreprocessor.call() refuses an image above the configured limit, naming the flag", async () => {
  await using folder = await makeVisionFolder("qwen2_5_vl");
  const preparer = await ImagePreprocessor.open({
    processor: { load: "loadProcessor", folder: folder.path },
    maxPixels: 112 * 56,
  });
  try {
    await preparer.call("prepare", { bytes: drawImage(0, [112, 56]) }, NEVER);
    await assert.rejects(
      preparer.call("prepare", { bytes: drawImage(0, [112, 57]) }, NEVER),
      { kind: "invalid_media", message: /--max-image-megapixels/ },
    );
  } finally {
    preparer.close();
  }
});
