/**
 * The router as a function from a request to its response.
 *
 * @module
 */
import { Hono, type MiddlewareHandler } from "hono";
import type { ListenSettings } from "../base/config.ts";
import { collectGarbageLater } from "../base/collect_garbage.ts";
import { HearthError } from "../base/errors.ts";
import { addRoutes } from "../server/http/app.ts";
import { bothPaths, guard, requireApiKey } from "../server/http/access.ts";
import {
  answerError,
  CLIENT_DISCONNECTED,
  nameRequest,
  plainPath,
  shownPath,
} from "../server/http/request_names.ts";
import type { BodyLimits } from "../server/http/body/body.ts";
import type { App } from "../server/http/connection/node_bridge.ts";
import { isLocal, isLoopback } from "../server/http/locality.ts";
import { pageRoutes } from "../server/http/pages/page.ts";
import type { Call, Env } from "../server/http/route.ts";
import { announceShutdown, type StopDeps } from "../server/http/shutdown.ts";
import { log } from "../base/log.ts";
import { chooseModel } from "./choose_model.ts";
import { asksForEvents, streamEarly } from "./early_stream.ts";
import { forward } from "./forward.ts";
import type { ModelPool } from "./model_pool.ts";
import { ownRoutes } from "./own_routes.ts";
import { readModelName } from "./read_model_name.ts";
import { RouterMetrics } from "./router_metrics.ts";

/** What the router depends on. */
export interface RouterDeps extends StopDeps {
  readonly pool: ModelPool;
  readonly bodyLimits: BodyLimits;
  /** Whether the router is shutting down. */
  readonly isStopping: () => boolean;
}

/** Creates the app with the router's own endpoints and those of the models behind it; each also answers below `/v1`. */
export function createRouterApp(deps: RouterDeps): App {
  const { pool, settings } = deps;
  const metrics = new RouterMetrics(pool);
  const app = new Hono<Env>({ getPath: plainPath });
  app.use(identify(metrics));
  app.on("POST", bothPaths("/shutdown"), announceShutdown(deps));
  app.use(guard(settings), requireApiKey(settings));
  addRoutes(app, [...ownRoutes({ ...deps, metrics }), ...pageRoutes(deps)]);
  app.all("*", (call) => passToModel(call, deps));
  app.onError(answerError);
  return async (request, exchange) => await app.fetch(request, exchange);
}

async function passToModel(call: Call, deps: RouterDeps): Promise<Response> {
  const { pool, bodyLimits: limits, settings } = deps;
  const { raw } = call.req;
  using share = limits.budget.open();
  const named = await readModelName(raw, { limits, share, isWhole: call.env.isWhole });
  const name = named.name ?? call.req.query("model");
  const path = call.req.path.replace(/^\/v1(?=\/)/, "");
  const model = chooseModel(pool.states.map((state) => state.model), { name, path });
  call.set("model", model.id);
  const answer = (async () => {
    const lease = await pool.acquire(model, raw.signal);
    return await forward(raw, {
      lease,
      body: named.body,
      requestId: call.get("requestId"),
      remoteAddress: isLocalCall(call, settings) ? undefined : call.env.callerAddress,
      upgrade: call.env.upgrade,
    });
  })();
  const { status, failure } = pool.states.find((state) => state.model.id === model.id)!;
  // If a model could not be loaded the last time, the client should get a real error status rather than an early
  // stream.
  const isEarly = status !== "loaded" && failure === undefined && asksForEvents(raw, named.body);
  return isEarly ? streamEarly(raw, answer) : await answer;
}

/**
 * Whether a call is local, by the same rule as for a model's own server. If other machines may call, no call counts as
 * local.
 */
function isLocalCall(call: Call, settings: ListenSettings): boolean {
  return isLoopback(settings.host) && isLocal(call.req.raw, call.env, settings);
}

/** Gives each request an id, and logs and counts the request when its response is complete. */
function identify(metrics: RouterMetrics): MiddlewareHandler<Env> {
  return async (call, next) => {
    const startMs = performance.now();
    const requestId = nameRequest(call.req.raw);
    call.set("requestId", requestId);
    await next();
    const { status, headers } = call.res;
    headers.set("x-request-id", requestId);
    headers.set("x-content-type-options", "nosniff");
    call.env.completed.then(() => {
      const { method, raw: { signal } } = call.req;
      const seconds = (performance.now() - startMs) / 1000;
      const ending = signal.aborted ? CLIENT_DISCONNECTED : status;
      const model = call.get("model") ?? "none";
      metrics.observe({ model, method, status: ending, seconds });
      const write = method === "POST" ? log.info : log.debug;
      write("request", {
        requestId,
        method,
        path: shownPath(call),
        model,
        status: ending,
        ...(call.error instanceof HearthError && { code: call.error.kind }),
        key: call.get("keyLabel"),
        seconds: Number(seconds.toFixed(3)),
      });
      if (method === "POST") collectGarbageLater();
    });
  };
}
