/**
 * Resident memory over many requests to each built-in model on the CPU, each server in a process of its own: once every
 * shape has been seen it must not grow.
 *
 *     deno task bench soak
 *     deno run -A --no-check test/bench/soak_bench.ts [requests] [model…]
 *
 * @module
 */
import { discFile } from "../fixtures/matting.ts";
import { makeWav } from "../fixtures/audio_files.ts";
import { goldenSound } from "../fixtures/tiny_speech.ts";
import { readUsage } from "./real/process_usage.ts";
import { RunningHearth } from "./real/hearth.ts";
import { printTable } from "./report.ts";

const REQUESTS = 2000;
const AT_ONCE = 4;
/** Share of the requests after which memory is read first. */
const SETTLED = 0.25;
/** Growth from there to the end that is reported as too much. */
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

async function soak(model: string, requests: number): Promise<string[]> {
  await using hearth = await RunningHearth.start(model);
  let next = 0;
  let settledMiB = 0;
  const settledAt = Math.ceil(SETTLED * requests);
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (let index = next++; index < requests; index = next++) {
      await KINDS[model]!(hearth, index);
      if (index === settledAt) settledMiB = residentMiB(hearth.pid);
    }
  }));
  const endMiB = residentMiB(hearth.pid);
  const growth = endMiB / settledMiB;
  return [
    model,
    settledMiB.toFixed(0),
    endMiB.toFixed(0),
    `${growth.toFixed(3)}× ${growth <= MOST_GROWTH ? "flat" : "**grows**"}`,
    readUsage(hearth.pid).peakMiB.toFixed(0),
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
    `resident MiB over ${count} requests, ${AT_ONCE} at a time`,
    `after ${100 * SETTLED} %`,
    "at the end",
    "growth",
    "peak",
  ], rows);
  if (rows.some((row) => row[3]!.includes("grows"))) Deno.exit(1);
}
