/** Pictures of every format, compared with what Pillow decodes. */
import assert from "node:assert/strict";
import { decodeImage } from "../../../src/media/image.ts";
import { PICTURES } from "../../fixtures/pictures.ts";

for (const { name, file, width, height, channels, pixels, maxDifference } of PICTURES) {
  Deno.test(`decodeImage() reads ${name}`, async () => {
    const image = await decodeImage(file);
    assert.deepEqual([image.width, image.height, image.channels], [width, height, channels]);
    const difference = image.data.reduce(
      (most, level, i) => Math.max(most, Math.abs(level - pixels[i]!)),
      0,
    );
    assert.ok(difference <= maxDifference, `a pixel is off by ${difference}`);
  });
}
