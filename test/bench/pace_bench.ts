/**
 * Measures how steadily a client's tokens arrive while another client's prompt of 20,000 tokens is read, with the
 * server in its own process: gaps between tokens, relative to the usual gap, which is measured before and after.
 *
 *     deno task bench pace
 *     deno run -A test/bench/pace_bench.ts <prompt tokens> <cpu|webgpu>
 *
 * @module
 */
import { type BenchDevice, RunningHearth } from "./real/hearth.ts";
import { QWEN3, writeQwen3 } from "./real/qwen3.ts";
import { copyTokenizer, twinFolder } from "./real/twin.ts";
import { median, printTable } from "./report.ts";

/** A tenth of Qwen3-0.6B, whose layers are all alike. */
const LAYERS = 3;
/** Number of gaps to measure before the long prompt, and again after it. */
const USUAL_GAPS = 100;
const [promptTokens = "20000", device = "cpu"] = Deno.args;
const dtype = device === "cpu" ? "q4" : "q4f16";

const folder = await twinFolder(`qwen3-0.6b-${dtype}-${LAYERS}-layers-chat-1`, async (path) => {
  await copyTokenizer("qwen3", path);
  await writeQwen3(path, { sizes: { ...QWEN3, layers: LAYERS }, dtypes: [dtype] });
});

function makePrompt(seed: number, length: number): number[] {
  return Array.from({ length }, (_, i) => (seed * 977 + i * 131) % QWEN3.vocab);
}

/** Reads a stream's tokens. @returns a function that stops it. */
function follow(response: Response, onToken: () => void): () => Promise<void> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let isStopped = false;
  const reading = (async () => {
    while (!isStopped) {
      const { value, done } = await reader.read();
      if (done) return;
      for (const event of value.split("\n\n")) {
        if (event.startsWith("data: {")) onToken();
      }
    }
    await reader.cancel();
  })();
  return async () => {
    isStopped = true;
    await reading;
  };
}

await using server = await RunningHearth.start(folder, { dtype, device: device as BenchDevice });
const whole = { temperature: 0, ignore_eos: true };
const times: number[] = [];
let waiting: { readonly numTokens: number; readonly resolve: () => void } | undefined;
/** Waits until this many more tokens have arrived. */
const untilMore = (count: number) =>
  new Promise<void>((resolve) => waiting = { numTokens: times.length + count, resolve });
const answer = await server.request("/v1/completions", {
  ...{ ...whole, prompt: makePrompt(1, 16), max_tokens: 10_000, stream: true },
});
const stop = follow(answer, () => {
  times.push(performance.now());
  if (times.length === waiting?.numTokens) waiting.resolve();
});
await untilMore(USUAL_GAPS);
const startedAtMs = performance.now();
await server.post("/v1/completions", {
  ...{ ...whole, prompt: makePrompt(2, Number(promptTokens)), max_tokens: 1 },
});
const endedAtMs = performance.now();
await untilMore(USUAL_GAPS);
await stop();

const gaps = times.slice(1).map((time, i) => ({ time, gap: time - times[i]! }));
// Skips the first tokens, which arrive while the server is still warming up.
const before = gaps.filter(({ time }) => time < startedAtMs).slice(20).map(({ gap }) => gap);
const after = gaps.filter(({ time }) => time > endedAtMs).slice(1).map(({ gap }) => gap);
const during = gaps.filter(({ time }) => time >= startedAtMs && time <= endedAtMs)
  .map(({ gap }) => gap).sort((a, b) => a - b);
const usualMs = median([...before, ...after]);
const at = (share: number) =>
  during[Math.min(during.length - 1, Math.floor(share * during.length))]!;
const cell = (ms: number) => `${ms.toFixed(1)} (${(ms / usualMs).toFixed(2)} ×)`;
printTable(
  ["prompt", "read in, s", "tokens", "gap before, after, ms", "p50", "p90", "p99", "largest"],
  [[
    promptTokens,
    ((endedAtMs - startedAtMs) / 1000).toFixed(1),
    `${during.length}`,
    `${median(before).toFixed(1)}, ${median(after).toFixed(1)}`,
    ...[0.5, 0.9, 0.99, 1].map((share) => cell(at(share))),
  ]],
);
