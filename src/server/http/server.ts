/**
 * Serves the app on a port.
 *
 * @module
 */
import { createApp } from "./app.ts";
import { limitConnections, newConnectionFigures } from "./connection/connections.ts";
import { Listener } from "./connection/listener.ts";
import { type App, bridge } from "./connection/node_bridge.ts";
import { bridgeUpgrades } from "./connection/upgrades.ts";
import type { AppDeps } from "./route.ts";

const LAST_WRITES_MS = 1000;

/** A server that is listening. */
export interface RunningServer {
  /** Address it listens on, with the real port if 0 was requested. */
  readonly address: { readonly hostname: string; readonly port: number };
  /**
   * Stops the server: accepts no new connections, waits for requests in progress up to the grace period, ends the rest
   * with an error, then ends the session. Further calls wait for the same end.
   */
  stop(): Promise<void>;
}

/**
 * Listens on `deps.settings.host` and `port`. The caller starts the session.
 *
 * @throws {Deno.errors.AddrInUse} when the port is taken; `AddrNotAvailable` or `PermissionDenied` when the address
 * cannot be used.
 */
export function startServer(deps: AppDeps): RunningServer {
  const { settings, session } = deps;
  const inFlight = new Set<Promise<void>>();
  const figures = newConnectionFigures();
  const app = countInFlight(createApp({ ...deps, connections: figures }), inFlight);
  const listener = new Listener({
    host: settings.host,
    port: settings.port,
    maxConnections: limitConnections(settings.maxConnections),
    figures,
    handler: bridge(app),
    upgradeHandler: bridgeUpgrades(app),
  });
  listener.open();
  const { hostname, port } = listener.address;

  let stopping: Promise<void> | undefined;
  const stop = async () => {
    session.drain();
    const { drainSeconds } = settings;
    // A longer grace period suggests a proxy in front, which needs time to notice and send requests elsewhere.
    const closedAtOnce = drainSeconds > 1 ? undefined : listener.close();
    await settledWithin(Promise.all(inFlight), drainSeconds * 1000);
    const closed = closedAtOnce ?? listener.close();
    await session.stop();
    // The error events for open streams still have to be sent.
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

async function settledWithin(work: Promise<unknown>, timeoutMs: number): Promise<void> {
  const timeout = Promise.withResolvers<void>();
  const timer = setTimeout(timeout.resolve, timeoutMs);
  await Promise.race([work, timeout.promise]);
  clearTimeout(timer);
}
