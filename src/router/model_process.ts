/**
 * The process of one model: `serve` on a loopback port of its own, with a key that only the router knows.
 *
 * @module
 */
import type { Environment, ModelKind } from "../base/config.ts";
import { log } from "../base/log.ts";
import { type ChildReport, ROUTER_VARIABLE } from "./child_report.ts";
import { ModelClient } from "./model_client.ts";
import type { RoutedModel } from "./routed_model.ts";

/** Where a loaded model answers. */
export interface ModelAddress {
  readonly url: string;
  /** The host of the URL, with its port. */
  readonly host: string;
  /** The key that it wants. */
  readonly key: string;
  /** The connections to it. */
  readonly client: ModelClient;
  readonly kind: ModelKind;
  /** Tokens of prompt and completion together that are served, where there is a limit. */
  readonly contextLength: number | undefined;
}

/** A model's process, as the pool knows it. */
export interface ModelProcess {
  /** Rejects with the reason if it ends before it is ready. */
  readonly ready: Promise<ModelAddress>;
  /** Resolves when it has ended. */
  readonly ended: Promise<void>;
  /** Memory of the process that is in RAM now; `undefined` where the system does not say. */
  memoryBytes(): number | undefined;
  /** Asks it to finish its requests and to end; kills it if that takes too long. */
  stop(): void;
}

/** How processes are started. */
interface ProcessOptions {
  /** The words that run this very program, up to its command. */
  readonly program: readonly string[];
  readonly environment: Environment;
  /** Time from the request to stop until it is killed. */
  readonly maxStopMs: number;
}

/** Starts a model's process. */
export function startModelProcess(
  model: RoutedModel,
  { program, environment, maxStopMs }: ProcessOptions,
): ModelProcess {
  const key = crypto.randomUUID();
  const [command = "", ...words] = program;
  const child = new Deno.Command(command, {
    args: [...words, "serve", ...model.args, "-a", "127.0.0.1", "-p", "0"],
    env: { ...environment, [ROUTER_VARIABLE]: "1", HEARTH_API_KEY: key },
    clearEnv: true,
    stdin: "piped",
    stdout: "piped",
    // Its log lines go where the router's go.
    stderr: "inherit",
  }).spawn();
  const ready = readReports(child.stdout, key);
  // Whoever waits for it hears of it; perhaps nobody does.
  ready.catch(() => {});
  let killTimer: ReturnType<typeof setTimeout> | undefined;
  const ended = child.status.then(async ({ code, signal }) => {
    clearTimeout(killTimer);
    log.info("a model's process has ended", { model: model.id, pid: child.pid, code, signal });
    await ready.then(({ client }) => client.close(), () => {});
  });
  const stop = () => {
    if (killTimer !== undefined) return;
    killTimer = setTimeout(() => kill(child, model), maxStopMs);
    child.stdin.close().catch(() => {});
  };
  log.info("a model's process was started", { model: model.id, pid: child.pid });
  return { ready, ended, stop, memoryBytes: () => readResidentBytes(child.pid) };
}

/** As Linux has it. */
function readResidentBytes(pid: number): number | undefined {
  try {
    const status = Deno.readTextFileSync(`/proc/${pid}/status`);
    const kib = /^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1];
    return kib === undefined ? undefined : Number(kib) * 1024;
  } catch {
    return undefined;
  }
}

function kill(child: Deno.ChildProcess, { id: model }: RoutedModel): void {
  log.warn("a model's process does not end and is killed", { model, pid: child.pid });
  try {
    child.kill("SIGKILL");
  } catch {
    // It has ended meanwhile.
  }
}

/** Reads until the model is ready, and goes on reading so that the pipe does not fill. */
async function readReports(
  stdout: ReadableStream<Uint8Array<ArrayBuffer>>,
  key: string,
): Promise<ModelAddress> {
  const reader = stdout.pipeThrough(new TextDecoderStream()).getReader();
  let port = 0;
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("its process ended");
    const lines = `${text}${value}`.split("\n");
    text = lines.pop()!;
    for (const report of lines.filter(isReport).map((line): ChildReport => JSON.parse(line))) {
      if (report.type === "listening") port = report.port;
      if (report.type === "failed") throw new Error(report.reason);
      if (report.type !== "ready") continue;
      void readToEnd(reader);
      const { kind, contextLength } = report;
      const client = new ModelClient(port);
      const host = `127.0.0.1:${port}`;
      return { url: `http://${host}`, host, key, client, kind, contextLength };
    }
  }
}

/** Libraries may print lines of their own. */
function isReport(line: string): boolean {
  return line.startsWith('{"type":');
}

async function readToEnd(reader: ReadableStreamDefaultReader<string>): Promise<void> {
  while (!(await reader.read()).done);
}
