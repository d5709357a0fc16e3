/**
 * What a request needs to be let in: the right host, an allowed origin, a key.
 *
 * @module
 */
import type { MiddlewareHandler } from "hono";
import type { ListenSettings } from "../../base/config.ts";
import { checkApiKey } from "./api_keys.ts";
import { checkHost, checkOrigin } from "./guard.ts";
import { isPageFile } from "./pages/page.ts";
import type { Call, Env } from "./route.ts";

/** A path and the same below `/v1`. */
export function bothPaths(path: string): string[] {
  return path === "/" ? ["/"] : [path, `/v1${path}`];
}

/** Rejects requests that are not allowed, and answers CORS preflights. */
export function guard(settings: ListenSettings): MiddlewareHandler<Env> {
  return async (call, next) => {
    checkHost(call.req.raw, settings);
    const origin = checkOrigin(call.req.raw, settings);
    const isPreflight = call.req.method === "OPTIONS" &&
      call.req.header("access-control-request-method") !== undefined;
    if (isPreflight && origin !== undefined) call.res = preflightAnswer(call);
    else await next();
    if (origin === undefined) return;
    call.res.headers.set("access-control-allow-origin", origin);
    call.res.headers.set("access-control-expose-headers", "x-request-id, retry-after, warning");
    call.res.headers.append("vary", "origin");
  };
}

function preflightAnswer(call: Call): Response {
  return call.body(null, 204, {
    "access-control-allow-methods": "GET, HEAD, POST, DELETE",
    "access-control-allow-headers": call.req.header("access-control-request-headers") ?? "",
    "access-control-max-age": "600",
  });
}

/** All but health, which monitors call without a key, and the page, which asks the user for it. */
export function requireApiKey(settings: ListenSettings): MiddlewareHandler<Env> {
  return async (call, next) => {
    const { path, raw } = call.req;
    const isOpen = bothPaths("/health").includes(path) || isPageFile(path);
    if (!isOpen) call.set("keyLabel", checkApiKey(raw, settings.apiKeys));
    await next();
  };
}
