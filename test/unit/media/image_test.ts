/** Images of every format, compared with what Pillow decodes. */
import assert from "node:assert/strict";
import { assertSameData } from "../../fixtures/engine/compare_values.ts";
import type { Pixels } from "../../../src/media/pixels.ts";
import { decodeImage } from "../../../src/media/image.ts";
import faxRuns from "../../fixtures/images/fax_runs.json" with { type: "json" };
import { imageFile, IMAGES } from "../../fixtures/images/images.ts";

for (const { name, file, width, height, channels, pixels, maxDifference } of IMAGES) {
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

Deno.test("decodeImage() works in a worker without a location, for the codecs of every format", async () => {
  const url = new URL("../../fixtures/images/image_worker.ts", import.meta.url);
  const worker = new Worker(url, { type: "module" });
  try {
    for (const name of ["jpeg grey", "jpeg CMYK", "png of Pillow", "webp lossy", "avif 4:4:4"]) {
      const { promise, resolve } = Promise.withResolvers<Pixels | string>();
      worker.onmessage = ({ data }) => resolve(data);
      worker.postMessage(imageFile(name));
      assertSameData(await promise as Pixels, await decodeImage(imageFile(name)), name);
    }
  } finally {
    worker.terminate();
  }
});

for (const [kind, file] of Object.entries(faxRuns)) {
  Deno.test(`decodeImage() reads fax runs of every length, by ${kind}`, async () => {
    const { width, height, data } = await decodeImage(Uint8Array.fromBase64(file));
    const runs = [
      ...Array.from({ length: 65 }, (_, i) => i),
      ...Array.from({ length: 40 }, (_, i) => 64 * (i + 1)),
      2559,
      2623,
    ];
    assert.deepEqual([width, height], [2700, runs.length]);
    for (const [y, run] of runs.entries()) {
      const row = Array.from({ length: width }, (_, x) => data[(y * width + x) * 3]);
      const isBlack = (x: number) => x >= run && x < run + Math.max(1, run);
      assert.ok(row.every((level, x) => level === (isBlack(x) ? 0 : 255)), `a run of ${run}`);
    }
  });
}
