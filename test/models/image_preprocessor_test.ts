import assert from "node:assert/strict";
import { HearthError, StartupError } from "../../src/base/errors.ts";
import { ImagePreprocessor } from "../../src/models/images/image_preprocessor.ts";
import { makeTinyOcr, ocrImage } from "../fixtures/models/tiny_ocr.ts";

const NEVER = new AbortController();

Deno.test("ImagePreprocessor normalizes and decodes, and refuses invalid images", async () => {
  await using tiny = await makeTinyOcr("trocr");
  const imagePreprocessor = await ImagePreprocessor.open({
    processor: { load: "loadImageProcessor", folder: tiny.folder },
  });
  try {
    const { dims, width, height } = await imagePreprocessor.call("normalize", {
      bytes: ocrImage(0),
    }, NEVER);
    assert.deepEqual([[...dims], width, height], [[1, 3, 48, 64], 64, 48]);
    await assert.rejects(
      imagePreprocessor.call("decode", { bytes: new Uint8Array(9) }, NEVER),
      (error: unknown) => {
        assert.ok(error instanceof HearthError);
        return error.kind === "invalid_media";
      },
    );
    const { data } = await imagePreprocessor.call("decode", { bytes: ocrImage(0) }, NEVER);
    assert.equal(data.length, 64 * 48 * 3);
  } finally {
    imagePreprocessor.close();
  }
});

Deno.test("ImagePreprocessor skips cancelled requests, and restarts after its thread has ended", async () => {
  const imagePreprocessor = await ImagePreprocessor.open();
  try {
    const first = imagePreprocessor.call("decode", { bytes: ocrImage(0) }, NEVER);
    const abort = new AbortController();
    const second = imagePreprocessor.call("decode", { bytes: ocrImage(1) }, abort);
    abort.abort(new Error("gone"));
    await assert.rejects(second, /gone/);
    assert.equal((await first).width, 64);
    const large = ocrImage(2, { width: 2000, height: 1500 });
    const cut = imagePreprocessor.call("decode", { bytes: large }, NEVER);
    await new Promise((resolve) => setTimeout(resolve, 0));
    imagePreprocessor.close();
    await assert.rejects(cut, /was ended/);
    assert.equal((await imagePreprocessor.call("decode", { bytes: ocrImage(3) }, NEVER)).width, 64);
  } finally {
    imagePreprocessor.close();
  }
});

Deno.test("ImagePreprocessor.open() names a folder without an image processor", async () => {
  await using tiny = await makeTinyOcr("trocr");
  await Deno.remove(`${tiny.folder}/preprocessor_config.json`);
  await assert.rejects(
    ImagePreprocessor.open({
      processor: { load: "loadImageProcessor", folder: tiny.folder },
    }),
    (error: unknown) => {
      assert.ok(error instanceof StartupError);
      assert.ok(error.message.includes(tiny.folder), error.message);
      return true;
    },
  );
});
