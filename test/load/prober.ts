/**
 * Sends requests to a server at fixed times, in its own process, so that the load and the measurement share no thread,
 * heap or event loop. It also measures how late it sent each request.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { pause } from "./hostile.ts";
import { type LoadKind, smallRequest } from "./small_requests.ts";
import { Tally, type TallyData, time } from "./tally.ts";

const HEALTH_EVERY_MS = 100;
const PATIENCE_MS = 60_000;
/** Time for the process to load its modules. */
const LOAD_MS = 1_000;

/** Options of a prober. */
export interface ProbeOptions {
  readonly url: string;
  readonly kind: LoadKind;
  /** Interval between small requests. */
  readonly everyMs: number;
  /** Index of the first small request: no two have the same media. */
  readonly firstIndex: number;
}

/** Results of the requests. */
export interface Probed {
  readonly small: Tally;
  readonly health: Tally;
  /** Delays of requests in seconds, because the prober or its processor was busy. */
  readonly late: Tally;
}

export class Prober {
  readonly #child: Deno.ChildProcess;
  readonly #output: Promise<string>;

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
    this.#output = new Response(child.stdout).text();
  }

  /** Starts the prober's process. Resolves when it has been told to send requests. */
  static async start(options: ProbeOptions): Promise<Prober> {
    const script = fileURLToPath(import.meta.url);
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", script, JSON.stringify(options)],
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const prober = new Prober(child);
    await pause(LOAD_MS);
    await prober.#begin();
    return prober;
  }

  async #begin(): Promise<void> {
    const writer = this.#child.stdin.getWriter();
    await writer.write(Uint8Array.of(0));
    writer.releaseLock();
  }

  /** Stops sending, and waits for the answers. */
  async stop(): Promise<Probed> {
    await this.#child.stdin.close();
    const { small, health, late } = JSON.parse(await this.#output) as Record<string, TallyData>;
    return { small: new Tally(small), health: new Tally(health), late: new Tally(late) };
  }
}

/** @returns the status of the answer, after reading all of it. */
export async function ask(
  url: string,
  init: RequestInit & { readonly client?: Deno.HttpClient } = {},
): Promise<string> {
  const response = await fetch(url, { ...init, signal: AbortSignal.timeout(PATIENCE_MS) });
  await response.arrayBuffer();
  return String(response.status);
}

/** Sends a request at each interval, even if the previous one is not answered yet, until `signal` aborts. */
async function probe(
  send: () => Promise<string>,
  { everyMs, late, signal }: {
    readonly everyMs: number;
    readonly late: Tally;
    readonly signal: AbortSignal;
  },
): Promise<Tally> {
  const tally = new Tally();
  const open: Promise<void>[] = [];
  for (let due = performance.now(); !signal.aborted; due += everyMs) {
    late.add("sent", Math.max(0, performance.now() - due) / 1000);
    open.push(time(tally, send));
    await pause(Math.max(0, due + everyMs - performance.now()));
  }
  await Promise.all(open);
  return tally;
}

if (import.meta.main) {
  const { url, kind, everyMs, firstIndex } = JSON.parse(Deno.args[0]!) as ProbeOptions;
  const late = new Tally();
  const stopped = new AbortController();
  const { signal } = stopped;
  let index = firstIndex;
  const sendSmall = () => {
    const { path, body, headers } = smallRequest(kind, index++);
    return ask(url + path, { method: "POST", body, headers });
  };
  const input = Deno.stdin.readable.getReader();
  await input.read();
  const probes = Promise.all([
    probe(sendSmall, { everyMs, late, signal }),
    probe(() => ask(`${url}/health`), { everyMs: HEALTH_EVERY_MS, late, signal }),
  ]);
  await input.read();
  stopped.abort();
  const [small, health] = await probes;
  await new Response(JSON.stringify({ small, health, late })).body!.pipeTo(Deno.stdout.writable);
}
