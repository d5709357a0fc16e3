/**
 * `serve`: opens the port, loads the model in the background, and serves until asked to stop.
 *
 * @module
 */
import { ANY_NAME } from "../wire/endpoints.ts";
import type { ApiKey, LogSettings, ResolvedModel, ServerSettings } from "../base/config.ts";
import { endProcess } from "../base/end_process.ts";
import { StartupError, startupMessage } from "../base/errors.ts";
import {
  defaultBodyBytes,
  findCompanions,
  findFfmpeg,
  findFolder,
  readApiKeys,
  readMemoryLimit,
} from "./flag_values.ts";
import { isLoopback } from "../server/http/locality.ts";
import { HubError, NoGraphsError } from "../hub/answer.ts";
import { DEFAULT_MODEL } from "../hub/catalogue.ts";
import { requireModelFolder } from "../hub/model_folder.ts";
import { nameModel, resolveModel } from "../hub/resolve.ts";
import { readHubSettings } from "../hub/settings.ts";
import { configureLog, log } from "../base/log.ts";
import { Session } from "../server/session/session.ts";
import type { SessionState } from "../server/session/session_state.ts";
import type { LoadProgress } from "../models/model.ts";
import { getModel, ProgressLine, quietenVulkan, SparseLines } from "./loading.ts";
import { SETTING_FLAGS } from "./shared_flags.ts";
import type { FlagValues } from "./command.ts";
import { SERVE_FLAGS } from "./flags.ts";
import { formatUrl, freePidFilePath, PidFile } from "./running.ts";
import { RouterLink, StartReport } from "./start_report.ts";
import { warnOfServiceLinks } from "./parse.ts";
import { onStopSignal } from "./stop_signals.ts";

/** Longest wait for the last spans to be exported. */
const LAST_SPANS_MS = 1_000;

type ServeFlags = FlagValues<typeof SERVE_FLAGS>;

/**
 * Serves until SIGINT, SIGTERM, SIGHUP or an accepted `POST /shutdown`. A second signal ends the process at once.
 *
 * @param spawnWorker starts the thread that owns the device.
 * @returns the exit code, after the server has stopped.
 * @throws {StartupError} when there is no such model, the hub refuses it, or the address is not available.
 */
export async function serve(flags: ServeFlags, spawnWorker?: () => Worker): Promise<number> {
  configureLog(toLogSettings(flags));
  warnOfServiceLinks(SERVE_FLAGS, Deno.env.toObject());
  const stopRequest = Promise.withResolvers<void>();
  const link = RouterLink.find();
  link?.onEnd(stopRequest.resolve);
  let pidFile: PidFile | undefined = undefined;
  // From the start, because an unhandled signal would leave the process-id file behind.
  const keys = { current: readApiKeys(flags) };
  stopOnSignal({
    requestStop: stopRequest.resolve,
    removePidFile: () => pidFile?.remove(),
    onHangup: flags.apiKeyFile === undefined ? undefined : () => readKeysAgain(flags, keys),
  });
  const model = await requireModel(flags);
  const settings = await readSettings(flags, keys);
  let refusal: StartupError | undefined;
  const onRefused = (error: StartupError) => {
    refusal = error;
    link?.report({ type: "failed", reason: error.message });
    session.drain();
    stopRequest.resolve();
  };
  const session = await makeSession(flags, { model, spawnWorker, onRefused });
  // The folder of process-id files depends on the variable that this sets.
  const environment = Deno.env.toObject();
  quietenVulkan();
  // The model loads on a thread of its own, while this thread imports the HTTP server and opens the port.
  session.start();
  const { listen } = await import("./listen.ts");
  const { server, spans } = await listen({
    settings,
    session,
    requestShutdown: stopRequest.resolve,
    bodyBytes: flags.bodyMemoryMb === undefined
      ? defaultBodyBytes(readMemoryLimit())
      : flags.bodyMemoryMb * 2 ** 20,
  });
  const { port } = server.address;
  const startedAt = new Date().toISOString();
  const served = { pid: Deno.pid, model: model.id, host: settings.host, port, startedAt };
  pidFile = PidFile.write(served, freePidFilePath(served, environment));
  const url = formatUrl(settings.host, port);
  // Under a router, standard output carries the messages for the router, so the report goes to the log.
  const report = new StartReport({ format: link === undefined ? flags.logFormat : "json", url });
  report.listening(model, { isNamed: flags.model !== undefined });
  warnOfOpenDoor(settings);
  reportStates(session, report, new ProgressLine(`Loading ${model.id}`));
  link?.report({ type: "listening", port });
  link?.follow(session, stopRequest.resolve);

  await stopRequest.promise;
  await server.stop();
  await Promise.race([
    spans?.flush(),
    new Promise((resolve) => setTimeout(resolve, LAST_SPANS_MS)),
  ]);
  pidFile.remove();
  if (refusal !== undefined) throw refusal;
  return 0;
}

