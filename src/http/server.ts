/**
 * The app on a port.
 *
 * @module
 */
import { createApp } from "./app.ts";
import { limitConnections, newConnectionFigures } from "./connections.ts";
import { Listener } from "./listener.ts";
import { type App, bridge } from "./node_bridge.ts";
import type { AppDeps } from "./route.ts";

const LAST_WRITES_MS = 1000;

const LISTEN_ERRORS: Readonly<Record<string, new (message: string) => Error>> = {
  EADDRINUSE: Deno.errors.AddrInUse,
  EADDRNOTAVAIL: Deno.errors.AddrNotAvailable,
  EACCES: Deno.errors.PermissionDenied,
};

/** A server that listens. */
export interface RunningServer {
  /** Where it listens; the port is the real one when 0 was asked for. */
  readonly address: { readonly hostname: string; readonly port: number };
  /**
   * Ends it: takes no new connections, gives the requests in flight their time, ends what is left of them with
   * an error, and ends the session. Calling it again waits for the same end.
   */
  stop(): Promise<void>;
}

/**
 * Listens at `deps.settings.host` and `port`. The session is the caller's to start.
 *
 * @throws {Deno.errors.AddrInUse} when the port is taken; `AddrNotAvailable` or `PermissionDenied` when the address
 *   cannot be had.
 */
export async function startServer(deps: AppDeps): Promise<RunningServer> {
  const { settings, session } = deps;
  const inFlight = new Set<Promise<void>>();
  const figures = newConnectionFigures();
  const app = createApp({ ...deps, connections: figures });
  const listener = new Listener({
    host: settings.host,
    port: settings.port,
    ...limitConnections(settings.maxConnections),
    figures,
    handler: bridge(countInFlight(app, inFlight)),
  });
  await listener.open().catch(throwListenError);
  const { address: hostname, port } = listener.address;

  let stopping: Promise<void> | undefined;
  const stop = async () => {
    session.drain();
    const { drainSeconds } = settings;
    // Who has given more time has a proxy in front, which is to be told to ask elsewhere.
    const closedAtOnce = drainSeconds > 1 ? undefined : listener.close();
    await settledWithin(Promise.all(inFlight), drainSeconds * 1000);
    const closed = closedAtOnce ?? listener.close();
    await session.stop();
    // What the end of the session wrote to open streams still has to leave.
    await settledWithin(Promise.all(inFlight), LAST_WRITES_MS);
    listener.closeAllConnections();
    await closed;
  };
  return { address: { hostname, port }, stop: () => stopping ??= stop() };
}

function countInFlight(app: App, inFlight: Set<Promise<void>>): App {
  return (request, exchange) => {
    const { completed } = exchange;
    inFlight.add(completed);
    completed.then(() => inFlight.delete(completed));
    return app(request, exchange);
  };
}

function throwListenError(error: Error & { code?: string }): never {
  const Known = LISTEN_ERRORS[error.code ?? ""];
  throw Known === undefined ? error : new Known(error.message);
}

async function settledWithin(work: Promise<unknown>, timeoutMs: number): Promise<void> {
  const timeout = Promise.withResolvers<void>();
  const timer = setTimeout(timeout.resolve, timeoutMs);
  await Promise.race([work, timeout.promise]);
  clearTimeout(timer);
}
