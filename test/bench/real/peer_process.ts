/**
 * Runs the other programs: Node processes with the scripts of `peer/`, whose packages are installed in the cache
 * folder. Requests and answers are lines of JSON.
 *
 * @module
 */
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { BenchDevice } from "./hearth.ts";
import { CACHE } from "./twin.ts";

const SOURCE = fileURLToPath(new URL("./peer/", import.meta.url));
const FOLDER = join(CACHE, "peer");
const LOCK = "package-lock.json";
/** A copy of the lock file whose packages are installed. */
const INSTALLED = "installed-lock.json";

/** Installs the packages that `peer/package-lock.json` pins, without running their scripts. */
export async function installPeers(): Promise<void> {
  await Deno.mkdir(FOLDER, { recursive: true });
  const lock = await Deno.readTextFile(join(SOURCE, LOCK));
  const installed = await Deno.readTextFile(join(FOLDER, INSTALLED)).catch(() => undefined);
  for (const { name } of Deno.readDirSync(SOURCE)) {
    await Deno.copyFile(join(SOURCE, name), join(FOLDER, name));
  }
  if (installed === lock) return;
  // Not `npm ci`: it refuses a lock that lacks optional packages of other platforms.
  const { success } = await new Deno.Command("npm", {
    args: ["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"],
    cwd: FOLDER,
    stdout: "null",
  }).output();
  if (!success) throw new Error(`npm install failed in ${FOLDER}.`);
  await Deno.writeTextFile(join(FOLDER, INSTALLED), lock);
}

/** A running process. Requests may overlap; the script decides how to handle that. */
export class PeerProcess implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #ready = Promise.withResolvers<void>();
  readonly #waiting = new Map<number, PromiseWithResolvers<Record<string, unknown>>>();
  #nextId = 0;
  #isDisposed = false;

  private constructor(script: string, args: readonly string[]) {
    this.#child = new Deno.Command("node", {
      args: [script, ...args],
      cwd: FOLDER,
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    this.#writer = this.#child.stdin.getWriter();
    this.#read().then(() => this.#fail(new Error(`${script} has ended.`)));
  }

  /** Starts a script of `peer/`; returns when its model is loaded. */
  static async start(script: string, args: readonly string[]): Promise<PeerProcess> {
    const process = new PeerProcess(script, args);
    await process.#ready.promise;
    return process;
  }

  /** Starts transformers.js with a model's folder. */
  static async transformers(
    folder: string,
    { task, dtype, device = "cpu", threads }: {
      readonly task: string;
      readonly dtype: string;
      readonly device?: BenchDevice | undefined;
      /** Number of CPU threads; transformers.js's own default if absent. */
      readonly threads?: number | undefined;
    },
  ): Promise<PeerProcess> {
    return await PeerProcess.start("transformers.mjs", [
      dirname(folder),
      basename(folder),
      task,
      dtype,
      device,
      ...threads === undefined ? [] : [String(threads)],
    ]);
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** @throws {Error} with the script's stack trace when it could not answer. */
  async ask(request: object): Promise<Record<string, unknown>> {
    const id = this.#nextId++;
    const answer = Promise.withResolvers<Record<string, unknown>>();
    this.#waiting.set(id, answer);
    await this.#writer.write(new TextEncoder().encode(`${JSON.stringify({ id, ...request })}\n`));
    return await answer.promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    this.#child.kill("SIGKILL");
    await this.#child.status;
    await this.#writer.abort().catch(() => {});
  }

  async #read(): Promise<void> {
    let text = "";
    for await (const chunk of this.#child.stdout.pipeThrough(new TextDecoderStream())) {
      const lines = (text + chunk).split("\n");
      text = lines.pop()!;
      // Skips lines that libraries write.
      for (const line of lines) if (line.startsWith("{")) this.#take(JSON.parse(line));
    }
  }

  #take({ ready, id, error, ...answer }: Record<string, unknown>): void {
    if (ready === true) return this.#ready.resolve();
    const waiting = this.#waiting.get(id as number);
    this.#waiting.delete(id as number);
    if (error === undefined) waiting?.resolve(answer);
    else waiting?.reject(new Error(String(error)));
  }

  #fail(error: Error): void {
    this.#ready.reject(error);
    for (const { reject } of this.#waiting.values()) reject(error);
  }
}
