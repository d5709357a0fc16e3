/**
 * Measures how late messages from another thread reach a busy thread, for each method by which the busy thread yields.
 *
 *     deno task bench turns
 *
 * @module
 */
import { BusyThread, yieldToEvents } from "../../src/base/timing.ts";
import { printTable } from "./report.ts";

const MESSAGE_EVERY_MS = 37;
const RUN_MS = 3000;

const SENDER = `onmessage = ({ data: port }) => setInterval(
  () => port.postMessage(performance.timeOrigin + performance.now()), ${MESSAGE_EVERY_MS});`;

/** Milliseconds from sending a message to receiving it, and the work done in the meantime. */
async function measure(workMs: number, nextTurn: () => Promise<void>) {
  const url = URL.createObjectURL(new Blob([SENDER], { type: "text/javascript" }));
  const sender = new Worker(url, { type: "module" });
  const { port1, port2 } = new MessageChannel();
  const lags: number[] = [];
  sender.postMessage(port2, [port2]);
  await new Promise((resolve) => port1.onmessage = resolve);
  port1.onmessage = ({ data: sentAtMs }: MessageEvent<number>) =>
    lags.push(performance.timeOrigin + performance.now() - sentAtMs);
  let numPieces = 0;
  for (const endMs = performance.now() + RUN_MS; performance.now() < endMs; numPieces++) {
    const pieceEndMs = performance.now() + workMs;
    while (performance.now() < pieceEndMs);
    await nextTurn();
  }
  sender.terminate();
  port1.close();
  URL.revokeObjectURL(url);
  return { lags: lags.sort((a, b) => a - b), workShare: numPieces * workMs / RUN_MS };
}

if (import.meta.main) {
  const rows: string[][] = [];
  for (const workMs of [3, 30]) {
    const thread = new BusyThread();
    const kinds = { yieldToEvents, "BusyThread.yield()": () => thread.yield() };
    for (const [name, next] of Object.entries(kinds)) {
      const { lags, workShare } = await measure(workMs, next);
      const at = (share: number) => (lags[Math.floor(lags.length * share)] ?? NaN).toFixed(0);
      const largest = (lags.at(-1) ?? NaN).toFixed(0);
      rows.push([
        `${workMs}`,
        name,
        at(0.5),
        at(0.9),
        largest,
        `${(workShare * 100).toFixed(1)} %`,
      ]);
    }
  }
  printTable([
    "work between yields, ms",
    "yields with",
    "lag p50, ms",
    "p90",
    "most",
    "time at work",
  ], rows);
  Deno.exit(0);
}
