/**
 * `GET /health`: whether the model is ready
 *
 * @module
 */
import { z } from "zod";
import { HearthError } from "../errors.ts";
import { showsKey } from "./api_keys.ts";
import { isLocal } from "./locality.ts";
import type { AppDeps, Route } from "./route.ts";

const Health = z.object({ status: z.literal("ok") }).meta({ id: "Health" });

/** The health check. */
export function healthRoute({ session, settings }: AppDeps): Route {
  return {
    method: "GET",
    path: "/health",
    operation: {
      summary: "Whether the model is loaded and the server takes requests",
      response: {
        description: "The model is ready",
        content: Health,
      },
      errors: ["model_not_loaded", "shutting_down"],
    },
    handle: (call) => {
      const isTrusted = settings.apiKeys.length > 0
        ? showsKey(call.req.raw, settings.apiKeys)
        : isLocal(call.req.raw, call.env, settings);
      // The reason for a failed load may contain this machine's paths.
      if (session.state.phase === "failed" && !isTrusted) throw notLoaded();
      session.requireReady();
      return call.json({ status: "ok" });
    },
  };
}

function notLoaded(): HearthError {
  return new HearthError(
    "model_not_loaded",
    "The model is not initialized: it could not be loaded; the server's log says why.",
  );
}
