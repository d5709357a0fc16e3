/**
 * `router`: serves several models behind one address, each in a process of its own that starts when the model is
 * requested.
 *
 * @module
 */
import type { ListenSettings } from "../base/config.ts";
import { StartupError } from "../base/errors.ts";
import { BODY_LIMITS } from "../server/http/body/body.ts";
import { BodyBudget } from "../server/http/body/body_memory.ts";
import type { RunningServer } from "../server/http/server.ts";
import { configureLog, log } from "../base/log.ts";
import { startModelProcess } from "../router/model_process.ts";
import { ModelPool } from "../router/model_pool.ts";
import type { RoutedModel } from "../router/routed_model.ts";
import { startRouter } from "../router/router_server.ts";
import { VERSION } from "../base/version.ts";
import { defaultBodyBytes, readApiKeys, readMemoryLimit } from "./flag_values.ts";
import type { FlagValues } from "./command.ts";
import { ROUTER_FLAGS } from "./flags.ts";
import { formatUrl, PidFile } from "./running.ts";
import { printMessage } from "./print.ts";
import { readRoutedModels } from "./routed_models.ts";
import { warnOfServiceLinks } from "./parse.ts";
import { explainListenError } from "./listen.ts";
import { type KeyRing, readKeysAgain, stopOnSignal, warnOfOpenDoor } from "./serve.ts";

/** Time beyond the grace period before a process is killed, since freeing a device may take a while. */
const MAX_STOP_MS = 10_000;

type RouterFlags = FlagValues<typeof ROUTER_FLAGS>;

/**
 * Serves until SIGINT, SIGTERM, SIGHUP or an accepted `POST /shutdown`, then ends the processes of all models.
 *
 * @returns the exit code.
 * @throws {StartupError} when there is no such model, or the address is not available.
 */
export async function router(flags: RouterFlags): Promise<number> {
  const { logLevel: level, logFormat: format } = flags;
  configureLog({ level, format });
  warnOfServiceLinks(ROUTER_FLAGS, Deno.env.toObject());
  const stopRequest = Promise.withResolvers<void>();
  let pidFile: PidFile | undefined = undefined;
  const keys = { current: readApiKeys(flags) };
  stopOnSignal({
    requestStop: stopRequest.resolve,
    removePidFile: () => pidFile?.remove(),
    onHangup: flags.apiKeyFile === undefined ? undefined : () => readKeysAgain(flags, keys),
  });
  const models = await readRoutedModels(flags);
  const settings = readSettings(flags, keys);
  const pool = new ModelPool({
    models,
    maxLoaded: flags.maxLoaded,
    maxBytes: flags.maxMemoryMb === undefined ? Infinity : flags.maxMemoryMb * 2 ** 20,
    idleMs: flags.idleTimeout && flags.idleTimeout * 1000,
    start: (model) => startModelProcess(model, { ...findProgram(), maxStopMs: stopMs(flags) }),
  });
  const bodyBytes = flags.bodyMemoryMb === undefined
    ? defaultBodyBytes(readMemoryLimit())
    : flags.bodyMemoryMb * 2 ** 20;
  const bodyLimits = { ...BODY_LIMITS, budget: new BodyBudget(bodyBytes) };
  const deps = { settings, pool, bodyLimits, requestShutdown: stopRequest.resolve };
  const server = await listen(deps);
  const { port } = server.address;
  pidFile = PidFile.write({
    pid: Deno.pid,
    model: models.map(({ id }) => id).join(","),
    host: settings.host,
    port,
    startedAt: new Date().toISOString(),
  });
  report(models, { format, url: formatUrl(settings.host, port) });
  warnOfOpenDoor(settings);
  await stopRequest.promise;
  await server.stop();
  pidFile.remove();
  return 0;
}

function stopMs({ drainSeconds }: RouterFlags): number {
  return drainSeconds * 1000 + MAX_STOP_MS;
}

/**
 * Returns the command line and environment with which this program is run again. Flags that came from `HEARTH_…` are
 * passed as arguments.
 */
function findProgram(): { program: string[]; environment: Record<string, string> } {
  const program = Deno.build.standalone
    ? [Deno.execPath()]
    : [Deno.execPath(), "run", "-A", "--no-check", Deno.mainModule];
  const others = Object.entries(Deno.env.toObject()).filter(([name]) =>
    !name.startsWith("HEARTH_")
  );
  return { program, environment: Object.fromEntries(others) };
}

function readSettings(flags: RouterFlags, keys: KeyRing): ListenSettings {
  return {
    // Only in a URL does an IPv6 address have brackets.
    host: flags.address.replace(/^\[(.*)\]$/, "$1"),
    port: flags.port,
    allowRemoteShutdown: flags.allowRemoteShutdown,
    allowedHosts: flags.allowedHost,
    corsOrigins: flags.corsOrigin,
    get apiKeys() {
      return keys.current;
    },
    trustedProxies: flags.trustedProxy,
    drainSeconds: flags.drainSeconds,
    ui: flags.ui,
    maxConnections: flags.maxConnections,
  };
}

async function listen(deps: Parameters<typeof startRouter>[0]): Promise<RunningServer> {
  try {
    return startRouter(deps);
  } catch (error) {
    throw new StartupError(await explainListenError(error, deps.settings), { cause: error });
  }
}

function report(
  models: readonly RoutedModel[],
  { format, url }: { readonly format: RouterFlags["logFormat"]; readonly url: string },
): void {
  const ids = models.map(({ id }) => id);
  if (format === "json") return log.info("listening", { version: VERSION, url, models: ids });
  printMessage(`Hearth ${VERSION} listens at ${url} and routes to ${ids.join(", ")}.`);
}
