/**
 * The memory that gpt-oss-20b takes once it is loaded on the CPU, from twins of few layers and of more: what a layer takes,
 * and what 24 of them would. The twins are those that `real/gpt_oss.py` writes.
 *
 *     deno task bench experts_memory FOLDER_OF_1_LAYER FOLDER_OF_8_LAYERS
 *
 * @module
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import process from "node:process";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { generate, withEngine } from "../fixtures/engine/generate.ts";
import { formatTable } from "./report.ts";

const ALL_LAYERS = 24;
const PROMPT = Array.from({ length: 64 }, (_, i) => 100 + i * 31);
const NUM_TOKENS = 8;

/** MiB, and milliseconds of a token, of a process that has loaded a model and answered. */
interface Measured {
  readonly resident: number;
  readonly peak: number;
  readonly loadMs: number;
  readonly tokenMs: number;
}

/** Memory that the process alone has: what is mapped from files can be dropped, and is not counted. */
async function readMemory(): Promise<Record<string, number>> {
  const text = await Deno.readTextFile("/proc/self/status");
  return Object.fromEntries(
    [...text.matchAll(/^(\w+):\s+(\d+) kB$/gm)].map(([, name, kib]) => [name!, Number(kib) / 1024]),
  );
}

async function measureHere(folder: string): Promise<Measured> {
  const began = performance.now();
  const backend = await CpuBackend.open();
  return await withEngine({ backend, folder, dtype: "q4" }, async (engine) => {
    const loadMs = performance.now() - began;
    await generate(engine, { tokens: PROMPT, maxTokens: 1 });
    const from = performance.now();
    await generate(engine, { tokens: [7, 7], maxTokens: NUM_TOKENS });
    const tokenMs = (performance.now() - from) / NUM_TOKENS;
    const { RssAnon = NaN, RssShmem = NaN, VmHWM = NaN } = await readMemory();
    return { resident: RssAnon + RssShmem, peak: VmHWM, loadMs, tokenMs };
  });
}

async function readLayers(folder: string): Promise<number> {
  return JSON.parse(await Deno.readTextFile(join(folder, "config.json"))).num_hidden_layers;
}

async function measure(folder: string): Promise<Measured> {
  const args = ["run", "-A", "--no-check", fileURLToPath(import.meta.url), "--here", folder];
  const { stdout } = await new Deno.Command(Deno.execPath(), { args, stderr: "inherit" }).output();
  const lines = new TextDecoder().decode(stdout).trim().split("\n");
  return JSON.parse(lines.at(-1)!);
}

if (import.meta.main) {
  const [first, second] = Deno.args;
  if (first === "--here") {
    // deno-lint-ignore no-console -- the parent reads it
    console.log(JSON.stringify(await measureHere(second!)));
    process.exit();
  }
  const folders = [first!, second!];
  const [few, more] = await Promise.all(folders.map(readLayers)) as [number, number];
  const [one, other] = [await measure(first!), await measure(second!)];
  const each = (key: keyof Measured) => (other[key] - one[key]) / (more - few);
  const rows = (["resident", "peak", "loadMs", "tokenMs"] as const).map((key) => [
    key,
    ...[one[key], other[key], each(key), one[key] + each(key) * (ALL_LAYERS - few)]
      .map((value) => value.toFixed(0)),
  ]);
  const header = [
    "MiB or ms",
    `${few} layers`,
    `${more} layers`,
    "each layer",
    `${ALL_LAYERS} layers`,
  ];
  // deno-lint-ignore no-console -- a table is what a benchmark is run for
  console.log(formatTable(header, rows));
}
