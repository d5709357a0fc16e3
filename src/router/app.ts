/**
 * The router as a function from a request to its response.
 *
 * @module
 */
import { Hono } from "hono";
import type { ListenSettings } from "../base/config.ts";
import { addRoutes } from "../server/http/app.ts";
import { bothPaths, guard, requireApiKey } from "../server/http/access.ts";
import { answerError, identify, plainPath } from "../server/http/requests.ts";
import type { BodyLimits } from "../server/http/body/body.ts";
import type { App } from "../server/http/connection/node_bridge.ts";
import { isLocal, isLoopback } from "../server/http/locality.ts";
import { pageRoutes } from "../server/http/pages/page.ts";
import type { Call, Env } from "../server/http/route.ts";
import { type RunningServer, serveApp } from "../server/http/server.ts";
import { announceShutdown, type StopDeps } from "../server/http/server_routes.ts";
import { chooseModel } from "./choose_model.ts";
import { asksForEvents, streamEarly } from "./early_stream.ts";
import { forward } from "./forward.ts";
import type { ModelPool } from "./model_pool.ts";
import { ownRoutes } from "./own_routes.ts";
import { readModelName } from "./read_model_name.ts";
import { RouterMetrics } from "./router_metrics.ts";

/** What the router depends on. */
interface RouterDeps extends StopDeps {
  readonly pool: ModelPool;
  readonly bodyLimits: BodyLimits;
  /** Whether the router is shutting down. */
  readonly isStopping: () => boolean;
}

/** Creates the app with the router's own endpoints and those of the models behind it; each also answers below `/v1`. */
function createRouterApp(deps: RouterDeps): App {
  const { pool, settings } = deps;
  const metrics = new RouterMetrics(pool);
  const app = new Hono<Env>({ getPath: plainPath });
  app.use(identify({
    begin: (call) => call.set("model", "none"),
    end: (call, ended) => {
      metrics.requests.observe(call.get("model")!, ended);
      return {};
    },
  }));
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

/** Serves the router on a port. The models' processes end with it. @throws as {@linkcode serveApp}. */
export function startRouter(deps: Omit<RouterDeps, "isStopping">): RunningServer {
  let isStopping = false;
  const app = createRouterApp({ ...deps, isStopping: () => isStopping });
  return serveApp(app, {
    settings: deps.settings,
    streamsAll: true,
    // The processes end when their requests are answered, or the grace period is over.
    drain: () => {
      isStopping = true;
      return deps.pool.close();
    },
  });
}
