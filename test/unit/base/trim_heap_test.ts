import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

const MIB = 2 ** 20;

/** Runs a separate process: many threads would share arenas, with their blocks mixed. */
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
  // Less than glibc returns automatically.
  assert.ok(kept! > 16 * MIB, `${kept} bytes were kept`);
  assert.ok(returned! > 16 * MIB, `${returned} bytes were returned`);
});

Deno.test("trimAllArenas() returns the end of another thread's arena that it frees meanwhile", {
  ignore: !hasGlibc(),
}, async () => {
  const { before, meanwhile } = await run("../../fixtures/threads/trim_other_arena.ts");
  assert.ok(before! < 8 * MIB, `${before} bytes freed before were returned`);
  assert.ok(meanwhile! > 12 * MIB, `${meanwhile} bytes freed meanwhile were returned`);
});

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
