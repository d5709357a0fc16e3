import assert from "node:assert/strict";
import { collectGarbageLater, CollectionSchedule } from "../../../src/base/memory.ts";
import { decodeBody } from "../../../src/server/http/body/decode_json.ts";

const MIB = 2 ** 20;
const LARGE_BYTES = 64 * MIB;
const PATIENCE_MS = 60_000;

/** Makes delayed timers fire immediately, until it is disposed. */
function hurryTimers(): Disposable {
  const { setTimeout } = globalThis;
  globalThis.setTimeout =
    ((run: () => void, ms: number) => setTimeout(run, ms >= 1_000 ? 0 : ms)) as typeof setTimeout;
  return { [Symbol.dispose]: () => void (globalThis.setTimeout = setTimeout) };
}

/** Resident memory of the whole process, including threads. */
function residentBytes(): number {
  return Deno.memoryUsage().rss;
}

async function decodeLarge(): Promise<void> {
  const bytes = new Uint8Array(LARGE_BYTES).fill("x".charCodeAt(0));
  bytes[0] = bytes[LARGE_BYTES - 1] = '"'.charCodeAt(0);
  const text = await decodeBody(bytes) as string;
  assert.equal(text.length, LARGE_BYTES - 2);
}

Deno.test("collectGarbageLater() does not interrupt a busy thread", async () => {
  using _timers = hurryTimers();
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

Deno.test("collectGarbageLater() frees the memory of large bodies on all threads", async () => {
  // The decoding thread exists before the first measurement.
  await decodeBody(new TextEncoder().encode(`"${"x".repeat(300_000)}"`));
  const before = residentBytes();
  for (let n = 0; n < 3; n++) await decodeLarge();
  assert.ok(residentBytes() > before + LARGE_BYTES);
  using _timers = hurryTimers();
  collectGarbageLater();
  const end = performance.now() + PATIENCE_MS;
  while (residentBytes() > before + LARGE_BYTES && performance.now() < end) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  assert.ok(residentBytes() <= before + LARGE_BYTES, `${residentBytes() - before} bytes stay`);
});

Deno.test("CollectionSchedule.isDue() if 8 MiB more are in use than after the last collection", () => {
  const schedule = new CollectionSchedule();
  assert.ok(schedule.isDue(30 * MIB));
  schedule.observe(30 * MIB, 20 * MIB);
  assert.ok(!schedule.isDue(27 * MIB));
  assert.ok(schedule.isDue(28 * MIB));
});

Deno.test("CollectionSchedule.isDue() in time if used memory has become garbage", () => {
  const schedule = new CollectionSchedule();
  schedule.observe(240 * MIB, 200 * MIB);
  const dues = Array.from({ length: 4 }, () => schedule.isDue(50 * MIB));
  assert.deepEqual(dues, [false, false, false, true]);
});

Deno.test("CollectionSchedule rarely collects in a thread with little garbage", () => {
  const schedule = new CollectionSchedule();
  const looksUntilDue: number[] = [];
  let numLooks = 0;
  do {
    numLooks++;
    if (!schedule.isDue(20 * MIB)) continue;
    schedule.observe(20 * MIB, 19 * MIB);
    looksUntilDue.push(numLooks);
    numLooks = 0;
  } while (!schedule.isOver);
  assert.deepEqual(looksUntilDue, [1, 8, 16]);
  // A small heap is never worth it.
  const small = new CollectionSchedule();
  let isDue = false;
  while (!small.isOver) isDue ||= small.isDue(7 * MIB);
  assert.ok(!isDue);
});

Deno.test("collectGarbageLater() does not keep a process or a thread alive", async () => {
  const idle = new URL("../../fixtures/servers/idle_process.ts", import.meta.url);
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", idle.href],
    stderr: "inherit",
  }).output();
  assert.equal(new TextDecoder().decode(stdout), "");
});
