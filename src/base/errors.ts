/**
 * The few kinds of error Hearth tells a client about, and the one table from kind to HTTP.
 *
 * @module
 */

interface ErrorShape {
  readonly status: number;
  /** OpenAI's `error.type`. */
  readonly type: string;
  readonly retryAfterSeconds?: number;
  /** How a client may authenticate (RFC 9110, `WWW-Authenticate`). */
  readonly challenge?: string;
}

/** Every kind of error a client can see; the key is the `code` of the nested error shape. */
export const ERROR_KINDS = {
  invalid_http: { status: 400, type: "invalid_request_error" },
  invalid_json: { status: 400, type: "invalid_request_error" },
  invalid_value: { status: 400, type: "invalid_request_error" },
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
  headers_too_large: { status: 431, type: "invalid_request_error" },
  overloaded: { status: 429, type: "rate_limit_error", retryAfterSeconds: 1 },
  inference_failed: { status: 500, type: "server_error" },
  model_not_loaded: { status: 503, type: "service_unavailable", retryAfterSeconds: 2 },
  shutting_down: { status: 503, type: "service_unavailable", retryAfterSeconds: 2 },
} as const satisfies Record<string, ErrorShape>;

export type ErrorKind = keyof typeof ERROR_KINDS;

/** An error as it crosses from the worker to the server. */
export interface WireError {
  readonly kind: ErrorKind;
  readonly message: string;
  readonly param?: string | undefined;
  /** The server's setting that it is about, which the message does not name yet. */
  readonly setting?: Setting;
}

/** An error whose message is meant for the client. */
export class HearthError extends Error {
  override readonly name = "HearthError";
  readonly kind: ErrorKind;
  /** Path of the invalid field, of the request (`messages[0].content`) or of its task (`logitBias["7"]`). */
  readonly param: string | undefined;
  /** The server's setting that it is about. */
  readonly setting: Setting | undefined;

  constructor(
    kind: ErrorKind,
    message: string,
    options: {
      param?: string | undefined;
      setting?: Setting | undefined;
      cause?: unknown;
    } = {},
  ) {
    super(message, { cause: options.cause });
    this.kind = kind;
    this.param = options.param;
    this.setting = options.setting;
  }

  /** Rebuilds an error that crossed from the worker. */
  static fromWire(wire: WireError): HearthError {
    return new HearthError(wire.kind, wire.message, { param: wire.param });
  }

  /** The form that can cross a message port. */
  toWire(): WireError {
    const { kind, message, param, setting } = this;
    return { kind, message, param, ...setting && { setting } };
  }

  /**
   * Any thrown value as a `HearthError`: any other becomes `inference_failed`, with the original as `cause` for the
   * log.
   */
  static from(error: unknown): HearthError {
    if (error instanceof HearthError) return error;
    return new HearthError(
      "inference_failed",
      "The model failed while it worked on this request; the server's log says why.",
      {
        cause: error,
      },
    );
  }
}

/** What a person can set that keeps a model from loading, or would let it load. */
export type Setting =
  | "device"
  | "dtype"
  | "kind"
  | "kvCacheDtype"
  | "kvCacheMb"
  | "maxModelLength"
  | "offline"
  | "speakerEncoderFolder"
  | "vadFolder";

/** What the person calls them. */
export type SettingNames = Readonly<Record<Setting, string>>;

/** A command cannot go on: the message goes to standard error as it is, and the process exits with 1. */
export class StartupError extends Error {
  override readonly name = "StartupError";
  /** The setting that it is about. */
  readonly setting: Setting | undefined;

  constructor(message: string, options: { cause?: unknown; setting?: Setting | undefined } = {}) {
    super(message, { cause: options.cause });
    this.setting = options.setting;
  }
}

/** Whether the operating system refused something; the message says what and why. */
export function isSystemError(error: unknown): error is Error {
  return error instanceof Error && /\(os error \d+\)/.test(error.message);
}

/**
 * Does a step of a start.
 *
 * @param explain makes the message of that of whatever the step throws.
 * @throws {StartupError} with that message.
 */
export async function startupStep<T>(
  step: () => Promise<T>,
  explain: (reason: string) => string,
  setting?: Setting,
): Promise<T> {
  try {
    return await step();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new StartupError(explain(reason), { cause, setting });
  }
}

/** Why something is not possible, and the setting that would change that. */
export interface Refusal {
  readonly message: string;
  readonly setting?: Setting | undefined;
}

/** The message, and what the person calls the setting that it is about. */
export function startupMessage({ message, setting }: Refusal, names: SettingNames): string {
  return setting === undefined ? message : `${message} (${names[setting]})`;
}
