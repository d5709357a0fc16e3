/**
 * Measures the time that the router adds to a small request, to each token of a stream and to a large upload: requests
 * alternate between the router and a server of the same model. Also measures the router's memory over many requests and
 * uploads.
 *
 *     deno run -A test/bench/router_bench.ts [requests]
 *
 * @module
 */
import { HearthProcess } from "../fixtures/servers/hearth_process.ts";
import { chatBody, ENDLESS } from "../fixtures/servers/server.ts";
import { median } from "./report.ts";

const DEFAULT_REQUESTS = 1000;
const NUM_TOKENS = 400;
const NUM_STREAMS = 7;
const UPLOAD_BYTES = 100 * 2 ** 20;
const NUM_UPLOADS = 5;

type Ask = (url: string) => Promise<void>;

async function embed(url: string): Promise<void> {
  const response = await fetch(`${url}/v1/embeddings`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "hearth-demo-embed", input: "A text." }),
  });
  await response.arrayBuffer();
  if (!response.ok) throw new Error(`status ${response.status}`);
}

async function stream(url: string): Promise<void> {
  const body = chatBody({ ...ENDLESS, max_tokens: NUM_TOKENS, stream: true });
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!(await response.text()).endsWith("[DONE]\n\n")) throw new Error("the stream was cut off");
}

const noise = new Blob([new Uint8Array(UPLOAD_BYTES)]);

/** Uploads data that is not a recording, so it is refused once all of it has arrived. */
async function upload(url: string): Promise<void> {
  const form = new FormData();
  form.append("model", "hearth-demo-asr");
  form.append("file", noise, "noise.wav");
  const response = await fetch(`${url}/v1/audio/transcriptions`, { method: "POST", body: form });
  await response.arrayBuffer();
  if (response.status !== 400) throw new Error(`status ${response.status}`);
}

/** Medians with and without the router, in milliseconds. */
async function compare(
  ask: Ask,
  urls: readonly [string, string],
  rounds: number,
): Promise<number[]> {
  for (const url of urls) await ask(url);
  const times: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    for (const [side, url] of urls.entries()) {
      const began = performance.now();
      await ask(url);
      times[side]!.push(performance.now() - began);
    }
  }
  return times.map((each) => median(each));
}

async function residentMb(router: string): Promise<number> {
  const text = await (await fetch(`${router}/metrics`)).text();
  const [, bytes] = /^hearth_router_resident_memory_bytes (\S+)/m.exec(text)!;
  return Math.round(Number(bytes) / 2 ** 20);
}

/** Measures everything, and returns the lines of a table. */
async function measure(requests: number): Promise<string[]> {
  const flags = ["-p", "0", "--device", "cpu", "--log-level", "error"];
  const names = ["hearth-demo-embed", "hearth-demo-chat", "hearth-demo-asr"];
  await using router = new HearthProcess(["router", ...names.flatMap((m) => ["-m", m]), ...flags]);
  const routed = await router.url();
  const memory: number[] = [];
  const lines = ["| | directly | through the router |", "| --- | ---: | ---: |"];
  const tasks: readonly (readonly [string, string, Ask, number, number])[] = [
    ["a small request, ms", names[0]!, embed, requests, 1],
    ["a token of a stream, ms", names[1]!, stream, NUM_STREAMS, NUM_TOKENS],
    [`an upload of ${UPLOAD_BYTES / 2 ** 20} MiB, ms`, names[2]!, upload, NUM_UPLOADS, 1],
  ];
  for (const [label, model, ask, rounds, parts] of tasks) {
    await using direct = new HearthProcess(["-m", model, ...flags]);
    const times = await compare(ask, [await direct.ready(), routed], rounds);
    lines.push(`| ${label} | ${times.map((ms) => (ms / parts).toFixed(2)).join(" | ")} |`);
    memory.push(await residentMb(routed));
  }
  lines.push(`| MiB of the router after each | | ${memory.join(", ")} |`);
  return lines;
}

if (import.meta.main) {
  const lines = await measure(Number(Deno.args[0] ?? DEFAULT_REQUESTS));
  // deno-lint-ignore no-console -- its purpose
  console.log(lines.join("\n"));
  Deno.exit(0);
}
