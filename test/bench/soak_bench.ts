/**
 * Measures resident memory over many requests to each built-in model on the CPU, each server in its own process. Once
 * every shape has occurred, it must not grow. Garbage is collected from time to time, so single readings say little.
 * Therefore the medians of readings after each request are compared.
 *
 *     deno task bench soak
 *     deno run -A --no-check test/bench/soak_bench.ts [requests] [model…]
 *
 * @module
 */
import { discFile } from "../fixtures/images/matting.ts";
import { makeWav } from "../fixtures/audio/audio_files.ts";
import { goldenSound } from "../fixtures/models/tiny_speech.ts";
import { readUsage } from "./real/process_usage.ts";
import { RunningHearth } from "./real/hearth.ts";
import { median, printTable } from "./report.ts";

const REQUESTS = 2000;
const AT_ONCE = 4;
/** Limit for cached keys and values: as much as a thousand small prompts take. */
const KV_CACHE_MB = 32;
/** Time to wait: idle threads collect their garbage after 3 s, and again if there was a lot. */
const IDLE_MS = 10_000;
/** Largest growth that is not reported. */
const MOST_GROWTH = 1.05;

type Send = (hearth: RunningHearth, index: number) => Promise<unknown>;

const say = (content: unknown, max_tokens: number): Send => (hearth) =>
  hearth.post("/v1/chat/completions", { messages: [{ role: "user", content }], max_tokens });
const image = `data:image/png;base64,${discFile(96, 64).toBase64()}`;
const seen = [
  { type: "image_url", image_url: { url: image } },
  { type: "text", text: "What is this?" },
];
const wav = makeWav(goldenSound(2), { sampleRateHz: 16_000 });

const KINDS: Readonly<Record<string, Send>> = {
  "hearth-demo-chat": (hearth, index) => say(`What is ${index} plus 4?`, 24)(hearth, index),
  "hearth-demo-vision": say(seen, 8),
  "hearth-demo-ocr": say(seen.slice(0, 1), 24),
  "hearth-demo-embed": (hearth, index) =>
    hearth.post("/v1/embeddings", { input: `a cow ${"by the river ".repeat(index % 20)}` }),
  "hearth-demo-rerank": (hearth, index) =>
    hearth.post("/v1/rerank", { query: "a cow", documents: ["milk", `stone ${index}`] }),
  "hearth-demo-matting": async (hearth) =>
    await (await hearth.request("/v1/images/remove_background", upload("image", discFile())))
      .bytes(),
  "hearth-demo-asr": (hearth) => hearth.post("/v1/audio/transcriptions", upload("file", wav)),
  "hearth-demo-tts": async (hearth, index) =>
    await (await hearth.request("/v1/audio/speech", { input: `Number ${index}.` })).bytes(),
};

function upload(name: string, bytes: Uint8Array<ArrayBuffer>): FormData {
  const form = new FormData();
  form.append(name, new Blob([bytes]), "file");
  return form;
}

function residentMiB(pid: number): number {
  const [, kib] = /^VmRSS:\s+(\d+)/m.exec(Deno.readTextFileSync(`/proc/${pid}/status`))!;
  return Number(kib) / 1024;
}

/** The memory that is left when the threads have collected their garbage, in MiB. */
async function idleMiB(pid: number): Promise<number> {
  await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
  return residentMiB(pid);
}

async function soak(model: string, requests: number): Promise<string[]> {
  const flags = ["--kv-cache-mb", String(KV_CACHE_MB)];
  await using hearth = await RunningHearth.start(model, { flags });
  let next = 0;
  /** @returns the median of memory over the later half of the requests. */
  const sendUntil = async (end: number) => {
    const half = (next + end) / 2;
    const readings: number[] = [];
    await Promise.all(Array.from({ length: AT_ONCE }, async () => {
      while (next < end) {
        const index = next++;
        await KINDS[model]!(hearth, index);
        if (index >= half) readings.push(residentMiB(hearth.pid));
      }
    }));
    return median(readings);
  };
  // The first half of the requests lets heaps and caches reach their full size.
  const settledMiB = await sendUntil(requests);
  const settledPeakMiB = readUsage(hearth.pid).peakMiB;
  const settledIdleMiB = await idleMiB(hearth.pid);
  const endMiB = await sendUntil(2 * requests);
  const endIdleMiB = await idleMiB(hearth.pid);
  const growth = endMiB / settledMiB;
  return [
    model,
    settledMiB.toFixed(0),
    endMiB.toFixed(0),
    `${growth.toFixed(3)}× ${growth <= MOST_GROWTH ? "flat" : "**grows**"}`,
    `${settledIdleMiB.toFixed(0)}, ${endIdleMiB.toFixed(0)}`,
    `${settledPeakMiB.toFixed(0)}, ${readUsage(hearth.pid).peakMiB.toFixed(0)}`,
  ];
}

if (import.meta.main) {
  const [count = String(REQUESTS), ...names] = Deno.args;
  const rows: string[][] = [];
  for (const model of Object.keys(KINDS)) {
    if (names.length > 0 && !names.includes(model)) continue;
    rows.push(await soak(model, Number(count)));
  }
  printTable([
    `resident MiB over ${count} requests after as many others, ${AT_ONCE} at a time`,
    "at first",
    "at the end",
    "growth",
    "10 s after each",
    "peak after each",
  ], rows);
  if (rows.some((row) => row[3]!.includes("grows"))) Deno.exit(1);
}
