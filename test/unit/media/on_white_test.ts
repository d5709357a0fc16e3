import assert from "node:assert/strict";
import { compositeOnWhite } from "../../../src/media/pixels.ts";

Deno.test("compositeOnWhite() lays what is transparent on white", () => {
  const data = Uint8Array.of(10, 20, 30, 255, 10, 20, 30, 0, 0, 100, 200, 128);
  assert.deepEqual(compositeOnWhite({ width: 3, height: 1, channels: 4, data }), {
    width: 3,
    height: 1,
    channels: 3,
    data: Uint8Array.of(10, 20, 30, 255, 255, 255, 127, 177, 227),
  });
  const grey = { width: 2, height: 1, channels: 2, data: Uint8Array.of(0, 51, 9, 255) } as const;
  assert.deepEqual([...compositeOnWhite(grey).data], [204, 9]);
});

Deno.test("compositeOnWhite() leaves what is opaque as it is", () => {
  const image = { width: 1, height: 1, channels: 3, data: Uint8Array.of(1, 2, 3) } as const;
  assert.equal(compositeOnWhite(image), image);
});
