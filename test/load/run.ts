/**
 * `deno task load [--kind <kind>]… [--requests <count>] [--root <checkout>]`: hostile requests beside a small one every
 * 100 ms, for each built-in model. Prints how the small ones and `/health` fared, and what the server held afterwards.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { HEAVY, type Hostile, LIGHT, type Target } from "./hostile.ts";
import { Served } from "./served.ts";
import { type LoadKind, MODELS, smallRequest } from "./small_requests.ts";

const PROBE_EVERY_MS = 100;
const PATIENCE_MS = 60_000;
/** Hostile ones under way at once. */
const CONCURRENCY = 8;
/** One in so many is a heavy one. */
const HEAVY_EVERY = 100;
const SETTLE_MS = 5_000;

const { values } = parseArgs({
  options: {
    kind: { type: "string", multiple: true, default: Object.keys(MODELS) },
    requests: { type: "string", default: "10000" },
    root: { type: "string", default: fileURLToPath(new URL("../..", import.meta.url)) },
    json: { type: "boolean", default: false },
  },
});

/** Times and ends of requests of a sort. */
class Tally {
  readonly #seconds: number[] = [];
  readonly ends: Record<string, number> = {};

  add(end: string, seconds: number): void {
    this.#seconds.push(seconds);
    this.ends[end] = (this.ends[end] ?? 0) + 1;
  }

  get count(): number {
    return this.#seconds.length;
  }

  /** Seconds within which a share of them ended. */
  within(share: number): number {
    const sorted = this.#seconds.toSorted((a, b) => a - b);
    return Number((sorted[Math.ceil(share * sorted.length) - 1] ?? NaN).toFixed(3));
  }

  /** Share that ended as wanted within `seconds`. */
  shareWithin(seconds: number): number {
    const good = this.#seconds.filter((each) => each <= seconds).length;
    return Number((good / this.#seconds.length).toFixed(4));
  }
}

/** Sends one every 100 ms, whether the last was answered or not, until it is ended. */
async function probe(send: () => Promise<string>, signal: AbortSignal): Promise<Tally> {
  const tally = new Tally();
  const open: Promise<void>[] = [];
  while (!signal.aborted) {
    const start = performance.now();
    open.push(
      send().catch((error) => (error as Error).name).then((end) => {
        tally.add(end, (performance.now() - start) / 1000);
      }),
    );
    await new Promise((resolve) => setTimeout(resolve, PROBE_EVERY_MS));
  }
  await Promise.all(open);
  return tally;
}

async function ask(url: string, init: RequestInit = {}): Promise<string> {
  const response = await fetch(url, { ...init, signal: AbortSignal.timeout(PATIENCE_MS) });
  await response.arrayBuffer();
  return String(response.status);
}

async function attack(target: Target, numRequests: number): Promise<Record<string, Tally>> {
  const tallies: Record<string, Tally> = {};
  const light = Object.entries(LIGHT);
  const heavy = Object.entries(HEAVY);
  let next = 0;
  const worker = async () => {
    for (let n = next++; n < numRequests; n = next++) {
      const [name, send]: [string, Hostile] = n % HEAVY_EVERY === HEAVY_EVERY - 1
        ? heavy[Math.floor(n / HEAVY_EVERY) % heavy.length]!
        : light[n % light.length]!;
      const start = performance.now();
      const end = await send(target);
      (tallies[name] ??= new Tally()).add(end, (performance.now() - start) / 1000);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
  return tallies;
}

async function load(kind: LoadKind) {
  await using served = await Served.start(values.root, MODELS[kind]);
  const small = smallRequest(kind);
  const { url } = served;
  const sendSmall = () =>
    ask(url + small.path, { method: "POST", body: small.body, headers: small.headers });
  // What is allocated once is there before the first look.
  for (let n = 0; n < 20; n++) await sendSmall();
  const before = served.usage();
  const ended = new AbortController();
  const smalls = probe(sendSmall, ended.signal);
  const healths = probe(() => ask(`${url}/health`), ended.signal);
  const start = performance.now();
  const hostile = await attack({ url, small }, Number(values.requests));
  const seconds = Math.round((performance.now() - start) / 1000);
  ended.abort();
  const [answered, health] = await Promise.all([smalls, healths]);
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  const after = served.usage();
  return {
    kind,
    hostileRequests: Number(values.requests),
    seconds,
    small: {
      count: answered.count,
      within2s: answered.shareWithin(2),
      p50: answered.within(0.5),
      p99: answered.within(0.99),
      ends: answered.ends,
    },
    health: {
      p50: health.within(0.5),
      p99: health.within(0.99),
      max: health.within(1),
      ends: health.ends,
    },
    slowestHostile: Object.fromEntries(
      Object.entries(hostile).map(([name, tally]) => [name, [tally.within(1), tally.ends]]),
    ),
    rssMb: [Math.round(before.rssMb), Math.round(after.rssMb)],
    descriptors: [before.descriptors, after.descriptors],
    threads: [before.threads, after.threads],
    exitCode: await served.stop(),
  };
}

for (const kind of values.kind as LoadKind[]) {
  const figures = await load(kind);
  // deno-lint-ignore no-console -- its purpose
  console.log(JSON.stringify(figures, undefined, values.json ? undefined : 2));
}
