/**
 * The app on a port.
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

/** A server that listens. */
export interface RunningServer {
  /** Where it listens; the port is the real one when 0 was asked for. */
  readonly address: { readonly hostname: string; readonly port: number };
  /**
   * Ends it: accepts no new connections, waits for the requests in flight up to the grace period, ends the rest with an
   * error, then ends the session. Calling it again waits for the same end.
   */
  stop(): Promise<void>;
}

/**
 * Listens at `deps.settings.host` and `port`. The caller starts the session.
 *
 * @throws {Deno.errors.AddrInUse} when the port is taken; `AddrNotAvailable` or `PermissionDenied` when the address
 * cannot be had.
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
    // A longer grace period implies a proxy in front, which must be told to route elsewhere.
    const closedAtOnce = drainSeconds > 1 ? undefined : listener.close();
    await settledWithin(Promise.all(inFlight), drainSeconds * 1000);
    const closed = closedAtOnce ?? listener.close();
    await session.stop();
    // The error events written to open streams must still be sent.
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
