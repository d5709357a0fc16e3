/**
 * The process of one model: `serve` on a loopback port of its own, with an API key that only the router knows.
 *
 * @module
 */
import { type Environment, type ModelKind, ROUTER_VARIABLE } from "../base/config.ts";
import { log } from "../base/log.ts";
import type { ChildReport, RoutedModel } from "./routed_model.ts";
import { ModelClient } from "./model_client.ts";

/** How to reach the process of a loaded model, and what the process reported about the model. */
export interface ModelAddress {
  readonly url: string;
  readonly host: string;
  /** API key of the process. */
  readonly key: string;
  /** Connections to the process. */
  readonly client: ModelClient;
  readonly kind: ModelKind;
  /** Maximum number of tokens of prompt and completion together; absent if there is no limit. */
  readonly contextLength: number | undefined;
}

/** A model's process, as the pool sees it. */
export interface ModelProcess {
  /** Resolves when the model is ready; rejects with the reason if loading fails or the process ends first. */
  readonly ready: Promise<ModelAddress>;
  /** Resolves when the process has ended. */
  readonly ended: Promise<void>;
  /** Resident memory of the process; `undefined` if the system does not report it. */
  memoryBytes(): number | undefined;
  /** Asks the process to finish its requests and exit; kills it if that takes too long. */
  stop(): void;
}

/** How processes are started. */
interface ProcessOptions {
  /** Command line that runs this program, without a subcommand such as `serve`. */
  readonly program: readonly string[];
  readonly environment: Environment;
  /** Time between asking the process to stop and killing it. */
  readonly maxStopMs: number;
}

export function startModelProcess(
  model: RoutedModel,
  { program, environment, maxStopMs }: ProcessOptions,
): ModelProcess {
  const key = crypto.randomUUID();
  const [command = "", ...programArgs] = program;
  const child = new Deno.Command(command, {
    args: [...programArgs, "serve", ...model.args, "-a", "127.0.0.1", "-p", "0"],
    env: { ...environment, [ROUTER_VARIABLE]: "1", HEARTH_API_KEY: key },
    clearEnv: true,
    stdin: "piped",
    stdout: "piped",
    // The process logs to the same place as the router.
    stderr: "inherit",
  }).spawn();
  const ready = readReports(child.stdout, key);
  // Callers that wait for `ready` get its error. If nobody waits, the rejection must not end the router.
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

/** Reads the resident memory from Linux's `/proc`. */
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
  log.warn("a model's process does not stop and is killed", { model, pid: child.pid });
  try {
    child.kill("SIGKILL");
  } catch {
    // The process has ended in the meantime.
  }
}

/** Reads reports until the model is ready. All later output is read and dropped, so that the pipe does not fill up. */
async function readReports(
  stdout: ReadableStream<Uint8Array<ArrayBuffer>>,
  key: string,
): Promise<ModelAddress> {
  const reader = stdout.pipeThrough(new TextDecoderStream()).getReader();
  let port = 0;
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("its process ended before the model was loaded");
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

/** Whether a line is a report: libraries may print other lines. */
function isReport(line: string): boolean {
  return line.startsWith('{"type":');
}

async function readToEnd(reader: ReadableStreamDefaultReader<string>): Promise<void> {
  while (!(await reader.read()).done);
}
