/**
 * Measures the memory and the speed of a mixture of experts on the CPU: gpt-oss-20b with all of its 24 layers, as
 * `real/gpt_oss.py` writes it. To find out whether it fits a machine, run it under a cgroup's memory limit, which also
 * counts pages of mapped files.
 *
 *     deno task bench experts_memory FOLDER
 *
 * @module
 */
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { generate, withEngine } from "../fixtures/engine/generate.ts";
import { printTable, time } from "./report.ts";

const NUM_TOKENS = 32;
const PROMPT_TOKENS = 450;

/** Random tokens that differ for each seed, so that nothing is found in the prefix cache. */
function makePrompt(length: number, seed: number): number[] {
  return Array.from({ length }, (_, i) => 100 + (i * 31 + seed * 7919) % 190_000);
}

/** Memory in GiB: all resident memory, the part that only this process has, and the peak. */
async function readMemory(): Promise<readonly [resident: string, own: string, peak: string]> {
  const text = await Deno.readTextFile("/proc/self/status");
  const read = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(text)?.[1]);
  const gib = (kib: number) => (kib / 2 ** 20).toFixed(1);
  return [gib(read("VmRSS")), gib(read("RssAnon") + read("RssShmem")), gib(read("VmHWM"))];
}

const rows: string[][] = [];
async function report(what: string, figure: string): Promise<void> {
  rows.push([what, figure, ...await readMemory()]);
}

const startedAt = performance.now();
const backend = await CpuBackend.open();
await withEngine({ backend, folder: Deno.args[0]!, dtype: "q4" }, async (engine) => {
  await report("loading", `${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
  const first = await time(() => generate(engine, { tokens: makePrompt(8, 0), maxTokens: 1 }));
  await report("the first token", `${(first / 1000).toFixed(1)} s`);
  for (const numStreams of [1, 2]) {
    const ms = await time(() =>
      Promise.all(
        Array.from({ length: numStreams }, (_, i) =>
          generate(engine, { tokens: makePrompt(2, 10 * numStreams + i), maxTokens: NUM_TOKENS })),
      )
    );
    const rate = (numStreams * NUM_TOKENS / ms * 1000).toFixed(2);
    await report(`${numStreams} × ${NUM_TOKENS} tokens`, `${rate} tokens/s`);
  }
  const ms = await time(() =>
    generate(engine, { tokens: makePrompt(PROMPT_TOKENS, 3), maxTokens: 1 })
  );
  const rate = (PROMPT_TOKENS / ms * 1000).toFixed(1);
  await report(`a prompt of ${PROMPT_TOKENS}`, `${rate} tokens/s`);
});
printTable(["", "", "resident GiB", "own", "peak"], rows);
