/**
 * `deno run -A test/load/affinity.ts [<clients at a time>]`: sends conversations of several turns through nginx to two
 * replicas, with `least_conn` and with the hash of `deploy/nginx.conf`. Measures the share of the prompts' tokens that
 * comes from the prefix cache, and the time until the first token.
 *
 * @module
 */
import { freePort, HAS_NGINX, Nginx } from "../fixtures/servers/nginx.ts";
import { Served } from "./served.ts";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const NUM_CLIENTS = Number(Deno.args[0] ?? 3);
const NUM_CONVERSATIONS = 24;
const NUM_TURNS = 6;
const QUESTION = "Tell me what you know of rivers, of towns and of the sea between them. ".repeat(
  8,
);

interface Message {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

interface Turn {
  readonly firstTokenMs: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly answer: string;
}

async function ask(url: string, messages: readonly Message[]): Promise<Turn> {
  const start = performance.now();
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: "hearth-demo-chat",
      messages,
      max_tokens: 8,
      temperature: 0,
      stream: true,
      stream_options: { include_usage: true },
    }),
  });
  let firstTokenMs: number | undefined;
  let text = "";
  for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
    text += piece;
    if (text.includes('"content":"')) firstTokenMs ??= performance.now() - start;
  }
  const chunks = text.split("\n\n").filter((line) => line.startsWith("data: {"))
    .map((line) => JSON.parse(line.slice(6)));
  const { usage } = chunks.at(-1);
  return {
    firstTokenMs: firstTokenMs ?? performance.now() - start,
    promptTokens: usage.prompt_tokens,
    cachedTokens: usage.prompt_tokens_details.cached_tokens,
    answer: chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join(""),
  };
}

async function converse(url: string, index: number): Promise<Turn[]> {
  const turns: Turn[] = [];
  const messages: Message[] = [];
  for (let n = 0; n < NUM_TURNS; n++) {
    messages.push({ role: "user", content: `${index}.${n} ${QUESTION}` });
    const turn = await ask(url, messages);
    messages.push({ role: "assistant", content: turn.answer });
    turns.push(turn);
  }
  return turns;
}

async function measure(name: string, edit: (site: string) => string): Promise<void> {
  const ports = [freePort(), freePort()];
  const flags = ["--allowed-host", "localhost"];
  await using first = await Served.start(ROOT, "hearth-demo-chat", { flags, port: ports[0]! });
  await using second = await Served.start(ROOT, "hearth-demo-chat", { flags, port: ports[1]! });
  await using nginx = await Nginx.start(ports, edit);
  const turns: Turn[] = [];
  let next = 0;
  const client = async () => {
    for (let n = next++; n < NUM_CONVERSATIONS; n = next++) {
      turns.push(...await converse(nginx.url, n));
    }
  };
  await Promise.all(Array.from({ length: NUM_CLIENTS }, client));
  const sum = (of: (turn: Turn) => number) => turns.reduce((total, turn) => total + of(turn), 0);
  const times = turns.map(({ firstTokenMs }) => firstTokenMs).toSorted((a, b) => a - b);
  const at = (share: number) => `${times[Math.ceil(share * times.length) - 1]!.toFixed(0)} ms`;
  const hits = 100 * sum((turn) => turn.cachedTokens) / sum((turn) => turn.promptTokens);
  // deno-lint-ignore no-console -- its purpose
  console.log(
    `${name}: ${turns.length} turns of ${
      (sum((turn) => turn.promptTokens) / turns.length).toFixed(0)
    } ` +
      `tokens, ${hits.toFixed(0)} % from the cache; first token p50 ${at(0.5)}, p95 ${at(0.95)}; ` +
      `exits ${await first.stop()}, ${await second.stop()}`,
  );
}

if (!HAS_NGINX) throw new Error("This measurement needs nginx, which is not installed.");
for (let round = 0; round < 2; round++) {
  await measure(
    "least_conn",
    (site) => site.replace("hash $conversation consistent;", "least_conn;"),
  );
  await measure("by conversation", (site) => site);
}
