/**
 * `GET /` and `GET /docs`: the web page for the loaded model, and Swagger UI for the API's description.
 *
 * @module
 */
import script from "../../../ui/built/script.js" with { type: "text" };
import icon from "../../../ui/icon.svg" with { type: "text" };
import page from "../../../ui/page.html" with { type: "text" };
import style from "../../../ui/style.css" with { type: "text" };
import type { ListenSettings } from "../../../base/config.ts";
import type { Call, Route } from "../route.ts";

/**
 * Writes the page's Content-Security-Policy. Styles come from style sheets and scripts (CSSOM), the fonts of formulas
 * are embedded in a style sheet, and recordings, files and results are shown from blobs.
 *
 * @param connected origins to which the page may connect besides its own.
 */
function writePolicy(connected: readonly string[]): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "font-src data:",
    "img-src 'self' data: blob:",
    "media-src 'self' data: blob:",
    ["connect-src 'self'", ...connected].join(" "),
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}

/** Maximum number of additional servers that the page may connect to. */
const MAX_ORIGINS = 20;

/**
 * Writes the policy for one request of the page. The page connects only to its own server and to MCP servers that its
 * user has added. Their origins are in the page's address: `/?connect=https://mcp.example.org`.
 */
function writePagePolicy(call: Call): string {
  return writePolicy((call.req.queries("connect") ?? []).filter(isOrigin).slice(0, MAX_ORIGINS));
}

function isOrigin(text: string): boolean {
  return /^https?:\/\/[\w.:[\]-]+$/.test(text) && URL.parse(text)?.origin === text;
}

/**
 * The page's files, by path. They hold nothing about the model or its users, because the page itself asks for the API
 * key. Large files are read on first use.
 */
const FILES: Readonly<
  Record<string, readonly [type: string, read: () => string | Promise<string>]>
> = {
  "/": ["text/html", () => page],
  "/page/script.js": ["text/javascript", () => script],
  "/page/style.css": ["text/css", () => style],
  "/page/icon.svg": ["image/svg+xml", () => icon],
  "/page/code_colours.js": ["text/javascript", async () => {
    const part = await import("../../../ui/built/code_colours.js", { with: { type: "text" } });
    return part.default;
  }],
  "/page/formulas.js": ["text/javascript", async () => {
    const part = await import("../../../ui/built/formulas.js", { with: { type: "text" } });
    return part.default;
  }],
  "/page/microphone_worklet.js": ["text/javascript", async () => {
    const part = await import("../../../ui/built/microphone_worklet.js", {
      with: { type: "text" },
    });
    return part.default;
  }],
  "/page/mcp.js": ["text/javascript", async () => {
    const part = await import("../../../ui/built/mcp.js", { with: { type: "text" } });
    return part.default;
  }],
  "/page/formulas.css": ["text/css", async () => {
    const part = await import("../../../ui/built/formulas.css", { with: { type: "text" } });
    return part.default;
  }],
};

/** Whether a path is one of the page's own files, which anyone may read. */
export function isPageFile(path: string): boolean {
  return Object.hasOwn(FILES, path);
}

/** Routes of the page and its files; with `--no-ui`, a redirect to the API's description instead. */
export function pageRoutes({ settings }: { readonly settings: ListenSettings }): Route[] {
  if (!settings.ui) {
    return [{ method: "GET", path: "/", handle: (call) => call.redirect("docs") }];
  }
  return Object.entries(FILES).map(([path, [type, read]]) =>
    staticRoute(path, { type, policy: path === "/" ? writePagePolicy : writePolicy([]), read })
  );
}

/**
 * Serves one file.
 *
 * @param options.policy the Content-Security-Policy, or a function that writes it for a request.
 * @param options.read reads the file. For clients that take gzip, it is read and compressed only once.
 */
function staticRoute(
  path: string,
  { type, policy, read }: {
    readonly type: string;
    readonly policy: string | ((call: Call) => string);
    readonly read: () => string | Promise<string>;
  },
): Route {
  let packed: Promise<Uint8Array<ArrayBuffer>> | undefined;
  const makeHeaders = (call: Call) => ({
    "content-type": `${type}; charset=utf-8`,
    "content-security-policy": typeof policy === "string" ? policy : policy(call),
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
    "vary": "accept-encoding",
  });
  return {
    method: "GET",
    path,
    handle: async (call) => {
      const headers = makeHeaders(call);
      const takesGzip = /\bgzip\b/.test(call.req.header("accept-encoding") ?? "");
      if (!takesGzip) return call.body(await read(), 200, headers);
      packed ??= Promise.try(read).then(gzip);
      return call.body(await packed, 200, { ...headers, "content-encoding": "gzip" });
    },
  };
}

async function gzip(text: string): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  return await new Response(stream).bytes();
}

const DOCS_PAGE = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Hearth API</title>
    <link rel="icon" href="data:,">
    <link rel="stylesheet" href="docs/swagger-ui.css">
    <script defer src="docs/swagger-ui-bundle.js"></script>
    <script defer src="docs/start.js"></script>
  </head>
  <body>
    <main
      id="api"><noscript>This page needs JavaScript; <a href="openapi.json">openapi.json</a> does not.</noscript></main>
  </body>
</html>
`;

const DOCS_SCRIPT = `SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#api",
  deepLinking: true,
  validatorUrl: null,
});
`;

/** The Content-Security-Policy of `/docs`. The style sheet of Swagger UI has icons as data URLs. */
const DOCS_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** Routes of Swagger UI and its files. Large files are read on first use. */
export function docsRoutes(): Route[] {
  return [
    docsFile("/docs", "text/html", () => Promise.resolve(DOCS_PAGE)),
    docsFile("/docs/start.js", "text/javascript", () => Promise.resolve(DOCS_SCRIPT)),
    docsFile("/docs/swagger-ui-bundle.js", "text/javascript", async () => {
      const bundle = await import("swagger-ui-dist/swagger-ui-bundle.js", {
        with: { type: "text" },
      });
      return bundle.default;
    }),
    docsFile("/docs/swagger-ui.css", "text/css", async () => {
      const style = await import("swagger-ui-dist/swagger-ui.css", { with: { type: "text" } });
      return style.default;
    }),
  ];
}

function docsFile(path: string, type: string, read: () => Promise<string>): Route {
  return staticRoute(path, { type, policy: DOCS_POLICY, read });
}
