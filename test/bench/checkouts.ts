/**
 * Compares this checkout with another over HTTP: a server of each, with the same built-in model, is asked alternately,
 * by one client and by eight. The result shows what a change, or all changes since a release, made slower.
 *
 *     deno run -A --no-check test/bench/checkouts.ts <other checkout> [--rounds 7] [--kind <kind>]… [--device cpu]
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Served } from "../load/served.ts";
import { type LoadKind, MODELS } from "../load/small_requests.ts";
import { median, printTable, time } from "./report.ts";

const NUM_CLIENTS = 8;
const NUM_TOKENS = 64;
/** Warm-up rounds, in which code is compiled and arenas grow. */
const NUM_WARM_UP = 3;

const samples = new URL("../../docs/samples/", import.meta.url);
const read = (name: string) => Deno.readFileSync(new URL(name, samples));
const words = (count: number) =>
  Array.from(
    { length: count },
    (_, n) => ["river", "stone", "a", "quiet", "house", "of"][n * n % 6],
  ).join(" ");

interface Request {
  readonly path: string;
  readonly init: () => RequestInit;
}

function json(path: string, body: Record<string, unknown>): Request {
  const init = {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ temperature: 0, ...body }),
  };
  return { path, init: () => init };
}

function form(path: string, fields: Record<string, string | File>): Request {
  return {
    path,
    init: () => {
      const body = new FormData();
      for (const [name, value] of Object.entries(fields)) body.set(name, value);
      return { method: "POST", body };
    },
  };
}

function chat(kind: LoadKind, content: unknown): Request {
  return json("/v1/chat/completions", {
    model: MODELS[kind],
    messages: [{ role: "user", content }],
    max_tokens: NUM_TOKENS,
  });
}

function image(name: string): unknown {
  return {
    type: "image_url",
    image_url: { url: `data:image/png;base64,${read(name).toBase64()}` },
  };
}

/** A typical request for each kind. */
const REQUESTS: Readonly<Record<LoadKind, Request>> = {
  text: chat("text", "Tell me a story about a cow."),
  vision: chat("vision", [image("circle.png"), { type: "text", text: "What is this?" }]),
  ocr: chat("ocr", [image("receipt.png")]),
  embedding: json("/v1/embeddings", {
    model: MODELS.embedding,
    input: Array.from({ length: 32 }, (_, n) => words(5 + 2 * n)),
  }),
  rerank: json("/v1/rerank", {
    model: MODELS.rerank,
    query: "a quiet river",
    documents: Array.from({ length: 16 }, (_, n) => words(5 + 3 * n)),
  }),
  asr: form("/v1/audio/transcriptions", {
    model: MODELS.asr,
    file: new File([read("timer.mp3")], "timer.mp3"),
  }),
  tts: json("/v1/audio/speech", {
    model: MODELS.tts,
    input: "The kettle is on, and the bread is nearly done.",
    response_format: "wav",
  }),
  matting: form("/v1/images/remove_background", {
    image: new File([Deno.readFileSync(new URL("../cut_out_before.jpg", samples))], "photo.jpg"),
  }),
};

async function ask(url: string, { path, init }: Request): Promise<void> {
  const response = await fetch(url + path, init());
  const body = await response.arrayBuffer();
  if (!response.ok) {
    throw new Error(`${path} answered ${response.status}: ${new TextDecoder().decode(body)}`);
  }
}

async function compare(kind: LoadKind, roots: readonly string[], rounds: number, device: string) {
  await using stack = new AsyncDisposableStack();
  const servers: Served[] = [];
  for (const root of roots) {
    servers.push(
      stack.use(await Served.start(root, MODELS[kind], { flags: ["--device", device] })),
    );
  }
  const request = REQUESTS[kind];
  const alone: number[][] = roots.map(() => []);
  const together: number[][] = roots.map(() => []);
  const cpu: number[][] = roots.map(() => []);
  for (let round = -NUM_WARM_UP; round < rounds; round++) {
    // The order alternates, because the first server's remaining work slows the second.
    const order = round % 2 === 0 ? [0, 1] : [1, 0];
    for (const side of order) {
      const server = servers[side]!;
      const { url } = server;
      const before = server.usage().cpuSeconds;
      const one = await time(() => ask(url, request));
      const all = await time(() =>
        Promise.all(Array.from({ length: NUM_CLIENTS }, () => ask(url, request)))
      );
      if (round < 0) continue;
      alone[side]!.push(one);
      together[side]!.push(all);
      cpu[side]!.push(1000 * (server.usage().cpuSeconds - before) / (1 + NUM_CLIENTS));
    }
  }
  const cells = ([here, there]: number[][]) => {
    const [mine, theirs] = [median(here!), median(there!)];
    return [mine.toFixed(1), theirs.toFixed(1), `${(mine / theirs).toFixed(2)}×`];
  };
  return [kind, ...cells(alone), ...cells(together), ...cells(cpu)];
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: "string", default: "7" },
    kind: { type: "string", multiple: true, default: Object.keys(MODELS) },
    device: { type: "string", default: "cpu" },
  },
});
const [other] = positionals;
if (other === undefined) {
  throw new Error("Name the checkout to compare with, a folder with a main.ts.");
}
const roots = [fileURLToPath(new URL("../..", import.meta.url)), other];
const rows: string[][] = [];
for (const kind of values.kind as LoadKind[]) {
  rows.push(await compare(kind, roots, Number(values.rounds), values.device));
}
printTable(
  [
    ...["kind", "alone, ms", "other", "ratio", `${NUM_CLIENTS} at once, ms`, "other", "ratio"],
    ...["CPU ms a request", "other", "ratio"],
  ],
  rows,
);
Deno.exit(0);
