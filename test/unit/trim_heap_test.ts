import assert from "node:assert/strict";
import { trimOwnArena } from "../../src/trim_heap.ts";

const MIB = 2 ** 20;
const NUM_BLOCKS = 24;

Deno.test("trimOwnArena() returns the free end of a thread's arena, which glibc would keep", {
  ignore: !hasGlibc(),
}, async () => {
  // Other threads of the process allocate and free meanwhile.
  const attempts: { readonly kept: number; readonly returned: number }[] = [];
  while (attempts.length < 5) {
    const attempt = await keepAndTrim();
    attempts.push(attempt);
    // Less than glibc returns by itself.
    if (attempt.kept > 16 * MIB && attempt.returned > 16 * MIB) return;
  }
  assert.fail(JSON.stringify(attempts));
});

/** Bytes that stay with the process when a thread frees its memory, and those that trimming returns. */
async function keepAndTrim(): Promise<{ kept: number; returned: number }> {
  trimOwnArena();
  const before = Deno.memoryUsage().rss;
  // On a thread of its own, whose arena is not the main one.
  const source = `
    import { trimOwnArena } from ${JSON.stringify(import.meta.resolve("../../src/trim_heap.ts"))};
    const { symbols: libc } = Deno.dlopen("libc.so.6", {
      free: { parameters: ["pointer"], result: "void" },
      malloc: { parameters: ["usize"], result: "pointer" },
      memset: { parameters: ["pointer", "i32", "usize"], result: "pointer" },
    });
    trimOwnArena();
    const blocks = Array.from({ length: ${NUM_BLOCKS} }, () => libc.malloc(${MIB}n));
    for (const block of blocks) libc.memset(block, 1, ${MIB}n);
    for (const block of blocks) libc.free(block);
    const freed = Deno.memoryUsage().rss;
    trimOwnArena();
    postMessage({ freed, trimmed: Deno.memoryUsage().rss });
  `;
  const url = `data:text/javascript,${encodeURIComponent(source)}`;
  const worker = new Worker(url, { type: "module" });
  const { freed, trimmed } = await new Promise<{ freed: number; trimmed: number }>((resolve) => {
    worker.onmessage = ({ data }) => resolve(data);
  });
  worker.terminate();
  return { kept: freed - before, returned: freed - trimmed };
}

function hasGlibc(): boolean {
  if (Deno.build.os !== "linux") return false;
  try {
    Deno.dlopen("libc.so.6", { malloc_trim: { parameters: ["usize"], result: "i32" } }).close();
    return true;
  } catch {
    return false;
  }
}
