/**
 * `serve`: opens the port, loads the model in the background, and serves until asked to stop.
 *
 * @module
 */
import {
  ANY_NAME,
  type ListenSettings,
  type LogSettings,
  type ResolvedModel,
  type ServerSettings,
} from "../base/config.ts";
import { formatRefusal, StartupError } from "../base/errors.ts";
import { within } from "../base/timing.ts";
import { findCompanions, findFfmpeg, findFolder } from "./flag_values.ts";
import { HubError, NoGraphsError } from "../hub/hub_request.ts";
import { DEFAULT_MODEL } from "../hub/catalogue.ts";
import { requireModelFolder } from "../hub/model_folder.ts";
import { nameModel, resolveModel } from "../hub/resolve.ts";
import { readHubSettings } from "../hub/cache.ts";
import { log } from "../base/log.ts";
import { Session } from "../server/session/session.ts";
import type { LoadProgress } from "../models/model.ts";
import type { SessionState } from "../server/session/supervisor.ts";
import { getModel, ProgressLine, quietenVulkan, SparseLines } from "./loading.ts";
import { SETTING_FLAGS } from "./shared_flags.ts";
import type { FlagValues } from "./command.ts";
import { SERVE_FLAGS } from "./flags.ts";
import { RouterLink, ServerProcess, StartReport } from "./server_process.ts";

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
  const server = new ServerProcess(SERVE_FLAGS, flags);
  const link = RouterLink.find();
  link?.onEnd(server.requestStop);
  const model = await requireModel(flags);
  const settings = await readSettings(flags, server.settings);
  let refusal: StartupError | undefined;
  const onRefused = (error: StartupError) => {
    refusal = error;
    link?.report({ type: "failed", reason: error.message });
    session.drain();
    server.requestStop();
  };
  const session = await makeSession(flags, { model, spawnWorker, onRefused });
  quietenVulkan();
  // The model loads on a thread of its own, while this thread imports the HTTP server and opens the port.
  session.start();
  const [{ startServer }, { limitBodies }, { OtlpExporter }] = await Promise.all([
    import("../server/http/server.ts"),
    import("../server/http/body/body.ts"),
    import("../server/http/spans.ts"),
  ]);
  const bodyLimits = limitBodies(server.bodyBytes);
  const spans = OtlpExporter.fromEnvironment((name) => Deno.env.get(name));
  const requestShutdown = server.requestStop;
  const deps = { settings, session, requestShutdown, bodyLimits, spans };
  const { url, port } = await server.open(() => startServer(deps), model.id).catch(
    async (error) => {
      await session.stop();
      throw error;
    },
  );
  // Under a router, standard output carries the messages for the router, so the report goes to the log.
  const report = new StartReport({ format: link === undefined ? flags.logFormat : "json", url });
  report.listening(model, { isNamed: flags.model !== undefined });
  server.warnOfOpenDoor();
  reportStates(session, report, new ProgressLine(`Loading ${model.id}`));
  link?.report({ type: "listening", port });
  link?.follow(session, server.requestStop);

  await server.serve(() => spans === undefined ? undefined : within(spans.flush(), LAST_SPANS_MS));
  if (refusal !== undefined) throw refusal;
  return 0;
}

function toLogSettings({ logLevel, logFormat }: ServeFlags): LogSettings {
  return { level: logLevel, format: logFormat };
}

/** Whether asking the hub again later cannot help. */
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
 * @param options.onRefused called if asking again later cannot help.
 * @throws {StartupError} when the model cannot be found or downloaded.
 */
async function getFromHub(
  get: () => Promise<ResolvedModel>,
  { onProgress, onRefused, signal }: {
    readonly onProgress: (progress: LoadProgress) => void;
    readonly onRefused: (error: StartupError) => void;
    readonly signal: AbortSignal;
  },
): Promise<ResolvedModel> {
  // Imported on demand: models on this machine start faster without it.
  const { waitForSpace } = await import("../hub/download.ts");
  const onFull = (reason: string) => {
    log.error("no space for the download; it is tried again every 30 s", { reason });
    onProgress({ what: `waiting for disk space. ${reason}` });
  };
  return await waitForSpace(get, { onFull, signal }).catch((cause) => {
    const error = new StartupError(formatRefusal(cause, SETTING_FLAGS), { cause });
    if (isFinal(cause)) onRefused(error);
    throw error;
  });
}

/**
 * Resolves the model to serve, and fails early if it certainly cannot be served.
 *
 * @throws {StartupError} when there is no such model, its folder holds no model, or it would have to be downloaded
 * while offline.
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

async function readSettings(flags: ServeFlags, shared: ListenSettings): Promise<ServerSettings> {
  return {
    ...shared,
    get apiKeys() {
      return shared.apiKeys;
    },
    mediaDir: await findFolder("--media-dir", flags.mediaDir),
    allowPrivateMedia: flags.allowPrivateMedia,
    reasoningField: flags.reasoningField,
    maxStoredResponses: flags.maxStoredResponses,
    storedResponsesBytes: flags.storedResponsesMb * 2 ** 20,
  };
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
