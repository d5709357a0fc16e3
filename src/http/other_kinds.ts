/**
 * The endpoints of the model kinds that do not chat. Each answers which endpoints the loaded model serves.
 *
 * @module
 */
import { z } from "zod";
import { type InferencePath, requireEndpoint, requireModelName } from "../api/endpoints.ts";
import { text } from "../api/fields.ts";
import { parseRequest } from "../api/parse.ts";
import { HearthError } from "../errors.ts";
import { isJson, readJson } from "./body.ts";
import type { AppDeps, Route } from "./route.ts";

const NamesModel = z.object({ model: text("the name of the loaded model") })
  .meta({ id: "NamesModel" });

interface Endpoint {
  readonly path: InferencePath;
  readonly summary: string;
  /** Whether a JSON body must name the loaded model. */
  readonly namesModel: boolean;
}

const ENDPOINTS: readonly Endpoint[] = [
  { path: "/audio/speech", summary: "Text to speech", namesModel: true },
];

/** All of them. */
export function otherKindsRoutes({ session, bodyLimits }: AppDeps): Route[] {
  return ENDPOINTS.map(({ path, summary, namesModel }): Route => ({
    method: "POST",
    path,
    operation: {
      summary,
      ...(namesModel && { request: { "application/json": NamesModel } }),
      errors: [
        ...(namesModel ? ["invalid_json", "invalid_value", "model_not_found"] as const : []),
        "unsupported_by_model",
        "model_not_loaded",
      ],
    },
    handle: async (call) => {
      const info = session.requireReady();
      if (namesModel && isJson(call.req.raw)) {
        const { model } = parseRequest(NamesModel, await readJson(call.req.raw, bodyLimits));
        requireModelName(info, model);
      }
      requireEndpoint(info, path);
      throw new HearthError("unsupported_by_model", `This version does not serve ${path} yet.`);
    },
  }));
}