function toLogSettings({ logLevel, logFormat }: ServeFlags): LogSettings {
  return { level: logLevel, format: logFormat };
}

/** Whether it is of no use to wait and ask the hub again. */
function isFinal(error: unknown): boolean {
  return error instanceof NoGraphsError || error instanceof HubError && !error.isTransient;
}

/**
 * Creates the session that loads the model. The model is looked up, and downloaded if needed, once the session starts.
 */
async function makeSession(
  flags: ServeFlags,
  { model, spawnWorker, onRefused }: {
    readonly model: Awaited<ReturnType<typeof requireModel>>;
    readonly spawnWorker: (() => Worker) | undefined;
    /** Called when the hub has no such model, refuses it to this user, or has no graphs for it. */
    readonly onRefused: (error: StartupError) => void;
  },
): Promise<Session> {
  const { device, cpuRuntime, dtype, kind, offline, maxQueue } = flags;
  const { kvCacheMb, maxBatchTokens, maxSequences, cpuThreads, prefixCache } = flags;
  const maxImagePixels = flags.maxImageMegapixels * 1e6;
  const engine = {
    kvCacheMb,
    kvCacheDtype: flags.kvCacheDtype,
    maxModelLength: flags.maxModelLen,
    maxBatchTokens,
    maxSequences,
    cpuThreads,
    prefixCache,
    batchInvariant: flags.batchInvariant,
    maxImagePixels,
    maxPdfPages: flags.maxPdfPages,
    ffmpeg: await findFfmpeg(flags.ffmpeg),
  };
  const choices = { device, dtype, kind };
  const companions = await findCompanions(flags);
  const otherNames = [...flags.modelAlias, ...flags.anyModel ? [ANY_NAME] : []];
  return new Session({
    load: async (options) => {
      const get = () => getModel(model, { ...choices, offline, ...options });
      const found = "hubId" in model ? await getFromHub(get, { ...options, onRefused }) : model;
      return {
        ...choices,
        ...companions,
        model: { ...found, aliases: [...found.aliases, ...otherNames] },
        cpuRuntime,
        engine,
        log: toLogSettings(flags),
        settingNames: SETTING_FLAGS,
      };
    },
    maxQueue,
    workerTimeoutSeconds: flags.workerTimeout,
    ...(spawnWorker && { spawnWorker }),
    exitsAfterStop: true,
  });
}

/**
 * Gets a model of the hub, as soon as there is space for it.
 *
 * @param options.onRefused called where asking again does not help.
 * @throws {StartupError} when it cannot be had.
 */
async function getFromHub(
  get: () => Promise<ResolvedModel>,
  { onProgress, onRefused, signal }: {
    readonly onProgress: (progress: LoadProgress) => void;
    readonly onRefused: (error: StartupError) => void;
    readonly signal: AbortSignal;
  },
): Promise<ResolvedModel> {
  // Imported late: models on this machine start faster without it.
  const { waitForSpace } = await import("../hub/download.ts");
  const onFull = (reason: string) => {
    log.error("no space for the download; it is tried again every 30 s", { reason });
    onProgress({ what: `waiting for disk space. ${reason}` });
  };
  return await waitForSpace(get, { onFull, signal }).catch((cause) => {
    const error = new StartupError(startupMessage(cause, SETTING_FLAGS), { cause });
    if (isFinal(cause)) onRefused(error);
    throw error;
  });
}

