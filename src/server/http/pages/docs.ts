/**
 * `GET /docs`: Swagger UI around the API's description, all of it served from here.
 *
 * @module
 */
import page from "./docs.html" with { type: "text" };
import type { Route } from "../route.ts";
import { staticRoute } from "./page.ts";

const START_SCRIPT = `SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#api",
  deepLinking: true,
  validatorUrl: null,
});
`;

/** Swagger UI sets styles on elements, and draws its icons from data URLs in its own stylesheet. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

/** The page and its parts. The large ones are read when they are first asked for. */
export function docsRoutes(): Route[] {
  return [
    asset("/docs", "text/html", () => Promise.resolve(page)),
    asset("/docs/start.js", "text/javascript", () => Promise.resolve(START_SCRIPT)),
    asset("/docs/swagger-ui-bundle.js", "text/javascript", async () => {
      const bundle = await import("swagger-ui-dist/swagger-ui-bundle.js", {
        with: { type: "text" },
      });
      return bundle.default;
    }),
    asset("/docs/swagger-ui.css", "text/css", async () => {
      const style = await import("swagger-ui-dist/swagger-ui.css", { with: { type: "text" } });
      return style.default;
    }),
  ];
}

function asset(path: string, type: string, read: () => Promise<string>): Route {
  return staticRoute(path, { type, policy: CONTENT_SECURITY_POLICY, read });
}
