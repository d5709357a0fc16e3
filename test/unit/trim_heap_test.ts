import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

const MIB = 2 ** 20;
const PROGRAM = fileURLToPath(new URL("../fixtures/trim_own_arena.ts", import.meta.url));

Deno.test("trimOwnArena() returns the free end of a thread's arena, which glibc would keep", {
  ignore: !hasGlibc(),
}, async () => {
  // A process of its own: where there are many threads they share arenas, and their blocks lie in between.
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", PROGRAM],
    stderr: "inherit",
  }).output();
  const { kept, returned } = JSON.parse(new TextDecoder().decode(stdout));
  // Less than glibc returns by itself.
  assert.ok(kept > 16 * MIB, `${kept} bytes were kept`);
  assert.ok(returned > 16 * MIB, `${returned} bytes were returned`);
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
