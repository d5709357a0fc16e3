/**
 * The one table from a kind of error to HTTP.
 *
 * @module
 */
import type { ErrorKind } from "../base/errors.ts";

interface ErrorShape {
  readonly status: number;
  /** OpenAI's `error.type`. */
  readonly type: string;
  readonly retryAfterSeconds?: number;
  /** How a client may authenticate (RFC 9110, `WWW-Authenticate`). */
  readonly challenge?: string;
}

/** What HTTP has for every kind of error. */
export const ERROR_KINDS = {
  invalid_http: { status: 400, type: "invalid_request_error" },
  invalid_json: { status: 400, type: "invalid_request_error" },
  invalid_value: { status: 400, type: "invalid_request_error" },
  // OpenAI's name, which clients of live speech look for.
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
