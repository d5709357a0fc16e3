/**
 * Opens the port of a server, or says why it cannot be had. With it come most modules of the program, so that it is
 * imported once the model's thread has begun to load.
 *
 * @module
 */
import type { ServerSettings } from "../base/config.ts";
import { StartupError } from "../base/errors.ts";
import { BODY_LIMITS } from "../server/http/body/body.ts";
import { BodyBudget } from "../server/http/body/body_memory.ts";
import { OtlpExporter } from "../server/http/otlp_exporter.ts";
import type { AppDeps } from "../server/http/route.ts";
import { type RunningServer, startServer } from "../server/http/server.ts";
import { explainTakenPort } from "./running.ts";

/** What a server is made of. */
interface ListenOptions extends Pick<AppDeps, "settings" | "session" | "requestShutdown"> {
  /** What all request bodies may hold together. */
  readonly bodyBytes: number;
}

/** A server that listens, and what exports its spans, if anything does. */
interface Listening {
  readonly server: RunningServer;
  readonly spans: OtlpExporter | undefined;
}

/** Listens for requests. @throws {StartupError} when the address is not available; the session is stopped then. */
export async function listen({ bodyBytes, ...deps }: ListenOptions): Promise<Listening> {
  const spans = OtlpExporter.fromEnvironment((name) => Deno.env.get(name));
  const bodyLimits = { ...BODY_LIMITS, budget: new BodyBudget(bodyBytes) };
  try {
    return { server: startServer({ ...deps, bodyLimits, spans }), spans };
  } catch (error) {
    await deps.session.stop();
    throw new StartupError(await explainListenError(error, deps.settings), { cause: error });
  }
}

/** Explains why an address is not available, and what to do. */
export async function explainListenError(
  error: unknown,
  { host, port }: Pick<ServerSettings, "host" | "port">,
): Promise<string> {
  if (error instanceof Deno.errors.AddrInUse) {
    return await explainTakenPort(host, port);
  }
  if (error instanceof Deno.errors.PermissionDenied) {
    return `Listening on port ${port} is not permitted to this user. Choose one above 1023 with -p.`;
  }
  const reason = error instanceof Error ? error.message : String(error);
  return `Cannot listen at ${host}, port ${port}: ${reason}. Choose an address of this machine with -a: ` +
    "127.0.0.1 for this machine only, 0.0.0.0 to let other machines in.";
}
