import assert from "node:assert/strict";
import { HearthProcess } from "../../fixtures/servers/hearth_process.ts";
import { plainImages } from "../../load/large_media.ts";
import { MODELS, smallRequest } from "../../load/small_requests.ts";

const MIB = 2 ** 20;
const NUM_WARM_UP = 100;
/** Idle threads end after 20 s; everything else is returned before. */
const PATIENCE_MS = 120_000;
const POLL_MS = 500;
/** Measured: 14 MiB more. One thread that stays, or one arena that is not returned, is more than that. */
const MOST_MORE_BYTES = 40 * MIB;

async function residentBytes(pid: number): Promise<number> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  return 1024 * Number(/^VmRSS:\s+(\d+)/m.exec(status)![1]);
}

Deno.test("a server's memory is returned after images of 64 megapixels", {
  ignore: Deno.build.os !== "linux",
}, async () => {
  await using hearth = new HearthProcess(["-m", MODELS.ocr, "-p", "0", "--device", "cpu"]);
  const url = await hearth.ready();
  const { path, model } = smallRequest("ocr");
  const post = async (path: string, body: BodyInit) => {
    const headers = { "content-type": "application/json" };
    const response = await fetch(url + path, { method: "POST", body, headers });
    assert.equal(response.status, 200, await response.text());
  };
  let numSent = 0;
  const sendSmall = () => post(path, smallRequest("ocr", numSent++).body);
  for (let n = 0; n < NUM_WARM_UP; n++) await sendSmall();
  const before = await residentBytes(hearth.pid);
  await Promise.all(
    plainImages(3, 8_000).map((url) => {
      const content = [{ type: "image_url", image_url: { url } }, { type: "text", text: "OCR" }];
      return post(path, JSON.stringify({ model, messages: [{ role: "user", content }] }));
    }),
  );
  const end = performance.now() + PATIENCE_MS;
  let more: number;
  do {
    await sendSmall();
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    more = await residentBytes(hearth.pid) - before;
  } while (more > MOST_MORE_BYTES && performance.now() < end);
  assert.ok(more <= MOST_MORE_BYTES, `${Math.round(more / MIB)} MiB stay`);
});
