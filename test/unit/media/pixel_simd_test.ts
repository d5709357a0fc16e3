import assert from "node:assert/strict";
import { compileWasm, WASM_MODULES } from "../../../scripts/wasm.ts";
import binary from "../../../src/media/pixel_simd.wasm.base64" with { type: "text" };
import { PixelRoom } from "../../../src/media/pixel_simd.ts";

/** A room of so many bytes. */
function makeRoom(numBytes: number): PixelRoom {
  const room = new PixelRoom();
  room.reserve(numBytes);
  return room;
}

Deno.test("PixelRoom hands out addresses that do not overlap", () => {
  const room = new PixelRoom();
  const [first, second] = [room.reserve(100), room.reserve(100)];
  assert.ok(first % 16 === 0 && second % 16 === 0 && second >= first + 100);
  using memory = room.open();
  assert.ok(memory.bytes.length >= second + 100);
});

Deno.test("PixelRoom.open() gives the memory that was used last, unless it is in use, too small or large", () => {
  const opened = (numBytes: number) => {
    using memory = makeRoom(numBytes).open();
    return memory;
  };
  const first = opened(2 ** 20);
  assert.equal(opened(1000), first);
  {
    using inUse = makeRoom(1000).open();
    assert.equal(inUse, first);
    assert.notEqual(opened(1000), first);
  }
  assert.equal(opened(1000), first);
  const larger = opened(2 ** 22);
  assert.notEqual(larger, first);
  opened(2 ** 25);
  assert.equal(opened(1000), larger);
});

Deno.test("pixel_simd.wasm.base64 is what its sources compile to", async () => {
  assert.equal((await compileWasm(WASM_MODULES.images)).toBase64(), binary);
});
