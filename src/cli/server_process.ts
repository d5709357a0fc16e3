/**
 * The process of a server: its log, API keys, port, process-id file, and the signals to stop. Also reports the start of
 * the server: on standard output, in the log with `--log-format json`, or to the router that started the server.
 *
 * @module
 */
import {
  type ListenSettings,
  type LogFormat,
  PROGRAM,
  type ResolvedModel,
  ROUTER_VARIABLE,
  VERSION,
} from "../base/config.ts";
import { StartupError } from "../base/errors.ts";
import { endProcess } from "../base/memory.ts";
import { configureLog, log, stderrQueue } from "../base/log.ts";
import { isLoopback } from "../server/http/locality.ts";
import type { RunningServer } from "../server/http/server.ts";
import type { FlagTable, FlagValues } from "./command.ts";
import { chooseBodyBytes, readApiKeys } from "./flag_values.ts";
import { readMemoryLimit } from "../base/memory_limit.ts";
import type { SERVE_FLAGS } from "./flags.ts";
import { warnOfServiceLinks } from "./parse.ts";
import { explainListenError, findPidFilePath, formatUrl, PidFile } from "./running.ts";
import { onStopSignal } from "./stop_signals.ts";
import { DEFAULT_MODEL } from "../hub/catalogue.ts";
import type { ModelInfo } from "../worker/protocol.ts";
import { printMessage } from "./print.ts";
import type { ChildReport } from "../router/routed_model.ts";
import type { Session } from "../server/session/session.ts";

/** Flags of every server. */
type ServerFlags = Pick<
  FlagValues<typeof SERVE_FLAGS>,
  | "address"
  | "port"
  | "allowRemoteShutdown"
  | "allowedHost"
  | "corsOrigin"
  | "apiKey"
  | "apiKeyFile"
  | "trustedProxy"
  | "drainSeconds"
  | "maxConnections"
  | "bodyMemoryMb"
  | "ui"
  | "logLevel"
  | "logFormat"
>;

/** The parts of a server's process that `serve` and `router` have in common. */
export class ServerProcess {
  readonly settings: ListenSettings;
  /** Maximum number of bytes that all request bodies together may take in memory. */
  readonly bodyBytes: number;
  /** The environment before `quietenVulkan` sets a variable that would change the folder of process-id files. */
  readonly #environment = Deno.env.toObject();
  readonly #stopRequest = Promise.withResolvers<void>();
  #server: RunningServer | undefined;
  #pidFile: PidFile | undefined;

  /**
   * Configures the log and reads the keys. From now on, a first signal requests the stop, and a second one ends the
   * process after removing the process-id file, which an unhandled signal would leave behind.
   *
   * @throws {StartupError} when the keys cannot be read.
   */
  constructor(table: FlagTable, flags: ServerFlags) {
    configureLog({ level: flags.logLevel, format: flags.logFormat });
    warnOfServiceLinks(table, this.#environment);
    let apiKeys = readApiKeys(flags);
    // If the keys cannot be read again, the old ones stay valid.
    const readKeysAgain = () => {
      try {
        apiKeys = readApiKeys(flags);
        log.info("the API keys were read again", { numKeys: apiKeys.length });
      } catch (error) {
        const reason = (error as Error).message;
        log.error("the API keys cannot be read again; the old ones stay valid", { reason });
      }
    };
    this.#stopOnSignal(flags.apiKeyFile === undefined ? undefined : readKeysAgain);
    this.settings = {
      // Only in a URL does an IPv6 address have brackets.
      host: flags.address.replace(/^\[(.*)\]$/, "$1"),
      port: flags.port,
      allowRemoteShutdown: flags.allowRemoteShutdown,
      allowedHosts: flags.allowedHost,
      corsOrigins: flags.corsOrigin,
      get apiKeys() {
        return apiKeys;
      },
      trustedProxies: flags.trustedProxy,
      drainSeconds: flags.drainSeconds,
      maxConnections: flags.maxConnections,
      ui: flags.ui,
    };
    this.bodyBytes = flags.bodyMemoryMb === undefined
      ? chooseBodyBytes(readMemoryLimit())
      : flags.bodyMemoryMb * 2 ** 20;
  }

  readonly requestStop = (): void => this.#stopRequest.resolve();

  /** @param onHangup called at SIGHUP in a process without a terminal. */
  #stopOnSignal(onHangup: (() => void) | undefined): void {
    let isStopping = false;
    onStopSignal((signal, exitCode) => {
      if (isStopping) {
        this.#pidFile?.remove();
        endProcess(exitCode);
      }
      isStopping = true;
      log.info("stopping; a second signal ends the server at once", { signal });
      this.requestStop();
    }, { onHangup });
  }

