/** Background removal with curl and fetch on a real port, and with clients that disconnect. */
import assert from "node:assert/strict";
import { decode } from "fast-png";
import { Buffer } from "node:buffer";
import { join } from "node:path";
import { decodeImage } from "../../../src/media/image.ts";
import { discFile } from "../../fixtures/images/matting.ts";
import {
  makePng,
  MATTING_MODEL,
  mattingBody,
  mattingForm,
  openMattingServer,
} from "../../fixtures/servers/matting_server.ts";
import { Random } from "../../unit/engine/random.ts";

const hasCurl = await new Deno.Command("curl", { args: ["--version"] }).output()
  .then(({ success }) => success, () => false);

async function curl(...args: string[]): Promise<Uint8Array<ArrayBuffer>> {
  const { success, stdout } = await new Deno.Command("curl", { args: ["-sS", "-f", ...args] })
    .output();
  assert.ok(success);
  return stdout as Uint8Array<ArrayBuffer>;
}

Deno.test({
  name: "curl: an uploaded image and the same image by file:// path give the same PNG file",
  ignore: !hasCurl,
  fn: async () => {
    await using server = await openMattingServer();
    const folder = await Deno.makeTempDir();
    try {
      const image = join(folder, "disc.png");
      await Deno.writeFile(image, discFile(50, 40));
      const output = join(folder, "cut.png");
      const url = `${server.base}/v1/images/remove_background`;
      await curl(url, "-F", `image=@${image}`, "-F", `model=${MATTING_MODEL}`, "-o", output);
      const uploaded = await Deno.readFile(output);
      const body = JSON.stringify(mattingBody(`file://${image}`));
      const json = await curl(url, "-H", "content-type: application/json", "-d", body);
      assert.deepEqual(await makePng(new Response(json)), uploaded);
      const { width, height, channels } = decode(uploaded);
      assert.deepEqual([width, height, channels], [50, 40, 4]);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test("fetch: another decoder reads the same pixels in the cut-out of a 3 megapixel image", async () => {
  await using server = await openMattingServer();
  const image = discFile(2000, 1500);
  const response = await fetch(`${server.base}/images/remove_background`, {
    method: "POST",
    body: mattingForm(image),
  });
  assert.equal(response.status, 200);
  const png = await response.bytes();
  assert.equal(response.headers.get("content-type"), "image/png");
  const [theirs, ours] = [decode(png), await decodeImage(png)];
  assert.deepEqual([theirs.width, theirs.height, theirs.depth], [2000, 1500, 8]);
  assert.equal(Buffer.compare(theirs.data as Uint8Array, ours.data), 0);
});

Deno.test("fetch: 80 requests, of which 40 disconnect at random times, leave nothing running", async () => {
  await using server = await openMattingServer({ maxQueue: 80 });
  const random = new Random(2);
  const images = await Promise.all(
    [[64, 48], [300, 200], [900, 700]].map(([width, height]) => discFile(width, height)),
  );
  let numAnswered = 0;
  const ask = async (index: number, patienceMs: number) => {
    const hangsUp = index % 2 === 0;
    const image = images[index % images.length]!;
    try {
      const response = await fetch(`${server.base}/images/remove_background`, {
        method: "POST",
        ...(index % 4 < 2 ? { body: mattingForm(image) } : {
          headers: { "content-type": "application/json" },
          body: JSON.stringify(mattingBody(`base64://${image.toBase64()}`)),
        }),
        ...(hangsUp && { signal: AbortSignal.timeout(patienceMs) }),
      });
      assert.equal(response.status, 200);
      await response.bytes();
      numAnswered++;
    } catch (error) {
      if (!hangsUp) throw error;
    }
  };
  await Promise.all(
    Array.from({ length: 80 }, (_, index) => ask(index, random.between(0, 1500))),
  );
  assert.ok(numAnswered >= 40 && numAnswered < 80, `${numAnswered}`);
  await server.untilIdle();
  assert.equal(await server.figure("hearth_requests_in_flight"), 0);
  assert.equal(await server.figure("hearth_queue_room"), server.app.session.capacity);
  assert.equal(await server.figure("hearth_worker_losses_total"), 0);
  assert.ok(await server.figure("hearth_images_total") >= 40);
  const after = await fetch(`${server.base}/images/remove_background`, {
    method: "POST",
    body: mattingForm(images[0]),
  });
  assert.equal((await decodeImage(await after.bytes())).width, 64);
});

Deno.test("fetch: resident memory does not grow with the number of answered images", async () => {
  await using server = await openMattingServer();
  const image = discFile(1000, 800);
  const ask = async (count: number) => {
    for (let i = 0; i < count; i++) {
      const body = mattingForm(image);
      await (await fetch(`${server.base}/images/remove_background`, { method: "POST", body }))
        .bytes();
    }
  };
  // The worker is a thread of this process, so this process's memory includes the worker's.
  await ask(12);
  const before = Deno.memoryUsage().rss;
  await ask(20);
  const grownMib = (Deno.memoryUsage().rss - before) / 2 ** 20;
  // Each image temporarily needs 10 MiB.
  assert.ok(grownMib < 100, `${grownMib.toFixed(0)} MiB more after 20 images`);
});
