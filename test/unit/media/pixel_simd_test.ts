import assert from "node:assert/strict";
import { compileWasm, WASM_MODULES } from "../../../build/wasm.ts";
import binary from "../../../src/media/pixel_simd.wasm.base64" with { type: "text" };
import { PixelRoom } from "../../../src/media/pixel_simd.ts";

Deno.test("PixelRoom hands out room that does not overlap, and keeps no large memory", () => {
  const room = new PixelRoom();
  const [first, second] = [room.reserve(100), room.reserve(40 * 2 ** 20)];
  assert.ok(first % 16 === 0 && second % 16 === 0 && second >= first + 100);
  assert.ok(room.open().bytes.length >= second + 40 * 2 ** 20);
  const small = new PixelRoom();
  small.reserve(1);
  assert.ok(small.open().bytes.length < 2 ** 24);
});

Deno.test("pixel_simd.wasm.base64 is what its sources compile to", async () => {
  assert.equal((await compileWasm(WASM_MODULES.pictures)).toBase64(), binary);
});
