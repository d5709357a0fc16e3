/**
 * The server as a function from a request to its response.
 *
 * @module
 */
import { Hono } from "hono";
import { HearthError } from "../../base/errors.ts";
import { findNearNames } from "../../base/near_names.ts";
import { chatRoute } from "./chat/chat.ts";
import { cohereEmbedRoute, embeddingsRoute, textEmbedRoutes } from "./texts/embeddings.ts";
import { completionsRoute } from "./completions/completions.ts";
import { docsRoutes, pageRoutes } from "./pages/page.ts";
import { guard, hasKey, listBothPaths, requireApiKey } from "./access.ts";
import {
  answerError,
  explainForeignPath,
  MAX_SHOWN_PATH,
  shortenPath,
  toPlainPath,
  trackRequests,
} from "./requests.ts";
import {
  announceShutdown,
  audioModelsRoute,
  healthRoute,
  infoRoute,
  modelRoute,
  modelsRoute,
  shutdownRoute,
} from "./server_routes.ts";
import { isLocal } from "./locality.ts";
import { messagesRoutes } from "./messages/messages.ts";
import { metricsRoute, ServerMetrics } from "./metrics.ts";
import { openApiRoute } from "./pages/openapi.ts";
import type { App } from "./connection/node_bridge.ts";
import { makeWorkFields, toSpans } from "./spans.ts";
import { getWork } from "../session/task_stream.ts";
import { removeBackgroundRoute } from "./remove_background.ts";
import { rerankRoutes, scoreRoute } from "./texts/rerank.ts";
import { responsesRoutes } from "./responses/responses.ts";
import type { AppDeps, Call, Env, Route } from "./route.ts";
import { tokenRoutes } from "./texts/tokens.ts";
import { speechRoute, voicesRoute } from "./audio/speech.ts";
import { transcriptionsRoutes } from "./audio/transcriptions.ts";
import { realtimeRoute } from "./realtime/realtime.ts";

/** Creates the app with all endpoints. Each endpoint also answers below `/v1`. */
export function createApp(deps: AppDeps): App {
  const metrics = new ServerMetrics(deps.session, deps.connections);
  const app = new Hono<Env>({ getPath: toPlainPath });
  app.use(trackRequests(observe(metrics, deps)));
  app.on("POST", listBothPaths("/shutdown"), announceShutdown(deps));
  app.use(guard(deps.settings), requireApiKey(deps.settings));
  const routes = createRoutes(deps, metrics);
  addRoutes(app, routes);
  app.notFound((call) => {
    throw new HearthError("not_found", explainNoEndpoint(call, routes));
  });
  app.onError((thrown, call) => answerError(hideReason(thrown, call, deps), call));
  return async (request, exchange) => await app.fetch(request, exchange);
}

function createRoutes(deps: AppDeps, metrics: ServerMetrics): Route[] {
  const api = createApiRoutes(deps, metrics);
  return [...api, openApiRoute(api), ...docsRoutes(), ...pageRoutes(deps)];
}

/** Returns the endpoints of a model's server, for a router. Their handlers must not be called. */
export function describedRoutes(): Route[] {
  const settings = { maxStoredResponses: 0, storedResponsesBytes: 0 };
  // Creating the routes reads only these settings; the handlers read the rest.
  return createApiRoutes({ settings } as AppDeps, {} as ServerMetrics);
}

function createApiRoutes(deps: AppDeps, metrics: ServerMetrics): Route[] {
  return [
    healthRoute(deps),
    infoRoute(deps),
    modelsRoute(deps),
    modelRoute(deps),
    chatRoute(deps),
    ...responsesRoutes(deps),
    ...messagesRoutes(deps),
    completionsRoute(deps),
    ...tokenRoutes(deps),
    embeddingsRoute(deps),
    ...textEmbedRoutes(deps),
    cohereEmbedRoute(deps),
    ...rerankRoutes(deps),
    scoreRoute(deps),
    ...transcriptionsRoutes(deps),
    realtimeRoute(deps, metrics),
    removeBackgroundRoute(deps),
    speechRoute(deps),
    voicesRoute(deps),
    audioModelsRoute(deps),
    shutdownRoute(deps),
    metricsRoute(metrics),
  ];
}

/** Registers routes. On their paths, OPTIONS gets a 204 and all other methods a 405; both list the allowed methods. */
export function addRoutes(app: Hono<Env>, routes: readonly Route[]): void {
  for (const [path, routesOfPath] of Map.groupBy(routes, (route) => route.path)) {
    const label = path.replace(/\{.*\}$/, "");
    const methods = routesOfPath.map(({ method }) => method === "GET" ? "GET, HEAD" : method);
    const allowed = [...methods, "OPTIONS"].join(", ");
    for (const each of listBothPaths(path)) {
      for (const { method, handle } of routesOfPath) {
        app.on(method, each, (call) => {
          call.set("route", label);
          return handle(call);
        });
      }
      app.all(each, (call) => {
        call.set("route", label);
        call.header("allow", allowed);
        if (call.req.method === "OPTIONS") return call.body(null, 204);
        throw new HearthError(
          "method_not_allowed",
          `${shortenPath(call)} does not take ${call.req.method}; it takes ${allowed}.`,
        );
      });
    }
  }
}

/** Writes the error message for an unknown path. It suggests the most similar known path. */
export function explainNoEndpoint(call: Call, routes: readonly Route[]): string {
  const described = routes.filter(({ path, operation }) => operation && path !== "/");
  const paths = new Set(described.map(({ path }) => path));
  const foreign = explainForeignPath(call, [...paths]);
  if (foreign !== undefined) return foreign;
  const prefix = call.req.path.startsWith("/v1/") ? "/v1" : "";
  const [nearest] = findNearNames(call.req.path.slice(prefix.length, MAX_SHOWN_PATH), [...paths]);
  const hint = nearest === undefined ? "" : ` Did you mean ${prefix}${nearest}?`;
  return `There is no endpoint ${call.req.method} ${shortenPath(call)}; see /docs.${hint}`;
}

/** Makes the listener that counts requests and exports their spans. */
function observe(
  metrics: ServerMetrics,
  { spans }: Pick<AppDeps, "spans">,
): Parameters<typeof trackRequests>[0] {
  return {
    begin: (call) => {
      // A request counts as in flight once its headers have arrived, so that slow uploads count too.
      const isWork = call.req.method === "POST" &&
        !listBothPaths("/shutdown").includes(call.req.path);
      if (isWork) metrics.begin(call.env.completed);
    },
    end: (call, ended) => {
      const route = call.get("route") ?? "none";
      metrics.requests.observe(route, ended);
      const { raw: request } = call.req;
      const work = getWork(request.signal);
      if (ended.method === "POST") spans?.add(toSpans({ ...ended, request, route, work }));
      return makeWorkFields(work, ended.startMs);
    },
  };
}

/**
 * Hides the reason why the model could not be loaded, because it may contain paths on this machine. Only callers with a
 * valid API key see it, or local callers if the server has no keys.
 */
function hideReason(thrown: unknown, call: Call, { session, settings }: AppDeps): unknown {
  const { state } = session;
  const isReason = state.phase === "failed" && !("isChanged" in state) &&
    thrown instanceof HearthError &&
    thrown.kind === "model_not_loaded";
  if (!isReason) return thrown;
  const mayKnow = settings.apiKeys.length > 0
    ? hasKey(call.req.raw, settings.apiKeys)
    : isLocal(call.req.raw, call.env, settings);
  if (mayKnow) return thrown;
  return new HearthError(
    "model_not_loaded",
    "The model is not initialized, because it could not be loaded; the server's log says why.",
  );
}