  /**
   * Starts the server and writes its process-id file.
   *
   * @throws {StartupError} when the address is not available.
   */
  async open(start: () => RunningServer, model: string): Promise<{ url: string; port: number }> {
    const { host, drainSeconds } = this.settings;
    try {
      this.#server = start();
    } catch (error) {
      throw new StartupError(await explainListenError(error, this.settings), { cause: error });
    }
    const { port } = this.#server.address;
    const startedAt = new Date().toISOString();
    const record = { pid: Deno.pid, model, host, port, startedAt, drainSeconds };
    this.#pidFile = PidFile.write(record, findPidFilePath(record, this.#environment));
    return { url: formatUrl(host, port), port };
  }

  /** Warns if other machines can call the server without a key. */
  warnOfOpenDoor(): void {
    const { host, apiKeys } = this.settings;
    if (isLoopback(host) || apiKeys.length > 0) return;
    log.warn("other machines can call this server, and no --api-key is set", { address: host });
  }

  /** Serves until the stop is requested and the requests in progress have ended; then calls `finish`. */
  async serve(finish?: () => Promise<unknown> | undefined): Promise<void> {
    await this.#stopRequest.promise;
    await this.#server?.stop();
    await finish?.();
    this.#pidFile?.remove();
  }
}

/** Reports the start of one server. */
export class StartReport {
  readonly #format: LogFormat;
  readonly #url: string;
  #wasReady = false;

  constructor(options: { format: LogFormat; url: string }) {
    this.#format = options.format;
    this.#url = options.url;
  }

  /** Reports that the port is open. `isNamed` tells whether the user named the model. */
  listening(model: Pick<ResolvedModel, "id">, { isNamed }: { isNamed: boolean }): void {
    if (this.#format === "json") {
      log.info("listening", { version: VERSION, url: this.#url, model: model.id });
      return;
    }
    printMessage(`Hearth ${VERSION} listens at ${this.#url} and is loading ${model.id}.`);
    if (isNamed) return;
    printMessage(
      `No model was named, so the server uses the built-in ${DEFAULT_MODEL}, a toy to try Hearth with. ` +
        `A real one: ${PROGRAM} -m qwen3-0.6b`,
    );
  }

  /** Reports that the model cannot be loaded. The log has a line about it already; this line says what to do. */
  failed(reason: string): void {
    if (this.#format === "json") return;
    const end = /[.!?)]$/.test(reason) ? "" : ".";
    stderrQueue.push(
      `hearth: ${reason}${end} The server stays up and answers with 503. Stop it with Ctrl-C, and start it ` +
        "again once the problem is fixed.\n",
    );
  }

  /** Reports that the model is ready, `elapsedMs` after the process began, or ready again after its device was lost. */
  ready(info: ModelInfo, elapsedMs: number): void {
    if (this.#wasReady) return log.info("the model is ready again", { model: info.id });
    this.#wasReady = true;
    const seconds = Number((elapsedMs / 1000).toFixed(2));
    if (this.#format === "json") {
      const { id: model, kind, dtype, backend, adapter, contextLength, maxModelLength } = info;
      const loaded = { model, kind, dtype, backend, adapter, contextLength, maxModelLength };
      return log.info("ready", { ...loaded, url: this.#url, secondsToReady: seconds });
    }
    const rows = [
      ["model", info.id],
      ["kind", info.kind],
      ["dtype", info.dtype],
      ["adapter", `${info.backend}, ${info.adapter}`],
      ...(info.contextLength === undefined ? [] : [["context", describeContext(info)]]),
      ["address", this.#url],
      ["ready in", `${seconds} s`],
    ];
    for (const [name = "", value] of rows) printMessage(`  ${name.padEnd(9)}${value}`);
  }
}

/** Describes the context length that is served, and the model's own if that is longer. */
function describeContext({ contextLength, maxModelLength = contextLength }: ModelInfo): string {
  const isShorter = maxModelLength! < contextLength!;
  return `${maxModelLength} tokens${isShorter ? ` of the model's ${contextLength}` : ""}`;
}

/** Tells the router about the model's state, and learns from the router when to stop. */
export class RouterLink {
  private constructor() {}

  /** Returns `undefined` for a server that was not started by a router. */
  static find(): RouterLink | undefined {
    return Deno.env.get(ROUTER_VARIABLE) === undefined ? undefined : new RouterLink();
  }

  /** Calls `listener` when the router closes its end of standard input, or is killed. */
  onEnd(listener: () => void): void {
    Deno.stdin.readable.pipeTo(new WritableStream()).then(listener, listener);
  }

  report(report: ChildReport): void {
    printMessage(JSON.stringify(report));
  }

  /** Reports when the model is ready. If it cannot be loaded, at first or again, reports why and calls `onFailed`. */
  follow(session: Session, onFailed: () => void): void {
    const look = () => {
      const { state } = session;
      if (state.phase === "ready") {
        const { kind, contextLength, maxModelLength = contextLength } = state.info;
        this.report({ type: "ready", kind, contextLength: maxModelLength });
      }
      if (state.phase !== "failed") return;
      this.report({ type: "failed", reason: state.reason });
      onFailed();
    };
    session.onStateChange(look);
    look();
  }
}
