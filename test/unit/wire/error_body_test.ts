import assert from "node:assert/strict";
import { ERROR_KINDS, makeErrorResponse } from "../../../src/wire/error_body.ts";
import { type ErrorKind, HearthError } from "../../../src/base/errors.ts";

const FLAT: readonly [path: string, status: number][] = [
  ["/models", 503],
  ["/embeddings", 400],
  ["/rerank", 400],
  ["/shutdown", 403],
];
const PATHS = [
  "/health",
  "/models",
  "/models/x",
  "/chat/completions",
  "/embeddings",
  "/rerank",
  "/shutdown",
  "/nope",
];

Deno.test("makeErrorResponse() uses the format of the specification for each path and status", () => {
  for (const kind of Object.keys(ERROR_KINDS) as ErrorKind[]) {
    for (const path of PATHS.flatMap((bare) => [bare, `/v1${bare}`])) {
      const { status, body, headers } = makeErrorResponse(path, new HearthError(kind, "why"));
      const bare = path.replace("/v1", "");
      assert.equal(status, ERROR_KINDS[kind].status);
      assert.equal("retry-after" in headers, status === 429 || status === 503);
      if (bare === "/health" && status === 503) {
        assert.deepEqual(body, { status: "unhealthy", error: "why" });
      } else if (
        FLAT.some(([flatPath, flatStatus]) => flatPath === bare && flatStatus === status)
      ) {
        assert.deepEqual(body, { error: "why" });
      } else {
        assert.deepEqual(body, {
          error: { message: "why", type: ERROR_KINDS[kind].type, code: kind },
        });
      }
    }
  }
});

Deno.test("makeErrorResponse() names the invalid field in the nested format", () => {
  const error = new HearthError("invalid_value", "why", { param: "messages[0].content" });
  assert.deepEqual(makeErrorResponse("/chat/completions", error).body, {
    error: {
      message: "why",
      type: "invalid_request_error",
      code: "invalid_value",
      param: "messages[0].content",
    },
  });
});
