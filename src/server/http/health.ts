/**
 * `GET /health`: whether the model is ready
 *
 * @module
 */
import { z } from "zod";
import type { AppDeps, Route } from "./route.ts";

const Health = z.object({ status: z.literal("ok") }).meta({ id: "Health" });

/** The health check. */
export function healthRoute({ session }: AppDeps): Route {
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
      session.requireReady();
      return call.json({ status: "ok" });
    },
  };
}
