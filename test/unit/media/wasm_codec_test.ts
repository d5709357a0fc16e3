/** Decoders that fail, and decoders that cannot be loaded. */
import assert from "node:assert/strict";
import { WasmImageDecoder } from "../../../src/media/image/format.ts";
import { greyJpeg } from "../../fixtures/images/image_writer.ts";

interface Codec {
  decode(file: Uint8Array, preserveOrientation: boolean): ImageData | null;
}

const SIZE = { name: "JPEG", width: 1, height: 1 };

Deno.test("WasmImageDecoder.decode() reports that a decoder cannot be loaded, and retries at the next call", async () => {
  let numTries = 0;
  const decoder = new WasmImageDecoder<Codec>({
    locate: () => {
      numTries++;
      return "file:///there/is/no/such.wasm";
    },
    load: () => Promise.reject(new Error("not reached")),
  });
  for (const tries of [1, 2]) {
    await assert.rejects(decoder.decode(() => null, SIZE), {
      kind: "inference_failed",
      message: /JPEG/,
    });
    assert.equal(numTries, tries);
  }
});

Deno.test("WasmImageDecoder.decode() keeps an instance, unless it threw or its memory grew", async () => {
  const codecs = new Set<Codec>();
  const decoder = new WasmImageDecoder<Codec>({
    locate: () => import.meta.resolve("@jsquash/jpeg/codec/dec/mozjpeg_dec.wasm"),
    load: async () => (await import("@jsquash/jpeg/codec/dec/mozjpeg_dec.js")).default,
  });
  const decode = (file: Uint8Array, width: number, height: number) =>
    decoder.decode((codec) => {
      codecs.add(codec);
      return codec.decode(file, false);
    }, { name: "JPEG", width, height });
  const decodeSmall = () => decode(greyJpeg(16, 9), 16, 9);
  for (let i = 0; i < 3; i++) assert.equal((await decodeSmall()).width, 16);
  assert.equal(codecs.size, 1);
  await assert.rejects(decode(new Uint8Array(9), 16, 9), /Not a JPEG file/);
  await decodeSmall();
  assert.equal(codecs.size, 2);
  await decode(greyJpeg(4000, 4000), 4000, 4000);
  await decodeSmall();
  assert.equal(codecs.size, 3);
});

Deno.test("WasmImageDecoder.decode() refuses an image of another size than in the file's header", async () => {
  const decoder = new WasmImageDecoder<Codec>({
    locate: () => import.meta.resolve("@jsquash/jpeg/codec/dec/mozjpeg_dec.wasm"),
    load: async () => (await import("@jsquash/jpeg/codec/dec/mozjpeg_dec.js")).default,
  });
  await assert.rejects(
    decoder.decode((codec) => codec.decode(greyJpeg(16, 9), false), SIZE),
    { kind: "invalid_media", message: /16 × 9 pixels, but its header says 1 × 1/ },
  );
});
