/**
 * A server under load: its process, and the resources that it uses.
 *
 * @module
 */
import { join } from "node:path";
import { readUsage } from "../bench/real/process_usage.ts";

/** Resources of a process (Linux). */
export interface Usage {
  readonly rssMb: number;
  /** Resident memory without pages of files, which the system may drop and read again. */
  readonly anonymousMb: number;
  /** Processor time of all threads since the start of the process. */
  readonly cpuSeconds: number;
  readonly descriptors: number;
  readonly threads: number;
}

/** Options of a server's start. */
export interface ServedOptions {
  readonly flags?: readonly string[];
  /** Maximum number of open files; the system's limit if absent. */
  readonly maxFiles?: number;
  /** Any free port if absent. */
  readonly port?: number;
}

/** A server in its own process. Nobody reads its standard error. */
export class Served implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly url: string;

  private constructor(child: Deno.ChildProcess, url: string) {
    this.#child = child;
    this.url = url;
  }

  /** Starts a built-in model from the checkout at `root`, and waits until it is ready. */
  static async start(
    root: string,
    model: string,
    { flags = [], maxFiles, port = 0 }: ServedOptions = {},
  ): Promise<Served> {
    const command = [
      ...[Deno.execPath(), "run", "-A", "--no-check", join(root, "main.ts"), "-m", model],
      ...["-p", String(port), "--device", "cpu", ...flags],
    ];
    const limit = maxFiles === undefined ? "" : `ulimit -n ${maxFiles}; `;
    const child = new Deno.Command("sh", {
      args: ["-c", `${limit}exec "$@"`, "sh", ...command],
      cwd: root,
      env: { XDG_RUNTIME_DIR: Deno.makeTempDirSync({ prefix: "hearth-load-" }) },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
    let said = "";
    while (!said.includes("ready in")) {
      const { done, value } = await reader.read();
      if (done) throw new Error(`The server ended:\n${said}`);
      said += value;
    }
    // The server's further output must not fill the pipe.
    void (async () => {
      while (!(await reader.read()).done);
    })();
    return new Served(child, /listens at (http:\S+)/.exec(said)![1]!);
  }

  /** Current resources of the server's process. */
  usage(): Usage {
    const status = Deno.readTextFileSync(`/proc/${this.#child.pid}/status`);
    const read = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)![1]);
    return {
      rssMb: read("VmRSS") / 1024,
      anonymousMb: read("RssAnon") / 1024,
      cpuSeconds: readUsage(this.#child.pid).cpuSeconds,
      threads: read("Threads"),
      descriptors: [...Deno.readDirSync(`/proc/${this.#child.pid}/fd`)].length,
    };
  }

  /** Stops the server with SIGTERM, as an operator does. @returns its exit code. */
  async stop(): Promise<number> {
    this.#child.kill("SIGTERM");
    return (await this.#child.status).code;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // The server has already ended.
    }
    await this.#child.status;
  }
}
