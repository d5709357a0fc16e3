import assert from "node:assert/strict";
import { assertSameData, assertSameValues } from "../../../fixtures/engine/compare_values.ts";
import { decode } from "fast-png";
import { compositeAlpha, type Mask } from "../../../../kernels/images/image_reference.ts";
import { decodeImage } from "../../../../src/media/image.ts";
import { encodePng } from "../../../../src/media/image/png.ts";
import { type Pixels, toRgba } from "../../../../src/media/pixels.ts";
import { Codec, makeCutOut, makeWholeCutOut } from "../../../../src/models/matting/codec.ts";
import { discImage } from "../../../fixtures/images/matting.ts";
import { Random } from "../../engine/random.ts";

const never = new AbortController().signal;

Deno.test("Codec decodes and encodes like this thread, several images at a time", async () => {
  const threads = new Codec({ maxThreads: 2 });
  const sizes = [[10, 20], [300, 200], [1, 1], [64, 64]] as const;
  await Promise.all(sizes.map(async ([width, height]) => {
    const file = encodePng(discImage(width, height));
    const pixels = await threads.decode(file.slice(), never);
    assertSameData(pixels, await decodeImage(file, { keepsAlpha: true }));
    assertSameValues(await threads.encode({ pixels, options: {} }, never), file);
  }));
  assert.equal(threads.numThreads, 2);
  threads.close();
});

/** A mask of random values, some beyond 0 and 1. */
function randomMask(): Mask {
  const random = new Random(5);
  const values = Float32Array.from({ length: 63 }, () => random.between(-200, 1200) / 1000);
  const size = { width: 9, height: 7, contentWidth: 9, contentHeight: 6.5 };
  return { values, format: { ...size, filter: "bilinear" } };
}

function makeCopy(pixels: Pixels): Pixels {
  return { ...pixels, data: pixels.data.slice() };
}

Deno.test("Codec.encode() in stripes returns the same pixels as in one piece", async () => {
  const threads = new Codec({ maxThreads: 3 });
  const mask = randomMask();
  const disc = discImage(1001, 799);
  const background = [10, 200, 30] as const;
  for (const options of [{}, { background }, { maskOnly: true }]) {
    for (const image of [disc, toRgba(disc)]) {
      const want = makeCutOut(compositeAlpha(makeCopy(image), mask), options);
      const png = await threads.encode({ pixels: makeCopy(image), mask, options }, never);
      assertSameValues(new Uint8Array(decode(png).data), want.data);
    }
    const png = await threads.encode({ pixels: toRgba(disc), options }, never);
    assertSameValues(new Uint8Array(decode(png).data), makeCutOut(toRgba(disc), options).data);
  }
  assert.equal(threads.numThreads, 3);
  threads.close();
});

Deno.test("Codec.make() refines and crops like this thread, whether the mask is applied before or not", async () => {
  const threads = new Codec({ maxThreads: 1 });
  const mask = randomMask();
  const disc = discImage(200, 150);
  for (const options of [{ refine: true }, { crop: true }, { refine: true, crop: true }]) {
    for (const image of [disc, toRgba(disc)]) {
      const cutOut = () => {
        const original = makeCopy(image);
        return { original, masked: { pixels: original, mask }, maskSide: 9, options };
      };
      const want = makeWholeCutOut(cutOut());
      assertSameData(await threads.make(cutOut(), never), want);
      const masked = { pixels: compositeAlpha(makeCopy(image), mask) };
      assertSameData(await threads.make({ ...cutOut(), masked }, never), want);
    }
  }
  threads.close();
});

Deno.test("Codec.decode() reports a file's error, and the thread serves the next file", async () => {
  const threads = new Codec({ maxThreads: 1 });
  const text = new TextEncoder().encode("no image");
  await assert.rejects(threads.decode(text, never), {
    kind: "invalid_media",
    message: /not a supported image/,
  });
  assert.equal(threads.numThreads, 1);
  const file = encodePng(discImage(9, 9));
  assert.equal((await threads.decode(file, never)).width, 9);
  threads.close();
});

Deno.test("Codec cancels a request, running or queued, and serves the next", async () => {
  const threads = new Codec({ maxThreads: 1 });
  const large = encodePng(discImage(3000, 2000));
  const [first, second] = [new AbortController(), new AbortController()];
  const working = threads.decode(large.slice(), first.signal);
  const queued = threads.decode(large.slice(), second.signal);
  const last = threads.decode(large.slice(), never);
  second.abort();
  await assert.rejects(queued, { name: "AbortError" });
  first.abort();
  await assert.rejects(working, { name: "AbortError" });
  // The cancelled work ended first, so that the thread is the same.
  assert.equal(threads.numThreads, 1);
  assert.equal((await last).width, 3000);
  assert.equal(threads.numThreads, 1);
  await assert.rejects(threads.decode(large, first.signal), { name: "AbortError" });
  threads.close();
  assert.equal(threads.numThreads, 0);
});
