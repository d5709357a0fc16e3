import assert from "node:assert/strict";
import { HearthError, StartupError } from "../../src/errors.ts";
import { ImagePreprocessor } from "../../src/models/ocr/image_preprocessor.ts";
import { makeTinyOcr, ocrImage } from "../fixtures/tiny_ocr.ts";

const NEVER = new AbortController().signal;

function partOf(bytes: Uint8Array<ArrayBuffer>) {
  return { type: "image", bytes, param: "messages[0].content[2]" } as const;
}

Deno.test("ImagePreprocessor prepares and decodes, and names the part that it refuses", async () => {
  await using tiny = await makeTinyOcr("trocr");
  const imagePreprocessor = await ImagePreprocessor.open({ folder: tiny.folder });
  try {
    const { dims, width, height } = await imagePreprocessor.prepare(partOf(ocrImage(0)), NEVER);
    assert.deepEqual([[...dims], width, height], [[1, 3, 48, 64], 64, 48]);
    await assert.rejects(
      imagePreprocessor.decode(partOf(new Uint8Array(9)), NEVER),
      (error: unknown) => {
        assert.ok(error instanceof HearthError);
        assert.deepEqual([error.kind, error.param], ["invalid_media", "messages[0].content[2]"]);
        assert.match(error.message, /^messages\[0\]\.content\[2\]: /);
        return true;
      },
    );
    const { data } = await imagePreprocessor.decode(partOf(ocrImage(0)), NEVER);
    assert.equal(data.length, 64 * 48 * 3);
  } finally {
    imagePreprocessor.close();
  }
});

Deno.test("ImagePreprocessor leaves out who goes while waiting, and begins anew when its thread has ended", async () => {
  const imagePreprocessor = await ImagePreprocessor.open();
  try {
    const first = imagePreprocessor.decode(partOf(ocrImage(0)), NEVER);
    const abort = new AbortController();
    const second = imagePreprocessor.decode(partOf(ocrImage(1)), abort.signal);
    abort.abort(new Error("gone"));
    await assert.rejects(second, /gone/);
    assert.equal((await first).width, 64);
    const large = ocrImage(2, { width: 2000, height: 1500 });
    const cut = imagePreprocessor.decode(partOf(large), NEVER);
    await new Promise((resolve) => setTimeout(resolve, 0));
    imagePreprocessor.close();
    await assert.rejects(cut, /was ended/);
    assert.equal((await imagePreprocessor.decode(partOf(ocrImage(3)), NEVER)).width, 64);
  } finally {
    imagePreprocessor.close();
  }
});

Deno.test("ImagePreprocessor.open() says which folder has no image processor", async () => {
  await using tiny = await makeTinyOcr("trocr");
  await Deno.remove(`${tiny.folder}/preprocessor_config.json`);
  await assert.rejects(ImagePreprocessor.open({ folder: tiny.folder }), (error: unknown) => {
    assert.ok(error instanceof StartupError);
    assert.ok(error.message.includes(tiny.folder), error.message);
    return true;
  });
});
