/**
 * `deno task load [--kind <kind>]… [--scenario <part of a name>]… [--requests <count>] [--json]`: for each built-in
 * model, during each scenario of hostile load, sends `/health` every 100 ms and a small request as often, or less often
 * to a slow model. Prints the results of these requests, the server's resources before and after, and how late the
 * requests were sent. The server's standard error is a pipe that nobody reads, and the server may open 256 files.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { attack } from "./attack_thread.ts";
import { pause } from "./hostile.ts";
import { plainImages } from "./large_media.ts";
import { ask, Prober } from "./prober.ts";
import { IMAGE_KINDS, SCENARIOS, withImage } from "./scenarios.ts";
import { Served, type Usage } from "./served.ts";
import { type LoadKind, MODELS, type SmallRequest, smallRequest } from "./small_requests.ts";
import { Tally, time } from "./tally.ts";

const PROBE_EVERY_MS = 100;
/**
 * After this many sequential requests, some concurrent ones that share batches, and two images as large as photos, all
 * one-time allocations have been made.
 */
const NUM_WARM_UP = 200;
const WARM_UP_MS = 10_000;
const NUM_ROUNDS = 10;
const NUM_TOGETHER = 4;
const NUM_PHOTOS = 2;
const PHOTO_SIDE = 1_000;
/** Idle threads end after 20 s. */
const SETTLE_MS = 30_000;
/** Garbage is collected every few seconds meanwhile: the median over this time counts. */
const MEASURE_MS = 10_000;
const MAX_FILES = 256;

const { values } = parseArgs({
  options: {
    kind: { type: "string", multiple: true, default: Object.keys(MODELS) },
    scenario: { type: "string", multiple: true, default: [""] },
    requests: { type: "string", default: "1000" },
    root: { type: "string", default: fileURLToPath(new URL("../..", import.meta.url)) },
    json: { type: "boolean", default: false },
  },
});

/**
 * Sends requests that cause all one-time allocations.
 *
 * @returns the median time of sequential small requests, in milliseconds.
 */
async function warmUp(
  kind: LoadKind,
  send: (request?: SmallRequest) => Promise<string>,
): Promise<number> {
  const tally = new Tally();
  const end = performance.now() + WARM_UP_MS;
  while (tally.count < NUM_WARM_UP && performance.now() < end) await time(tally, () => send());
  for (let round = 0; round < NUM_ROUNDS; round++) {
    await Promise.all(Array.from({ length: NUM_TOGETHER }, () => send()));
  }
  const small = smallRequest(kind);
  const photos = IMAGE_KINDS.includes(kind) ? plainImages(NUM_PHOTOS, PHOTO_SIDE) : [];
  for (const photo of photos) await send({ ...small, body: withImage(small, photo) });
  return tally.within(0.5) * 1000;
}

function print(...cells: (string | number)[]): void {
  const widths = [10, 28, 5, 7, 9, 9, 9, 9, 9];
  const line = cells.map((cell, at) =>
    at < 2 ? String(cell).padEnd(widths[at]!) : String(cell).padStart(widths[at] ?? 0)
  );
  // deno-lint-ignore no-console -- its purpose
  console.log(line.join(" "));
}

function inSeconds(seconds: number): string {
  return `${seconds.toFixed(2)} s`;
}

function describeEnds(tallies: Readonly<Record<string, Tally>>): string {
  const all: Record<string, number> = {};
  for (const { ends } of Object.values(tallies)) {
    for (const [end, count] of Object.entries(ends)) all[end] = (all[end] ?? 0) + count;
  }
  return Object.entries(all).map(([end, count]) => `${count}×${end}`).join(" ");
}

function describeUsage(name: string, before: number, after: number): string {
  const change = Math.round((after / before - 1) * 100);
  return `${name} ${Math.round(before)} → ${Math.round(after)} (${
    change > 0 ? "+" : ""
  }${change} %)`;
}

async function load(kind: LoadKind): Promise<unknown> {
  await using served = await Served.start(values.root, MODELS[kind], {
    flags: ["--log-level", "debug"],
    maxFiles: MAX_FILES,
  });
  const { url } = served;
  // This client's connections are closed at the end, so that they do not count.
  let client = Deno.createHttpClient({});
  let numSent = 0;
  const send = ({ path, body, headers }: SmallRequest = smallRequest(kind, numSent++)) =>
    ask(url + path, { client, method: "POST", body, headers });
  const idleMs = await warmUp(kind, send);
  client.close();
  client = Deno.createHttpClient({});
  // A slower model gets requests at the rate that it can answer.
  const everyMs = Math.max(PROBE_EVERY_MS, Math.ceil(3 * idleMs / 100) * 100);
  const before = await settle(served, send);
  const results: Record<string, unknown> = {};
  for (const [scenario, { kinds, isExtra = false }] of Object.entries(SCENARIOS)) {
    if (kinds?.includes(kind) === false) continue;
    const isNamed = values.scenario.some((part) => part !== "" && scenario.includes(part));
    if (!isNamed && (isExtra || !values.scenario.includes(""))) continue;
    const prober = await Prober.start({ url, kind, everyMs, firstIndex: numSent });
    const start = performance.now();
    const hostile = await attack({ url, kind, scenario, numRequests: Number(values.requests) });
    const seconds = (performance.now() - start) / 1000;
    const { small, health, late } = await prober.stop();
    numSent += small.count;
    const now = served.usage();
    print(
      ...[kind, scenario, seconds.toFixed(0), small.count],
      `${(100 * small.shareWithin(2)).toFixed(1)} %`,
      ...[inSeconds(small.within(0.5)), inSeconds(small.within(0.99))],
      ...[inSeconds(health.within(0.99)), inSeconds(late.within(0.99))],
      ` ${describeEnds(hostile)}, ${now.rssMb.toFixed(0)} MiB`,
    );
    results[scenario] = { small, health, late, hostile, now };
  }
  client.close();
  client = Deno.createHttpClient({});
  const after = await settle(served, send);
  const exitCode = await served.stop();
  const descriptors = describeUsage("descriptors", before.descriptors, after.descriptors);
  print(
    kind,
    `idle ${idleMs.toFixed(0)} ms, one every ${everyMs} ms; ` +
      `${describeUsage("MiB", before.rssMb, after.rssMb)}, ` +
      `${describeUsage("anonymous", before.anonymousMb, after.anonymousMb)}, ` +
      `${descriptors}, ${
        describeUsage("threads", before.threads, after.threads)
      }, exit ${exitCode}`,
  );
  return { kind, idleMs, everyMs, before, after, exitCode, results };
}

/** The resources of the server after a time with little load. */
async function settle(served: Served, send: () => Promise<string>): Promise<Usage> {
  const end = performance.now() + SETTLE_MS;
  const usages: Usage[] = [];
  while (performance.now() < end) {
    await send();
    await pause(500);
    if (performance.now() > end - MEASURE_MS) usages.push(served.usage());
  }
  return usages.toSorted((a, b) => a.rssMb - b.rssMb)[Math.floor(usages.length / 2)]!;
}

print("kind", "beside", "", "small", "in 2 s", "p50", "p99", "/health", "late", " ends, memory");
for (const kind of values.kind as LoadKind[]) {
  const figures = await load(kind);
  // deno-lint-ignore no-console -- its purpose
  if (values.json) console.log(JSON.stringify(figures));
}
