/**
 * The app on a port.
 *
 * @module
 */
import { createApp } from "./app.ts";
import type { AppDeps } from "./route.ts";

const GRACE_MS = 1_000;
const LAST_WRITES_MS = 100;

/** A server that listens. */
export interface RunningServer {
  /** Where it listens; the port is the real one when 0 was asked for. */
  readonly address: Deno.NetAddr;
  /**
   * Ends it: takes no new connections, gives the requests in flight one second, ends what is left of them with
   * an error, and ends the session. Calling it again waits for the same end.
   */
  stop(): Promise<void>;
}

/**
 * Listens at `deps.settings.host` and `port`. The session is the caller's to start.
 *
 * @throws {Deno.errors.AddrInUse} when the port is taken; other `Deno.errors` when the address cannot be had.
 */
export function startServer(deps: AppDeps): RunningServer {
  const { settings, session } = deps;
  const server = Deno.serve(
    { hostname: settings.host, port: settings.port, onListen: () => {} },
    createApp(deps),
  );
  let stopping: Promise<void> | undefined;
  const stop = async () => {
    session.drain();
    const idle = server.shutdown();
    await settledWithin(idle, GRACE_MS);
    await session.stop();
    // What the end of the session wrote to open streams still has to leave.
    await settledWithin(idle, LAST_WRITES_MS);
  };
  return { address: server.addr, stop: () => stopping ??= stop() };
}

async function settledWithin(work: Promise<void>, timeoutMs: number): Promise<void> {
  const timeout = Promise.withResolvers<void>();
  const timer = setTimeout(timeout.resolve, timeoutMs);
  await Promise.race([work, timeout.promise]);
  clearTimeout(timer);
}
