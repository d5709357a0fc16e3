/**
 * `GET /models` and `GET /models/{id}`: the one loaded model.
 *
 * @module
 */
import { requireEndpoint, requireModelName } from "../../wire/endpoints.ts";
import {
  AudioModelList,
  ModelList,
  modelList,
  ModelObject,
  modelObject,
} from "../../wire/model_object.ts";
import type { ModelInfo } from "../../worker/protocol.ts";
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

/** The list under the name that clients of speech APIs ask for, who read `models`. */
export function audioModelsRoute({ session }: AppDeps): Route {
  return {
    method: "GET",
    path: "/audio/models",
    operation: {
      summary: "The loaded speech model, in a list",
      response: { description: "The list", content: AudioModelList },
      errors: ["unsupported_by_model", "model_not_loaded", "shutting_down"],
    },
    handle: (call) => {
      const info = session.requireReady();
      if (info.kind !== "asr") requireEndpoint(info, "/audio/speech", "/audio/models");
      const list = modelList(listed(info, call));
      return call.json({ ...list, models: list.data.map(({ id }) => ({ id, name: id })) });
    },
  };
}

/** The specification has `created` null; typed clients, which use `/v1`, need a number. */
function listed(info: ModelInfo, { req: { path } }: Call) {
  return { ...info, createdSeconds: path.startsWith("/v1/") ? info.createdSeconds : null };
}
