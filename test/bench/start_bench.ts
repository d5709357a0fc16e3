/**
 * Measures the time from `deno run -A main.ts` until the port is open and until `/health` answers 200: medians over
 * several processes.
 *
 *     deno run -A test/bench/start_bench.ts [rounds]
 *
 * @module
 */
import { findAdapter } from "../../src/gpu/device.ts";
import { HearthProcess } from "../fixtures/servers/hearth_process.ts";
import { median } from "./report.ts";

const POLL_MS = 5;
const DEFAULT_ROUNDS = 7;

interface Start {
  readonly listeningMs: number;
  readonly readyMs: number;
}

async function measureStart(device: string): Promise<Start> {
  const began = performance.now();
  await using hearth = new HearthProcess(["-p", "0", "--device", device]);
  const url = await hearth.url();
  const listeningMs = performance.now() - began;
  while (true) {
    const answer = await fetch(`${url}/health`);
    const body = await answer.text();
    if (answer.ok) return { listeningMs, readyMs: performance.now() - began };
    if (hearth.stderr.includes("ERROR")) throw new Error(`${body}\n${hearth.stderr}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

function show(milliseconds: readonly number[]): string {
  return `${(median(milliseconds) / 1000).toFixed(2)} s`;
}

if (import.meta.main) {
  const rounds = Number(Deno.args[0] ?? DEFAULT_ROUNDS);
  const hasAdapter = await findAdapter({ allowFallback: true }) !== undefined;
  const lines = ["| start of the built-in model | port open | ready |", "| --- | --- | --- |"];
  for (const device of hasAdapter ? ["cpu", "webgpu"] : ["cpu"]) {
    // The first start fills the compiler's and the disk's caches.
    await measureStart(device);
    const starts: Start[] = [];
    for (let round = 0; round < rounds; round++) starts.push(await measureStart(device));
    const listening = show(starts.map(({ listeningMs }) => listeningMs));
    const ready = show(starts.map(({ readyMs }) => readyMs));
    lines.push(`| --device ${device}, median of ${rounds} | ${listening} | ${ready} |`);
  }
  // deno-lint-ignore no-console -- its purpose
  console.log(lines.join("\n"));
  Deno.exit(0);
}
