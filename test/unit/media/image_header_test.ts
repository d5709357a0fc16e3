import assert from "node:assert/strict";
import { readImageHeader } from "../../../src/media/image_header.ts";
import { swapsSides } from "../../../src/media/image/format.ts";
import { greyJpeg, pngFile } from "../../fixtures/images/image_writer.ts";
import { IMAGES } from "../../fixtures/images/images.ts";

Deno.test("readImageHeader() gives the size of every image as it is stored, and its orientation", () => {
  for (const { name, file, width, height } of IMAGES) {
    const header = readImageHeader(file);
    const [, orientation = "1"] = /orientation (\d)/.exec(name) ?? [];
    assert.equal(header.orientation, Number(orientation), name);
    const shown = swapsSides(header.orientation)
      ? [header.height, header.width]
      : [header.width, header.height];
    assert.deepEqual(shown, [width, height], name);
  }
});

Deno.test("readImageHeader() reads sizes of images that are not there", () => {
  const png = readImageHeader(pngFile(2_000_000_000, 3, []));
  assert.deepEqual([png.format.name, png.width, png.height], ["PNG", 2_000_000_000, 3]);
  const jpeg = readImageHeader(greyJpeg(8, 8).subarray(0, 100));
  assert.deepEqual([jpeg.format.name, jpeg.width, jpeg.height], ["JPEG", 8, 8]);
});

Deno.test("readImageHeader() refuses images without pixels", () => {
  assert.throws(() => readImageHeader(pngFile(0, 5, [])), {
    kind: "invalid_media",
    message: /0 × 5 pixels/,
  });
});
