import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import {
  adviseLargePages,
  collectGarbageLater,
  CollectionSchedule,
} from "../../../src/base/memory.ts";
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

Deno.test("CollectionSchedule.isDue() is true if 8 MiB more are in use than after the last collection", () => {
  const schedule = new CollectionSchedule();
  assert.ok(schedule.isDue(30 * MIB));
  schedule.observe(30 * MIB, 20 * MIB);
  assert.ok(!schedule.isDue(27 * MIB));
  assert.ok(schedule.isDue(28 * MIB));
});

Deno.test("CollectionSchedule.isDue() becomes true within four checks if used memory has become garbage", () => {
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
  // A small heap is never worth a collection.
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

/** Runs a program in its own process: in this one, threads share arenas, and their blocks mix. */
async function run(program: string): Promise<Record<string, number>> {
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", fileURLToPath(new URL(program, import.meta.url))],
    stderr: "inherit",
  }).output();
  return JSON.parse(new TextDecoder().decode(stdout));
}

Deno.test("trimOwnArena() returns the free end of a thread's arena, which glibc would keep", {
  ignore: !hasGlibc(),
}, async () => {
  const { kept, returned } = await run("../../fixtures/threads/trim_own_arena.ts");
  // glibc keeps a free end of this size.
  assert.ok(kept! > 16 * MIB, `${kept} bytes were kept`);
  assert.ok(returned! > 16 * MIB, `${returned} bytes were returned`);
});

Deno.test(
  "trimAllArenas() returns the end of another thread's arena if that thread frees it meanwhile",
  {
    ignore: !hasGlibc(),
  },
  async () => {
    const { before, meanwhile } = await run("../../fixtures/threads/trim_other_arena.ts");
    assert.ok(before! < 8 * MIB, `${before} bytes freed before were returned`);
    assert.ok(meanwhile! > 12 * MIB, `${meanwhile} bytes freed meanwhile were returned`);
  },
);

Deno.test("trimEndingThread() returns the arena of an idle worker that ends", {
  ignore: !hasGlibc(),
}, async () => {
  const { taken, returned } = await run("../../fixtures/threads/trim_ended_thread.ts");
  assert.ok(taken! > 40 * MIB, `${taken} bytes were taken by two`);
  assert.ok(returned! > 16 * MIB, `${returned} bytes were returned by one`);
});

function hasGlibc(): boolean {
  if (Deno.build.os !== "linux") return false;
  try {
    Deno.dlopen("libc.so.6", { malloc_trim: { parameters: ["usize"], result: "i32" } }).close();
    return true;
  } catch {
    return false;
  }
}

/** Linux's flags of the mapping that begins at an address. */
function flagsAt(address: bigint): string[] {
  const smaps = Deno.readTextFileSync("/proc/self/smaps");
  const start = smaps.search(new RegExp(`^${address.toString(16).padStart(8, "0")}-`, "m"));
  return /^VmFlags: (.*)$/m.exec(smaps.slice(start))![1]!.trim().split(" ");
}

Deno.test("adviseLargePages() requests large pages only for the given memory", {
  ignore: Deno.build.os !== "linux" || !("UnsafePointer" in Deno),
}, () => {
  const computeAddress = ({ buffer }: WebAssembly.Memory) =>
    Deno.UnsafePointer.value(Deno.UnsafePointer.of(new Uint8Array(buffer as ArrayBuffer)));
  const [advised, other] = [128, 192].map((pages) =>
    new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true })
  ) as [WebAssembly.Memory, WebAssembly.Memory];
  adviseLargePages(advised);
  assert.ok(flagsAt(computeAddress(advised)).includes("hg"));
  assert.ok(!flagsAt(computeAddress(other)).includes("hg"));
});
