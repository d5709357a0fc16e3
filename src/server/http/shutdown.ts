/**
 * `POST /shutdown`.
 *
 * @module
 */
import type { MiddlewareHandler } from "hono";
import { z } from "zod";
import type { ListenSettings } from "../../base/config.ts";
import { HearthError } from "../../base/errors.ts";
import { stderrQueue } from "../../base/log.ts";
import { isLocal } from "./locality.ts";
import type { Env, Route } from "./route.ts";

const ShutdownAccepted = z.object({ message: z.string() }).meta({ id: "ShutdownAccepted" });

/** What shutting down needs of a server. */
export interface StopDeps {
  readonly settings: ListenSettings;
  /** Begins the shutdown sequence. Called when the response to an accepted shutdown request has been sent. */
  readonly requestShutdown: () => void;
}

/**
 * Writes the line that the specification requires for every shutdown request, accepted or not. It goes to standard
 * error verbatim, in every log format and at every level, for supervisors that look for it.
 */
export function announceShutdown({ settings }: Pick<StopDeps, "settings">): MiddlewareHandler<Env> {
  return async (_call, next) => {
    const { allowRemoteShutdown } = settings;
    const line = `[SHUTDOWN] Shutdown requested (remote_allowed: ${allowRemoteShutdown})\n`;
    stderrQueue.push(line);
    await next();
  };
}

/** The endpoint that stops the server once its answer has been sent. */
export function shutdownRoute(
  { settings, requestShutdown }: StopDeps,
): Route {
  return {
    method: "POST",
    path: "/shutdown",
    operation: {
      summary: "Stop the server",
      description: "From this machine only, unless the server runs with --allow-remote-shutdown.",
      response: {
        description: "The server stops as soon as this answer is sent",
        content: ShutdownAccepted,
      },
      errors: ["forbidden"],
    },
    handle: (call) => {
      if (!settings.allowRemoteShutdown && !isLocal(call.req.raw, call.env, settings)) {
        throw new HearthError(
          "forbidden",
          "Shutdown is accepted from this machine only. Start the server with --allow-remote-shutdown to change that.",
        );
      }
      call.env.completed.then(requestShutdown);
      return call.json({ message: "The server is shutting down." });
    },
  };
}
