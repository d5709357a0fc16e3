/**
 * The router as a function from a request to its response.
 *
 * @module
 */
import { Hono } from "hono";
import type { ListenSettings } from "../base/config.ts";
import { HearthError } from "../base/errors.ts";
import { within } from "../base/timing.ts";
import { addRoutes, explainNoEndpoint } from "../server/http/app.ts";
import { guard, listBothPaths, requireApiKey } from "../server/http/access.ts";
import { answerError, toPlainPath, trackRequests } from "../server/http/requests.ts";
import { type BodyLimits, readJson } from "../server/http/body/body.ts";
import { type App, KEEP_ALIVE, KEEP_ALIVE_MS } from "../server/http/connection/node_bridge.ts";
import { isLocal, isLoopback } from "../server/http/locality.ts";
import { pageRoutes } from "../server/http/pages/page.ts";
import type { Call, Env } from "../server/http/route.ts";
import { type RunningServer, serveApp } from "../server/http/server.ts";
import { announceShutdown, type StopDeps } from "../server/http/server_routes.ts";
import { refusePostToRoot } from "../server/http/texts/embeddings.ts";
import { toBarePath } from "../wire/error_body.ts";
import { chooseModel } from "./routed_model.ts";
import { formatError, formatErrorBody, forward } from "./forward.ts";
import type { ModelPool } from "./model_pool.ts";
import { listRoutes } from "./list_routes.ts";
import { type NamedBody, readModelName } from "./read_model_name.ts";
import { RouterMetrics } from "./router_metrics.ts";

interface RouterDeps extends StopDeps {
  readonly pool: ModelPool;
  readonly bodyLimits: BodyLimits;
  /** Whether the router is shutting down. */
  readonly isStopping: () => boolean;
}

/** Creates the app with the router's own endpoints and those of its models. Each endpoint also answers below `/v1`. */
function createRouterApp(deps: RouterDeps): App {
  const { pool, settings } = deps;
  const metrics = new RouterMetrics(pool);
  const app = new Hono<Env>({ getPath: toPlainPath });
  app.use(trackRequests({
    begin: (call) => call.set("model", "none"),
    end: (call, ended) => {
      metrics.requests.observe(call.get("model")!, ended);
      return {};
    },
  }));
  app.on("POST", listBothPaths("/shutdown"), announceShutdown(deps));
  app.use(guard(settings), requireApiKey(settings));
  const passOn = (call: Call) => passToModel(call, deps);
  const routes = [...listRoutes({ ...deps, metrics, passOn }), ...pageRoutes(deps)];
  addRoutes(app, routes);
  app.notFound((call) => {
    throw new HearthError("not_found", explainNoEndpoint(call, routes));
  });
  app.onError(answerError);
  return async (request, exchange) => await app.fetch(request, exchange);
}

/** Whether a model may take texts that are posted to `/`: an embedding model, or one of unknown kind. */
function takesTexts({ states }: ModelPool): boolean {
  return states.some(({ model: { kind } }) => kind === "embedding" || kind === undefined);
}

async function passToModel(call: Call, deps: RouterDeps): Promise<Response> {
  const { pool, bodyLimits: limits, settings } = deps;
  if (call.req.path === "/" && !takesTexts(pool)) return refusePostToRoot(call);
  const { raw } = call.req;
  using share = limits.budget.open();
  const named = await readModelName(raw, { limits, share, isWhole: call.env.isWhole });
  const name = named.name ?? call.req.query("model");
  const path = toBarePath(call.req.path);
  if (name === undefined) await requireJson(raw, named.body, limits);
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
  // If the last attempt to load the model failed, this one may fail too. An early stream could not report that by its
  // status.
  const isEarly = status !== "loaded" && failure === undefined && asksForEvents(raw, named.body);
  return isEarly ? streamEarly(raw, answer) : await answer;
}

/**
 * Checks that a body without a model's name is JSON, if it claims to be.
 *
 * @throws {HearthError} as {@linkcode readJson} does. "Name a model" would hide the fault.
 */
async function requireJson(
  { url, method, headers }: Request,
  body: NamedBody["body"],
  limits: BodyLimits,
): Promise<void> {
  const isWholeJson = body instanceof Uint8Array && /json/i.test(headers.get("content-type") ?? "");
  if (isWholeJson) await readJson(new Request(url, { method, headers, body }), limits);
}

/**
 * Whether a call gets the rights of a local caller at the model's process. No call gets them if the router listens for
 * other machines too. The same rule decides about the media of a server with one model.
 */
function isLocalCall(call: Call, settings: ListenSettings): boolean {
  return isLoopback(settings.host) && isLocal(call.req.raw, call.env, settings);
}

/** Serves the router on a port. The models' processes end with the router. @throws as {@linkcode serveApp} does. */
export function startRouter(deps: Omit<RouterDeps, "isStopping">): RunningServer {
  let isStopping = false;
  const app = createRouterApp({ ...deps, isStopping: () => isStopping });
  return serveApp(app, {
    settings: deps.settings,
    streamsAll: true,
    // Each process ends when its requests are answered, or when its own grace period is over.
    drain: () => {
      isStopping = true;
      return deps.pool.close();
    },
  });
}

// If a request asks for a stream and its model is still loading, the response's headers are sent at once: clients and
// proxies wait longer for events than for headers.

const STREAMING_PATHS = /^\/(v1\/)?(chat\/completions|completions|responses|messages)$/;

const encoder = new TextEncoder();

/** Whether a request asks for a stream of events. Only small bodies are examined. */
function asksForEvents(request: Request, body: NamedBody["body"]): boolean {
  if (!(body instanceof Uint8Array) || !STREAMING_PATHS.test(new URL(request.url).pathname)) {
    return false;
  }
  try {
    return JSON.parse(new TextDecoder().decode(body)).stream === true;
  } catch {
    return false;
  }
}

/**
 * Starts a stream at once, and later passes on the events of `answer`. By then the status has been sent, so an error
 * becomes an event.
 */
function streamEarly(request: Request, answer: Promise<Response>): Response {
  const opened = openEvents(request, answer);
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      reader ??= await within(opened, KEEP_ALIVE_MS);
      if (reader === undefined) return controller.enqueue(encoder.encode(KEEP_ALIVE));
      const { done, value } = await reader.read();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel(reason) {
      await (await opened).cancel(reason).catch(() => {});
    },
  }, { highWaterMark: 0 });
  return new Response(body, {
    headers: {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache",
      "x-accel-buffering": "no",
    },
  });
}

/** Returns a reader of a response's events. An error becomes a single event. Never rejects. */
async function openEvents(
  request: Request,
  answer: Promise<Response>,
): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  let text: string;
  try {
    const response = await answer;
    if (response.ok) return response.body!.getReader();
    text = formatErrorBody(new URL(request.url).pathname, await response.json());
  } catch (thrown) {
    text = formatError(request, HearthError.from(thrown));
  }
  return ReadableStream.from([encoder.encode(text)]).getReader();
}
