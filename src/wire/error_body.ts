/**
 * The JSON of errors. Hearth's API has three shapes, chosen by path and status. Endpoints of Anthropic's API and of
 * text-embeddings-inference have shapes of their own.
 *
 * @module
 */
import { z } from "zod";
import type { ErrorKind, HearthError } from "../base/errors.ts";

/** OpenAI's shape, used unless another one is required. */
const NestedError = z.object({
  error: z.object({
    message: z.string(),
    type: z.string(),
    code: z.string(),
    param: z.string().optional().describe("Path of the invalid field"),
  }),
}).meta({ id: "NestedError" });

/** The short shape. */
const FlatError = z.object({ error: z.string() }).meta({ id: "FlatError" });

/** The shape of a failed health check. */
const HealthFailure = z.object({ status: z.literal("unhealthy"), error: z.string() })
  .meta({ id: "HealthFailure" });

/** Anthropic's shape. */
const AnthropicError = z.object({
  type: z.literal("error"),
  error: z.object({ type: z.string(), message: z.string() }),
}).meta({ id: "AnthropicError" });

/** The shape of text-embeddings-inference. */
const TextError = z.object({
  error: z.string(),
  error_type: z.enum(["Validation", "Overloaded", "Unhealthy", "Backend"]),
}).meta({ id: "TextError" });

/** Text-embeddings-inference's names of errors, by status; all others are `Validation`. */
const TEXT_TYPES: Readonly<Record<number, z.output<typeof TextError>["error_type"]>> = {
  429: "Overloaded",
  500: "Backend",
  503: "Unhealthy",
};

/** Anthropic's names of errors, by status; all others are `api_error`. */
const ANTHROPIC_TYPES: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  405: "invalid_request_error",
  408: "invalid_request_error",
  413: "request_too_large",
  415: "invalid_request_error",
  429: "rate_limit_error",
  503: "overloaded_error",
};

/** The statuses with the short shape, by path. */
const FLAT: Readonly<Record<string, readonly number[]>> = {
  "/models": [503],
  "/embeddings": [400],
  "/rerank": [400],
  "/v2/rerank": [400],
  "/shutdown": [403],
};

/** Returns a path without the prefix `/v1`. */
export function toBarePath(path: string): string {
  return path.replace(/^\/v1(?=\/)/, "");
}

/** Chooses the schema of errors with `status` on `path`, which may have the prefix `/v1`. */
export function chooseErrorSchema(
  path: string,
  status: number,
):
  | typeof NestedError
  | typeof FlatError
  | typeof HealthFailure
  | typeof AnthropicError
  | typeof TextError {
  const bare = toBarePath(path);
  if (bare === "/health" && status === 503) return HealthFailure;
  if (/^\/messages(\/|$)/.test(bare)) return AnthropicError;
  if (bare === "/embed" || (bare === "/" && ![403, 405].includes(status))) return TextError;
  return FLAT[bare]?.includes(status) ? FlatError : NestedError;
}

/** Converts an error to the nested shape. */
export function toNestedError(error: HearthError): z.output<typeof NestedError> {
  const { message, kind: code, param } = error;
  const { type } = ERROR_KINDS[code];
  return { error: { message, type, code, ...(param !== undefined && { param }) } };
}

/** Converts an error to Anthropic's shape. */
export function toAnthropicError({ kind, message }: HearthError): z.output<typeof AnthropicError> {
  const type = ANTHROPIC_TYPES[ERROR_KINDS[kind].status] ?? "api_error";
  return { type: "error", error: { type, message } };
}

/** Makes the response to a request for `path` that failed with `error`. */
export function makeErrorResponse(path: string, error: HearthError): {
  status: number;
  body: unknown;
  headers: Record<string, string>;
} {
  const { status, ...kind } = ERROR_KINDS[error.kind];
  const headers: Record<string, string> = {
    ...("retryAfterSeconds" in kind && { "retry-after": String(kind.retryAfterSeconds) }),
    ...("challenge" in kind && { "www-authenticate": kind.challenge }),
  };
  const shape = chooseErrorSchema(path, status);
  if (shape === NestedError) return { status, body: toNestedError(error), headers };
  if (shape === AnthropicError) return { status, body: toAnthropicError(error), headers };
  if (shape === FlatError) return { status, body: { error: error.message }, headers };
  if (shape === TextError) {
    const type = TEXT_TYPES[status] ?? "Validation";
    return { status, body: { error: error.message, error_type: type }, headers };
  }
  return { status, body: { status: "unhealthy", error: error.message }, headers };
}

interface ErrorShape {
  readonly status: number;
  /** Value of OpenAI's `error.type`. */
  readonly type: string;
  readonly retryAfterSeconds?: number;
  /** How a client may authenticate (RFC 9110, `WWW-Authenticate`). */
  readonly challenge?: string;
}

/** The HTTP status and headers of every kind of error. */
export const ERROR_KINDS = {
  invalid_http: { status: 400, type: "invalid_request_error" },
  invalid_json: { status: 400, type: "invalid_request_error" },
  invalid_value: { status: 400, type: "invalid_request_error" },
  // OpenAI's code for a commit without audio, which clients of live transcription check.
  input_audio_buffer_commit_empty: { status: 400, type: "invalid_request_error" },
  invalid_media: { status: 400, type: "invalid_request_error" },
  missing_file: { status: 400, type: "invalid_request_error" },
  unsupported_format: { status: 400, type: "invalid_request_error" },
  unsupported_by_model: { status: 400, type: "invalid_request_error" },
  context_length_exceeded: { status: 400, type: "invalid_request_error" },
  invalid_api_key: { status: 401, type: "authentication_error", challenge: "Bearer" },
  forbidden: { status: 403, type: "permission_error" },
  not_found: { status: 404, type: "invalid_request_error" },
  model_not_found: { status: 404, type: "invalid_request_error" },
  method_not_allowed: { status: 405, type: "invalid_request_error" },
  request_timeout: { status: 408, type: "invalid_request_error" },
  payload_too_large: { status: 413, type: "invalid_request_error" },
  unsupported_media_type: { status: 415, type: "invalid_request_error" },
  upgrade_required: { status: 426, type: "invalid_request_error" },
  headers_too_large: { status: 431, type: "invalid_request_error" },
  overloaded: { status: 429, type: "rate_limit_error", retryAfterSeconds: 1 },
  inference_failed: { status: 500, type: "server_error" },
  model_not_loaded: { status: 503, type: "service_unavailable", retryAfterSeconds: 2 },
  shutting_down: { status: 503, type: "service_unavailable", retryAfterSeconds: 2 },
} as const satisfies Record<ErrorKind, ErrorShape>;
