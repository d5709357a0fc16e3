/**
 * Serves the router on a port.
 *
 * @module
 */
import { limitConnections, newConnectionFigures } from "../server/http/connection/connections.ts";
import { Listener } from "../server/http/connection/listener.ts";
import { bridge } from "../server/http/connection/node_bridge.ts";
import { bridgeUpgrades } from "../server/http/connection/upgrades.ts";
import type { RunningServer } from "../server/http/server.ts";
import { createRouterApp, type RouterDeps } from "./app.ts";

const LAST_WRITES_MS = 1000;

/**
 * Listens on `deps.settings.host` and `port`.
 *
 * @throws {Deno.errors.AddrInUse} or another of Deno's errors when the address is not available.
 */
export function startRouter(deps: Omit<RouterDeps, "isStopping">): RunningServer {
  const { settings, pool } = deps;
  let stopping: Promise<void> | undefined;
  const app = createRouterApp({ ...deps, isStopping: () => stopping !== undefined });
  const listener = new Listener({
    host: settings.host,
    port: settings.port,
    maxConnections: limitConnections(settings.maxConnections),
    figures: newConnectionFigures(),
    handler: bridge(app, { streamsAll: true }),
    upgradeHandler: bridgeUpgrades(app),
  });
  listener.open();
  const { hostname, port } = listener.address;
  const stop = async () => {
    // A longer grace period suggests a proxy in front, which needs time to notice and send requests elsewhere.
    const closedAtOnce = settings.drainSeconds > 1 ? undefined : listener.close();
    // The models' processes end when their requests are answered, or the grace period is over.
    await pool.close();
    const closed = closedAtOnce ?? listener.close();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const timeout = new Promise((resolve) => timer = setTimeout(resolve, LAST_WRITES_MS));
    await Promise.race([closed, timeout]);
    clearTimeout(timer);
    listener.closeAllConnections();
    await closed;
  };
  return { address: { hostname, port }, stop: () => stopping ??= stop() };
}
