/**
 * Serves an app on a port.
 *
 * @module
 */
import type { ListenSettings } from "../../base/config.ts";
import { within } from "../../base/timing.ts";
import { createApp } from "./app.ts";
import {
  type ConnectionFigures,
  limitConnections,
  newConnectionFigures,
} from "./connection/connections.ts";
import { Listener } from "./connection/listener.ts";
import { type App, bridge } from "./connection/node_bridge.ts";
import { bridgeUpgrades } from "./connection/message_socket.ts";
import type { AppDeps } from "./route.ts";

/** How long to wait, after the grace period, until the last bytes of the responses are sent. */
const LAST_WRITES_MS = 1000;

export interface RunningServer {
  /** The address that the server listens on, with the real port if 0 was requested. */
  readonly address: { readonly hostname: string; readonly port: number };
  /**
   * Stops the server: refuses new requests, waits for requests in progress up to the grace period, and ends the rest.
   * Further calls return the same promise.
   */
  stop(): Promise<void>;
}

/** How an app is served, and what happens when it stops. */
interface ServeOptions {
  readonly settings: ListenSettings;
  readonly figures?: ConnectionFigures;
  /** Whether to write all large responses chunk by chunk, rather than only events and audio. */
  readonly streamsAll?: boolean;
  /** Refuses new requests. Resolves when the requests in progress have ended, or the grace period is over. */
  readonly drain: (inFlight: ReadonlySet<Promise<void>>) => Promise<unknown>;
  /** Ends the requests that are still in progress. */
  readonly end?: () => Promise<void>;
}

/**
 * Listens on the host and port of the settings.
 *
 * @throws {Deno.errors.AddrInUse} when the port is taken; `AddrNotAvailable` or `PermissionDenied` when the address
 * cannot be used.
 */
export function serveApp(app: App, options: ServeOptions): RunningServer {
  const { settings, figures = newConnectionFigures(), streamsAll = false, drain, end } = options;
  const inFlight = new Set<Promise<void>>();
  const counted: App = (request, exchange) => {
    const { completed } = exchange;
    inFlight.add(completed);
    completed.then(() => inFlight.delete(completed));
    return app(request, exchange);
  };
  const listener = new Listener({
    host: settings.host,
    port: settings.port,
    maxConnections: limitConnections(settings.maxConnections),
    figures,
    handler: bridge(counted, { streamsAll }),
    upgradeHandler: bridgeUpgrades(counted),
  });
  listener.open();
  const { hostname, port } = listener.address;

  let stopping: Promise<void> | undefined;
  const stop = async () => {
    const drained = drain(inFlight);
    // A grace period of more than a second suggests a proxy in front of the server. Until the period is over, requests
    // on new connections then get a 503, so that the proxy notices and sends them elsewhere.
    const closedAtOnce = settings.drainSeconds > 1 ? undefined : listener.close();
    await drained;
    const closed = closedAtOnce ?? listener.close();
    await end?.();
    // The error events for open streams still have to be sent.
    await within(Promise.all(inFlight), LAST_WRITES_MS);
    listener.closeAllConnections();
    await closed;
  };
  return { address: { hostname, port }, stop: () => stopping ??= stop() };
}

/**
 * Serves the app of one model. The caller starts the session, and the server stops it when it is stopped itself.
 *
 * @throws as {@linkcode serveApp} does.
 */
export function startServer(deps: AppDeps): RunningServer {
  const { settings, session } = deps;
  const figures = newConnectionFigures();
  return serveApp(createApp({ ...deps, connections: figures }), {
    settings,
    figures,
    drain: (inFlight) => {
      session.drain();
      return within(Promise.all(inFlight), settings.drainSeconds * 1000);
    },
    end: () => session.stop(),
  });
}