/**
 * Resolves the model to serve, and fails early if it certainly cannot be served.
 *
 * @throws {StartupError} when there is no such model, its folder holds none, or it would have to be downloaded while
 * offline.
 */
async function requireModel({ model: name = DEFAULT_MODEL, offline }: ServeFlags) {
  const model = await nameModel(name, undefined, { asksHub: !offline });
  if (!("hubId" in model)) await requireModelFolder(model.folder);
  else if (readHubSettings(undefined, { offline }).isOffline) await requireCached(name);
  return model;
}

async function requireCached(name: string): Promise<void> {
  try {
    await resolveModel(name);
  } catch (error) {
    if (!(error instanceof StartupError)) throw error;
    const why = "The server is offline (--offline, HF_HUB_OFFLINE) and cannot download it.";
    throw new StartupError(`${error.message}\n${why}`);
  }
}

/** API keys that may be replaced while the server runs. */
export interface KeyRing {
  current: readonly ApiKey[];
}

/** Reads the keys again. If they cannot be read, the old ones stay valid. */
export function readKeysAgain(
  flags: Pick<ServeFlags, "apiKey" | "apiKeyFile">,
  keys: KeyRing,
): void {
  try {
    keys.current = readApiKeys(flags);
    log.info("the API keys were read again", { numKeys: keys.current.length });
  } catch (error) {
    const reason = (error as Error).message;
    log.error("the API keys cannot be read again; the old ones stay valid", { reason });
  }
}

async function readSettings(flags: ServeFlags, keys: KeyRing): Promise<ServerSettings> {
  const { address, port, allowRemoteShutdown, allowPrivateMedia } = flags;
  return {
    // Only in a URL does an IPv6 address have brackets.
    host: address.replace(/^\[(.*)\]$/, "$1"),
    port,
    allowRemoteShutdown,
    allowedHosts: flags.allowedHost,
    corsOrigins: flags.corsOrigin,
    get apiKeys() {
      return keys.current;
    },
    trustedProxies: flags.trustedProxy,
    mediaDir: await findFolder("--media-dir", flags.mediaDir),
    allowPrivateMedia,
    reasoningField: flags.reasoningField,
    ui: flags.ui,
    maxStoredResponses: flags.maxStoredResponses,
    storedResponsesBytes: flags.storedResponsesMb * 2 ** 20,
    drainSeconds: flags.drainSeconds,
    maxConnections: flags.maxConnections,
  };
}

/** Requests a stop at the first signal, and ends the process at the second. */
export function stopOnSignal({ requestStop, removePidFile, onHangup }: {
  readonly requestStop: () => void;
  readonly removePidFile: () => void;
  /** Called at SIGHUP if that does not mean that the terminal closed. */
  readonly onHangup: (() => void) | undefined;
}): void {
  let isStopping = false;
  onStopSignal((signal, exitCode) => {
    if (isStopping) {
      removePidFile();
      endProcess(exitCode);
    }
    isStopping = true;
    log.info("stopping; a second signal ends the server at once", { signal });
    requestStop();
  }, { onHangup });
}

/** Warns if other machines can call the server without a key. */
export function warnOfOpenDoor(
  { host, apiKeys }: Pick<ServerSettings, "host" | "apiKeys">,
): void {
  if (isLoopback(host) || apiKeys.length > 0) return;
  log.warn("other machines can call this server, and no --api-key is set", { address: host });
}

function reportStates(session: Session, report: StartReport, progressLine: ProgressLine): void {
  const lines = new SparseLines(({ what, fraction, detail }: LoadProgress) => {
    log.info(what, { share: `${Math.floor((fraction ?? 0) * 100)}%`, detail });
  });
  const show = (state: SessionState) => {
    if (state.phase !== "loading") progressLine.clear();
    if (state.phase === "loading") {
      const progress = state.progress ?? { what: "starting" };
      progressLine.show(progress);
      // Without a terminal, only downloads take long enough to be reported.
      if (progress.detail !== undefined && !Deno.stderr.isTerminal()) lines.show(progress);
    }
    if (state.phase === "failed") report.failed(state.reason);
    if (state.phase === "ready") report.ready(state.info, performance.now());
  };
  show(session.state);
  session.onStateChange(show);
}
