/**
 * The process of a server: its log, API keys, port, process-id file, and the signals to stop.
 *
 * @module
 */
import type { ListenSettings } from "../base/config.ts";
import { StartupError } from "../base/errors.ts";
import { endProcess } from "../base/libc.ts";
import { configureLog, log } from "../base/log.ts";
import { isLoopback } from "../server/http/locality.ts";
import type { RunningServer } from "../server/http/server.ts";
import type { FlagTable, FlagValues } from "./command.ts";
import { defaultBodyBytes, readApiKeys, readMemoryLimit } from "./flag_values.ts";
import type { SERVE_FLAGS } from "./flags.ts";
import { warnOfServiceLinks } from "./parse.ts";
import { explainListenError, formatUrl, freePidFilePath, PidFile } from "./running.ts";
import { onStopSignal } from "./stop_signals.ts";

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

/** What `serve` and `router` have in common. */
export class ServerProcess {
  readonly settings: ListenSettings;
  /** What all request bodies may hold together. */
  readonly bodyBytes: number;
  /** As it was at the start: the folder of process-id files depends on a variable that `quietenVulkan` sets. */
  readonly #environment = Deno.env.toObject();
  readonly #stopRequest = Promise.withResolvers<void>();
  #server: RunningServer | undefined;
  #pidFile: PidFile | undefined;

  /**
   * Configures the log and reads the keys. A first signal requests the stop and a second one ends the process, from
   * now on: an unhandled one would leave the process-id file behind.
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
      ? defaultBodyBytes(readMemoryLimit())
      : flags.bodyMemoryMb * 2 ** 20;
  }

  /** Asks the server to stop. */
  readonly requestStop = (): void => this.#stopRequest.resolve();

  /** @param onHangup called at SIGHUP if that does not mean that the terminal closed. */
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
    const { host } = this.settings;
    try {
      this.#server = start();
    } catch (error) {
      throw new StartupError(await explainListenError(error, this.settings), { cause: error });
    }
    const { port } = this.#server.address;
    const startedAt = new Date().toISOString();
    const record = { pid: Deno.pid, model, host, port, startedAt };
    this.#pidFile = PidFile.write(record, freePidFilePath(record, this.#environment));
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
