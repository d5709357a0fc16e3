import assert from "node:assert/strict";
import { collectGarbageLater } from "../../src/collect_garbage.ts";
import { decodeBody } from "../../src/http/body/json_decoder.ts";

const LARGE_BYTES = 64 * 2 ** 20;
const PATIENCE_MS = 60_000;

/** Of the whole process, threads included. */
function residentBytes(): number {
  return Deno.memoryUsage().rss;
}

async function decodeLarge(): Promise<void> {
  const bytes = new Uint8Array(LARGE_BYTES).fill("x".charCodeAt(0));
  bytes[0] = bytes[LARGE_BYTES - 1] = '"'.charCodeAt(0);
  const text = await decodeBody(bytes) as string;
  assert.equal(text.length, LARGE_BYTES - 2);
}

Deno.test("collectGarbageLater() leaves a thread alone that is at work", async () => {
  const asked = Promise.withResolvers<void>();
  let garbage: unknown = new Uint8Array(LARGE_BYTES);
  collectGarbageLater(() => {
    asked.resolve();
    return false;
  });
  garbage = undefined;
  assert.equal(garbage, undefined);
  const hold = setInterval(() => {}, 1_000);
  await asked.promise;
  clearInterval(hold);
  assert.ok(Deno.memoryUsage().external >= LARGE_BYTES);
});

Deno.test("collectGarbageLater() gives back what large bodies left behind, on all threads", async () => {
  // The thread that decodes is there before the first look.
  await decodeBody(new TextEncoder().encode(`"${"x".repeat(300_000)}"`));
  const before = residentBytes();
  for (let n = 0; n < 3; n++) await decodeLarge();
  assert.ok(residentBytes() > before + LARGE_BYTES);
  collectGarbageLater();
  const end = performance.now() + PATIENCE_MS;
  while (residentBytes() > before + LARGE_BYTES && performance.now() < end) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.ok(residentBytes() <= before + LARGE_BYTES, `${residentBytes() - before} bytes stay`);
});

Deno.test("collectGarbageLater() does not keep a process or a thread alive", async () => {
  const idle = new URL("../fixtures/idle_process.ts", import.meta.url);
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", idle.href],
    stderr: "inherit",
  }).output();
  assert.equal(new TextDecoder().decode(stdout), "");
});
