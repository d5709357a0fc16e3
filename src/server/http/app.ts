/**
 * The server as a function from a request to its response.
 *
 * @module
 */
import { Hono, type MiddlewareHandler } from "hono";
import { collectGarbageLater } from "../../base/collect_garbage.ts";
import { HearthError } from "../../base/errors.ts";
import { log } from "../../base/log.ts";
import { findNearNames } from "../../base/near_names.ts";
import { chatRoute } from "./chat/chat.ts";
import { cohereEmbedRoute, embeddingsRoute } from "./texts/embeddings.ts";
import { completionsRoute } from "./completions/completions.ts";
import { docsRoutes, pageRoutes } from "./pages/page.ts";
import { bothPaths, guard, requireApiKey, showsKey } from "./access.ts";
import {
  answerError,
  CLIENT_DISCONNECTED,
  explainForeignPath,
  MAX_SHOWN_PATH,
  nameRequest,
  plainPath,
  shownPath,
} from "./request_names.ts";
import { audioModelsRoute, healthRoute, infoRoute, modelRoute, modelsRoute } from "./info.ts";
import { isLocal } from "./locality.ts";
import { messagesRoutes } from "./messages/messages.ts";
import { metricsRoute, ServerMetrics } from "./metrics.ts";
import { openApiRoute } from "./pages/openapi.ts";
import type { App } from "./connection/node_bridge.ts";
import { toSpans, workFields } from "./request_times.ts";
import { getWork } from "../session/task_stream.ts";
import { removeBackgroundRoute } from "./remove_background.ts";
import { rerankRoutes, scoreRoute } from "./texts/rerank.ts";
import { responsesRoutes } from "./responses/responses.ts";
import type { AppDeps, Call, Env, Route } from "./route.ts";
import { announceShutdown, shutdownRoute } from "./shutdown.ts";
import { tokenRoutes } from "./texts/tokens.ts";
import { speechRoute, voicesRoute } from "./audio/speech.ts";
import { transcriptionsRoutes } from "./audio/transcriptions.ts";
import { realtimeRoute } from "./realtime/realtime.ts";
import { reportWarnings } from "./warnings.ts";

/** Creates the app with all endpoints; each also answers below `/v1`. */
export function createApp(deps: AppDeps): App {
  const metrics = new ServerMetrics(deps.session, deps.connections);
  const app = new Hono<Env>({ getPath: plainPath });
  app.use(identify(metrics, deps));
  app.on("POST", bothPaths("/shutdown"), announceShutdown(deps));
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

/** The endpoints for the API description of a server that only forwards requests. Their handlers must not be called. */
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

/** Registers routes. Other methods on their paths get a 405 that lists the allowed ones. */
export function addRoutes(app: Hono<Env>, routes: readonly Route[]): void {
  for (const [path, ofPath] of Map.groupBy(routes, (route) => route.path)) {
    const label = path.replace(/\{.*\}$/, "");
    const methods = ofPath.map(({ method }) => method === "GET" ? "GET, HEAD" : method);
    const allowed = [...methods, "OPTIONS"].join(", ");
    for (const each of bothPaths(path)) {
      for (const { method, handle } of ofPath) {
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
          `${shownPath(call)} does not take ${call.req.method}; it takes ${allowed}.`,
        );
      });
    }
  }
}

/** The error message for an unknown path, with the nearest known path. */
function explainNoEndpoint(call: Call, routes: readonly Route[]): string {
  const foreign = explainForeignPath(call.req.path, new URL(call.req.url).origin);
  if (foreign !== undefined) return foreign;
  const paths = new Set(routes.filter(({ operation }) => operation).map(({ path }) => path));
  const prefix = call.req.path.startsWith("/v1/") ? "/v1" : "";
  const [nearest] = findNearNames(call.req.path.slice(prefix.length, MAX_SHOWN_PATH), [...paths]);
  const hint = nearest === undefined ? "" : ` Did you mean ${prefix}${nearest}?`;
  return `There is no endpoint ${call.req.method} ${shownPath(call)}; see /docs.${hint}`;
}

/** Gives each request an id, and logs the request when its response is complete. */
function identify(
  metrics: ServerMetrics,
  { spans }: Pick<AppDeps, "spans">,
): MiddlewareHandler<Env> {
  return async (call, next) => {
    const startMs = performance.now();
    const requestId = nameRequest(call.req.raw);
    call.set("requestId", requestId);
    // A request counts as running from its headers on, so that slow uploads count too.
    const isWork = call.req.method === "POST" && !bothPaths("/shutdown").includes(call.req.path);
    if (isWork) metrics.begin(call.env.completed);
    await next();
    const { status, headers } = call.res;
    headers.set("x-request-id", requestId);
    // Anthropic's name for the request id.
    if (/^(\/v1)?\/messages(\/|$)/.test(call.req.path)) headers.set("request-id", requestId);
    headers.set("x-content-type-options", "nosniff");
    reportWarnings(call);
    call.env.completed.then(() => {
      const { method, raw: { signal } } = call.req;
      const route = call.get("route") ?? "none";
      const seconds = (performance.now() - startMs) / 1000;
      // A client that hangs up is recorded as such even after the status of a stream has been sent.
      const ending = signal.aborted ? CLIENT_DISCONNECTED : status;
      metrics.observe({ route, method, status: ending, seconds });
      const work = getWork(signal);
      const write = method === "POST" ? log.info : log.debug;
      write("request", {
        requestId,
        method,
        path: shownPath(call),
        status: ending,
        ...(signal.aborted ? {} : toRefusal(call)),
        key: call.get("keyLabel"),
        seconds: Number(seconds.toFixed(3)),
        ...workFields(work, startMs),
      });
      if (method !== "POST") return;
      spans?.add(toSpans({ request: call.req.raw, route, status: ending, startMs, work }));
      collectGarbageLater();
    });
  };
}

/** The log fields of a failed request: enough to find the cause, but none of its content. */
function toRefusal({ error }: Call): { code?: string; param?: string | undefined } {
  if (error === undefined) return {};
  const { kind, param } = HearthError.from(error);
  return { code: kind, param: param && withoutOwnNames(param) };
}

/**
 * Removes names that the client chose from a parameter's path: those in quotation marks, and all names inside a schema
 * or a template's variables.
 */
function withoutOwnNames(param: string): string {
  return param.replaceAll(/\["(?:[^"\\]|\\.)*"\]/g, "[…]")
    .replace(
      /(\.schema|\.parameters|\.input_schema|_schema|_json|kwargs|logit_bias)[.[].*$/,
      "$1…",
    );
}

/**
 * Hides why the model could not be loaded from callers who may not know it: the reason may contain paths on this
 * machine. If API keys are set, callers with a valid key see it.
 */
function hideReason(thrown: unknown, call: Call, { session, settings }: AppDeps): unknown {
  const { state } = session;
  const isReason = state.phase === "failed" && !("isChanged" in state) &&
    thrown instanceof HearthError &&
    thrown.kind === "model_not_loaded";
  if (!isReason) return thrown;
  const mayKnow = settings.apiKeys.length > 0
    ? showsKey(call.req.raw, settings.apiKeys)
    : isLocal(call.req.raw, call.env, settings);
  if (mayKnow) return thrown;
  return new HearthError(
    "model_not_loaded",
    "The model is not initialized: it could not be loaded; the server's log says why.",
  );
}
