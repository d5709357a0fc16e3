/**
 * `GET /`: the web page of the loaded model, made of static files of `src/ui/`.
 *
 * @module
 */
import icon from "../../../ui/icon.svg" with { type: "text" };
import page from "../../../ui/page.html" with { type: "text" };
import script from "../../../ui/script.js" with { type: "text" };
import style from "../../../ui/style.css" with { type: "text" };
import type { AppDeps, Route } from "../route.ts";
import { staticRoute } from "./static_route.ts";

/** Styles are set by the style sheet and by scripts (CSSOM); recordings, files and results are shown from blobs. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "media-src 'self' data: blob:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** Files of the page, by path. They hold nothing about the model or its users; the page itself asks for the API key. */
const FILES = {
  "/": ["text/html", page],
  "/page/script.js": ["text/javascript", script],
  "/page/style.css": ["text/css", style],
  "/page/icon.svg": ["image/svg+xml", icon],
} as const;

/** Whether the path is one of the page's own files, which anybody may read. */
export function isPageFile(path: string): boolean {
  return Object.hasOwn(FILES, path);
}

/** The page and its parts; with `--no-ui` a link to the API's description instead. */
export function pageRoutes({ settings }: AppDeps): Route[] {
  if (!settings.ui) {
    return [{ method: "GET", path: "/", handle: (call) => call.redirect("docs") }];
  }
  return Object.entries(FILES).map(([path, [type, text]]) =>
    staticRoute(path, { type, policy: CONTENT_SECURITY_POLICY, read: () => text })
  );
}
