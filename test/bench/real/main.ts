/**
 * `deno task bench real [chat|chat-q4f16|chat-lfm2|chat-qwen3.5|asr|embed|matting|speech|speech-kokoro]…`: compares
 * Hearth over HTTP with its alternatives, on models of real sizes on the CPU, and prints the goals. `--device webgpu`
 * uses the adapter that WebGPU finds. `--rounds <n>` sets the number of rounds (default 3), `--write` puts the tables
 * into docs/performance.md and the README, and `--hearth <main.ts>` measures another checkout. `--threads <n>` gives
 * each program that many threads, and measures processor time instead of wall-clock time: other programs hardly affect
 * it, and with one thread no thread waits for another.
 *
 * Needs Node, npm's registry for the first run, `../shared/tokenizers`, some 4 GB in the folder for temporary files,
 * and an otherwise idle machine.
 *
 * @module
 */
import { parseArgs } from "node:util";
import { fillFigures, PERFORMANCE_PAGE, README } from "../../../scripts/docs.ts";
import { findAdapter } from "../../../src/gpu/device.ts";
import { formatTable } from "../report.ts";
import { compareAsr } from "./asr.ts";
import { compareChat, compareHybrid } from "./chat.ts";
import { compare, type Comparison, readHeader, type Running, toRows } from "./comparison.ts";
import { compareEmbed } from "./embed.ts";
import type { BenchDevice, HearthOptions } from "./hearth.ts";
import { compareMatting } from "./matting.ts";
import { installPeers } from "./peer_process.ts";
import { compareKokoro, compareVits } from "./speech.ts";

// deno-lint-ignore no-explicit-any -- each kind has its own type of contender
type Prepare = (hearth: HearthOptions) => Promise<Comparison<any>>;

const KINDS: Readonly<Record<string, Prepare>> = {
  chat: (hearth) => compareChat("q4", hearth),
  "chat-q4f16": (hearth) => compareChat("q4f16", hearth),
  "chat-lfm2": (hearth) => compareHybrid("lfm2-350m", hearth),
  "chat-qwen3.5": (hearth) => compareHybrid("qwen3.5-0.8b", hearth),
  asr: compareAsr,
  embed: compareEmbed,
  matting: compareMatting,
  speech: compareVits,
  "speech-kokoro": compareKokoro,
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: "string", default: "3" },
    write: { type: "boolean", default: false },
    hearth: { type: "string" },
    threads: { type: "string" },
    device: { type: "string", default: "cpu" },
  },
});
const device = parseDevice(values.device);
const threads = values.threads === undefined ? undefined : Number(values.threads);
const unknown = positionals.filter((kind) => !(kind in KINDS));
if (unknown.length > 0) {
  throw new Error(`There is no ${unknown.join(", ")}; there are ${Object.keys(KINDS).join(", ")}.`);
}
await installPeers();
let numFailed = 0;
for (const kind of positionals.length > 0 ? positionals : Object.keys(KINDS)) {
  try {
    await measure(kind);
  } catch (error) {
    // deno-lint-ignore no-console -- the other kinds are measured all the same
    console.error(error);
    numFailed++;
  }
}
Deno.exit(numFailed);

function parseDevice(name: string): BenchDevice {
  if (name === "cpu" || name === "webgpu") return name;
  throw new Error(`--device is cpu or webgpu, not ${name}.`);
}

async function measure(kind: string): Promise<void> {
  const comparison: Comparison<Running> = await KINDS[kind]!({
    main: values.hearth,
    device,
    threads,
  });
  const names = comparison.contenders.map(({ name }) => name);
  const byCpuTime = threads !== undefined;
  const results = await compare(comparison, { rounds: Number(values.rounds), byCpuTime });
  const options = { names, hasGoals: device === "cpu" };
  const table = formatTable(readHeader(comparison.title, options), toRows(results, options));
  const [day] = new Date().toISOString().split("T");
  const ofThreads = byCpuTime ? `, by the time of processors with --threads ${threads}` : "";
  const text =
    `${table}\n${day}, medians of ${values.rounds} rounds, ${await hardware()}${ofThreads}.\n`;
  // deno-lint-ignore no-console -- what it is run for
  console.log(text);
  if (values.write) await writePage(device === "cpu" ? kind : `${kind} on webgpu`, text);
}

/** Describes the hardware that affects the times most. */
async function hardware(): Promise<string> {
  if (device === "webgpu") {
    const adapter = await findAdapter({ allowFallback: true });
    return adapter?.info.description || adapter?.info.device || "an adapter without a name";
  }
  const flags = await Deno.readTextFile("/proc/cpuinfo").catch(() => "");
  return `a processor ${/\bavx512f\b/.test(flags) ? "with" : "without"} AVX-512`;
}

/** Puts a kind's table between its markers in docs/performance.md, and updates the README's figures. */
async function writePage(kind: string, text: string): Promise<void> {
  const page = await Deno.readTextFile(PERFORMANCE_PAGE);
  const marked = new RegExp(`(<!-- real ${kind} -->)[^]*?(?=<!-- end of real ${kind} -->)`);
  if (!marked.test(page)) throw new Error(`docs/performance.md has no <!-- real ${kind} -->.`);
  const written = page.replace(marked, (_, mark) => `${mark}\n${text}\n`);
  await Deno.writeTextFile(PERFORMANCE_PAGE, written);
  await Deno.writeTextFile(README, fillFigures(await Deno.readTextFile(README), written));
}
