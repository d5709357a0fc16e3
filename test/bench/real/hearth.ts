/**
 * Runs Hearth in its own process, and sends it HTTP requests.
 *
 * @module
 */
import { HearthProcess } from "../../fixtures/servers/hearth_process.ts";

const POLL_MS = 10;

/** Where the programs run: without a GPU, or on the adapter that WebGPU finds. */
export type BenchDevice = "cpu" | "webgpu";

/** Options for starting Hearth. */
export interface HearthOptions {
  /** The `main.ts` of another checkout, to compare with. */
  readonly main?: string | undefined;
  readonly dtype?: string;
  /** The CPU if absent. */
  readonly device?: BenchDevice;
  /** Number of CPU threads; the program's own default if absent. */
  readonly threads?: number | undefined;
  /** Additional flags. */
  readonly flags?: readonly string[];
}

/** A running server that is ready. */
export class RunningHearth implements AsyncDisposable {
  readonly #process: HearthProcess;
  readonly #url: string;
  readonly #model: string;

  private constructor(
    process: HearthProcess,
    at: { readonly url: string; readonly model: string },
  ) {
    this.#process = process;
    this.#url = at.url;
    this.#model = at.model;
  }

  /** Starts Hearth with a model's folder. */
  static async start(
    folder: string,
    { main, dtype, device = "cpu", threads, flags = [] }: HearthOptions = {},
  ): Promise<RunningHearth> {
    const ofThreads = threads === undefined ? [] : ["--cpu-threads", String(threads)];
    const args = ["-m", folder, "-p", "0", "--device", device, "--log-level", "warn"];
    const process = new HearthProcess(
      [...args, ...ofThreads, ...flags, ...(dtype === undefined ? [] : ["--dtype", dtype])],
      {
        ...(main === undefined ? {} : { main }),
      },
    );
    try {
      const url = await process.url();
      await untilHealthy(process, url);
      const { data } = await (await fetch(`${url}/v1/models`)).json();
      return new RunningHearth(process, { url, model: data[0].id });
    } catch (error) {
      await process[Symbol.asyncDispose]();
      throw error;
    }
  }

  get pid(): number {
    return this.#process.pid;
  }

  /** Posts JSON, or a form, and returns the answer. */
  // deno-lint-ignore no-explicit-any -- each path has its own answer
  async post(path: string, body: object): Promise<any> {
    const response = await this.request(path, body);
    return await response.json();
  }

  /** Posts JSON, or a form. @throws {Error} with the status and the answer if the request fails. */
  async request(path: string, body: object): Promise<Response> {
    const init = body instanceof FormData ? { body } : {
      body: JSON.stringify({ model: this.#model, ...body }),
      headers: { "content-type": "application/json" },
    };
    const response = await fetch(`${this.#url}${path}`, { method: "POST", ...init });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process[Symbol.asyncDispose]();
  }
}

/** @throws {Error} with the process's log when it ends, or cannot load the model. */
async function untilHealthy(process: HearthProcess, url: string): Promise<void> {
  let hasEnded = false;
  process.ending.then(() => hasEnded = true);
  while (!hasEnded) {
    const answer = await fetch(`${url}/health`).catch(() => undefined);
    const text = await answer?.text();
    if (answer?.ok) return;
    if (text?.includes("failed")) break;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  throw new Error(`Hearth did not become ready:\n${process.stderr}`);
}
