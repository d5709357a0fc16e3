/**
 * The id and the path of a request.
 *
 * @module
 */
import type { Call } from "./route.ts";

export const MAX_SHOWN_PATH = 100;

const SANE_REQUEST_ID = /^[\w.:+/=-]{1,128}$/;

/** The client's own id of a request if it is valid, else a new one. */
export function nameRequest({ headers }: Request): string {
  const proposed = headers.get("x-request-id") ?? "";
  return SANE_REQUEST_ID.test(proposed) ? proposed : crypto.randomUUID();
}

/** Removes doubled and trailing slashes from a path, and llama.cpp's name of one. */
export function plainPath(request: Request): string {
  const { pathname } = new URL(request.url);
  return pathname.replace(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "")
    .replace(/^((?:\/v1)?)\/reranking$/, "$1/rerank");
}

/** A request's path for messages and log lines, shortened. */
export function shownPath({ req: { path } }: Call): string {
  return path.length <= MAX_SHOWN_PATH ? path : `${path.slice(0, MAX_SHOWN_PATH)}…`;
}
