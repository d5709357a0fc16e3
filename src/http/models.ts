/**
 * `GET /models` and `GET /models/{id}`: the one loaded model.
 *
 * @module
 */
import { requireModelName } from "../api/endpoints.ts";
import { ModelList, modelList, ModelObject, modelObject } from "../api/model_object.ts";
import type { ModelInfo } from "../worker/protocol.ts";
import type { AppDeps, Call, Route } from "./route.ts";

/** The list. */
export function modelsRoute({ session }: AppDeps): Route {
  return {
    method: "GET",
    path: "/models",
    operation: {
      summary: "The loaded model, in a list",
      response: { description: "The list", content: ModelList },
      errors: ["model_not_loaded", "shutting_down"],
    },
    handle: (call) => call.json(modelList(listed(session.requireReady(), call))),
  };
}

/** The model by its name, which may have slashes in it. */
export function modelRoute({ session }: AppDeps): Route {
  return {
    method: "GET",
    path: "/models/:id{.+}",
    operation: {
      summary: "The loaded model",
      response: { description: "The model", content: ModelObject },
      errors: ["model_not_found", "model_not_loaded", "shutting_down"],
    },
    handle: (call) => {
      const info = session.requireReady();
      requireModelName(info, call.req.param("id")!);
      return call.json(modelObject(listed(info, call)));
    },
  };
}

/** The specification has `created` null; typed clients, which use `/v1`, need a number. */
function listed(info: ModelInfo, { req: { path } }: Call) {
  return { ...info, createdSeconds: path.startsWith("/v1/") ? info.createdSeconds : null };
}
