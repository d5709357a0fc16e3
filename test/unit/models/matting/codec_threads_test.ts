import assert from "node:assert/strict";
import { decodeImage } from "../../../../src/media/image.ts";
import { encodePng } from "../../../../src/media/png.ts";
import { CodecThreads } from "../../../../src/models/matting/codec_threads.ts";
import { discPicture } from "../../../fixtures/matting.ts";

const never = new AbortController().signal;

Deno.test("CodecThreads decodes and encodes as this thread does, several pictures at a time", async () => {
  const threads = new CodecThreads({ maxThreads: 2 });
  const sizes = [[10, 20], [300, 200], [1, 1], [64, 64]] as const;
  await Promise.all(sizes.map(async ([width, height]) => {
    const file = await encodePng(discPicture(width, height));
    const pixels = await threads.decode(file.slice(), never);
    assert.deepEqual(pixels, await decodeImage(file, { keepsAlpha: true }));
    assert.deepEqual(await threads.encode(pixels, never), file);
  }));
  assert.equal(threads.numThreads, 2);
  threads.close();
});

Deno.test("CodecThreads.decode() tells what is wrong with a file, and the thread goes on", async () => {
  const threads = new CodecThreads({ maxThreads: 1 });
  const text = new TextEncoder().encode("no picture");
  await assert.rejects(threads.decode(text, never), {
    kind: "invalid_media",
    message: /no picture that can be read/,
  });
  assert.equal(threads.numThreads, 1);
  const file = await encodePng(discPicture(9, 9));
  assert.equal((await threads.decode(file, never)).width, 9);
  threads.close();
});

Deno.test("CodecThreads ends the thread of who leaves, at work or in the queue, and serves the next", async () => {
  const threads = new CodecThreads({ maxThreads: 1 });
  const large = await encodePng(discPicture(3000, 2000));
  const [first, second] = [new AbortController(), new AbortController()];
  const working = threads.decode(large.slice(), first.signal);
  const queued = threads.decode(large.slice(), second.signal);
  const last = threads.decode(large.slice(), never);
  second.abort();
  await assert.rejects(queued, { name: "AbortError" });
  first.abort();
  await assert.rejects(working, { name: "AbortError" });
  assert.equal((await last).width, 3000);
  assert.equal(threads.numThreads, 1);
  await assert.rejects(threads.decode(large, first.signal), { name: "AbortError" });
  threads.close();
  assert.equal(threads.numThreads, 0);
});
