/**
 * The router's endpoints: those that it answers itself, and those that it passes on to its models.
 *
 * @module
 */
import { z } from "zod";
import { HearthError } from "../base/errors.ts";
import { describedRoutes } from "../server/http/app.ts";
import { metricsRoute } from "../server/http/metrics.ts";
import { docsRoutes } from "../server/http/pages/page.ts";
import { openApiRoute } from "../server/http/pages/openapi.ts";
import type { Call, Route } from "../server/http/route.ts";
import { shutdownRoute, type StopDeps } from "../server/http/server_routes.ts";
import { MODEL_KINDS } from "../base/config.ts";
import { AudioModelList, ModelObject } from "../wire/models.ts";
import { requireModel } from "./routed_model.ts";
import type { ModelPool, ModelState } from "./model_pool.ts";
import type { RouterMetrics } from "./router_metrics.ts";

const DESCRIPTION =
  "Several models behind one address. A request names its model in `model`, or as `?model=`. Without " +
  "a name, it goes to the only model that serves the path. A model is loaded on its first request. " +
  "Every path also answers below `/v1`.";

const STATUSES = ["unloaded", "loading", "loaded", "unloading"] as const;

const RoutedModelObject = ModelObject.omit({ meta: true }).extend({
  kind: z.enum(MODEL_KINDS).optional().describe("Absent while unknown"),
  status: z.object({
    value: z.enum(STATUSES),
    failed: z.literal(true).optional().describe("Present if the last attempt to load it failed"),
  }),
}).meta({ id: "RoutedModel" });

const RoutedModelList = z.object({
  object: z.literal("list"),
  data: z.array(RoutedModelObject),
}).meta({ id: "RoutedModelList" });

interface OwnDeps extends StopDeps {
  readonly pool: ModelPool;
  readonly metrics: RouterMetrics;
  readonly isStopping: () => boolean;
  /** Answers a request to an endpoint of the models. */
  readonly passOn: (call: Call) => Promise<Response>;
}

/** Returns all endpoints, and the pages that describe them. */
export function listRoutes(deps: OwnDeps): Route[] {
  const { pool, metrics } = deps;
  const routes: Route[] = [
    {
      method: "GET",
      path: "/health",
      operation: {
        summary: "Whether the router is running",
        response: {
          description: "The router is running",
          content: z.object({ status: z.literal("ok") }),
        },
        errors: ["shutting_down"],
      },
      handle: (call) => {
        if (deps.isStopping()) throw new HearthError("shutting_down", "shutting down");
        return call.json({ status: "ok" });
      },
    },
    metricsRoute(
      metrics,
      "Metrics for Prometheus: the router's own, and those of each loaded model",
    ),
    {
      method: "GET",
      path: "/models",
      operation: {
        summary: "All models",
        response: { description: "The list", content: RoutedModelList },
        errors: [],
      },
      handle: (call) => call.json({ object: "list", data: pool.states.map(describeModel) }),
    },
    {
      method: "GET",
      path: "/audio/models",
      operation: {
        summary: "The speech models, in a list",
        response: { description: "The list", content: AudioModelList },
        errors: [],
      },
      handle: (call) => {
        const data = pool.states.filter(({ model: { kind } }) => kind === "asr" || kind === "tts")
          .map(describeModel);
        const models = data.map(({ id }) => ({ id, name: id }));
        return call.json({ object: "list", data, models });
      },
    },
    {
      method: "POST",
      path: "/models/:id{.+}/load",
      operation: {
        summary: "Load a model",
        response: { description: "The model is loaded", content: RoutedModelObject },
        errors: ["model_not_found", "model_not_loaded", "shutting_down"],
      },
      handle: async (call) => {
        const { model } = requireState(pool, call);
        using _lease = await pool.acquire(model, call.req.raw.signal);
        return call.json(describeModel(requireState(pool, call)));
      },
    },
    {
      method: "POST",
      path: "/models/:id{.+}/unload",
      operation: {
        summary: "Unload a model once its requests are answered",
        response: { description: "The model is no longer loaded", content: RoutedModelObject },
        errors: ["model_not_found"],
      },
      handle: async (call) => {
        await pool.unload(requireState(pool, call).model);
        return call.json(describeModel(requireState(pool, call)));
      },
    },
    {
      method: "GET",
      // `.+` also matches slashes. Without the look-ahead, this route would match the paths of the two above.
      path: "/models/:id{(?!.+/(?:un)?load$).+}",
      operation: {
        summary: "One model",
        response: { description: "The model", content: RoutedModelObject },
        errors: ["model_not_found"],
      },
      handle: (call) => call.json(describeModel(requireState(pool, call))),
    },
    shutdownRoute(deps),
  ];
  const toKey = ({ method, path }: Route) => `${method} ${path.replace(/\{.*\}/, "")}`;
  const own = new Set(routes.map(toKey));
  const passedOn = describedRoutes().filter((route) => !own.has(toKey(route)))
    .map((route) => ({ ...route, handle: deps.passOn }));
  const all = [...routes, ...passedOn];
  return [...all, openApiRoute(all, DESCRIPTION), ...docsRoutes()];
}

/** Returns the state of the model that the path names. @throws {HearthError} `model_not_found`. */
function requireState({ states }: ModelPool, call: Call): ModelState {
  const model = requireModel(states.map((state) => state.model), call.req.param("id")!);
  return states.find((state) => state.model.id === model.id)!;
}

/** Describes a model as `GET /models` does. llama.cpp's router has the same field `status`. */
function describeModel(
  { model, status, failure, address }: ModelState,
): z.output<typeof RoutedModelObject> {
  const { id, ownedBy, kind } = model;
  const contextLength = address?.contextLength;
  return {
    object: "model",
    id,
    created: 0,
    owned_by: ownedBy,
    ...(kind !== undefined && { kind }),
    ...(contextLength !== undefined && {
      max_model_len: contextLength,
      context_length: contextLength,
    }),
    status: { value: status, ...(failure !== undefined && { failed: true as const }) },
  };
}
