/**
 * `deno task soak [--minutes <count>] [--output <file>]`: low load of mixed kinds on one server after the other, with
 * disconnects and restarts, while the resources of its process are recorded; finally plots them.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { LIGHT } from "./hostile.ts";
import { type Sample, writePlot } from "./plot.ts";
import { Served } from "./served.ts";
import { type LoadKind, MODELS, smallRequest } from "./small_requests.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const SAMPLE_EVERY_MS = 2_000;
const REQUEST_EVERY_MS = 250;
/** The client disconnects in one of this many requests. */
const HANG_UP_EVERY = 7;
const HANG_UP_AFTER_MS = 15;
/** One of this many requests is hostile. */
const HOSTILE_EVERY = 5;

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "30" },
    output: { type: "string", default: `${ROOT}docs/soak.png` },
    kind: { type: "string", multiple: true, default: Object.keys(MODELS) },
    rounds: { type: "string", default: "1" },
  },
});

const kinds = values.kind as LoadKind[];
const rounds = Number(values.rounds);
const turnMs = Number(values.minutes) * 60_000 / (kinds.length * rounds);
const samples: Sample[] = [];
const ends: Record<string, number> = {};
const start = performance.now();

async function serve(kind: LoadKind): Promise<void> {
  await using served = await Served.start(ROOT, MODELS[kind], { flags: ["--log-level", "error"] });
  const small = smallRequest(kind);
  const sampler = setInterval(() => {
    samples.push({ seconds: (performance.now() - start) / 1000, kind, ...served.usage() });
  }, SAMPLE_EVERY_MS);
  const hostile = Object.values(LIGHT);
  const deadline = performance.now() + turnMs;
  for (let n = 0; performance.now() < deadline; n++) {
    const begun = performance.now();
    const end = n % HOSTILE_EVERY === 0
      ? await hostile[n % hostile.length]!({ url: served.url, small }).then(() => "hostile")
      : await send(served.url, small, n % HANG_UP_EVERY === 0);
    ends[end] = (ends[end] ?? 0) + 1;
    const rest = REQUEST_EVERY_MS - (performance.now() - begun);
    if (rest > 0) await new Promise((resolve) => setTimeout(resolve, rest));
  }
  clearInterval(sampler);
  const code = await served.stop();
  ends[`exit ${code}`] = (ends[`exit ${code}`] ?? 0) + 1;
}

async function send(
  url: string,
  small: ReturnType<typeof smallRequest>,
  hangsUp: boolean,
): Promise<string> {
  const { path, body, headers } = small;
  const signal = AbortSignal.timeout(hangsUp ? HANG_UP_AFTER_MS : 60_000);
  try {
    const response = await fetch(url + path, { method: "POST", body, headers, signal });
    await response.arrayBuffer();
    return String(response.status);
  } catch (error) {
    return hangsUp ? "hung up" : (error as Error).name;
  }
}

for (let round = 0; round < rounds; round++) {
  for (const kind of kinds) await serve(kind);
}
await Deno.writeFile(values.output, writePlot(samples));
// deno-lint-ignore no-console -- its purpose
console.log(JSON.stringify({ ends, last: samples.at(-1), numSamples: samples.length }));
await Deno.writeTextFile(
  values.output.replace(/\.png$/, ".json"),
  JSON.stringify({ ends, samples }),
);
