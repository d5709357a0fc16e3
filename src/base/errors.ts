/**
 * The kinds of errors that Hearth reports to a client or a user.
 *
 * @module
 */

/** Every kind of error a client can see: the `code` of the nested error shape. */
export type ErrorKind =
  | "invalid_http"
  | "invalid_json"
  | "invalid_value"
  | "input_audio_buffer_commit_empty"
  | "invalid_media"
  | "missing_file"
  | "unsupported_format"
  | "unsupported_by_model"
  | "context_length_exceeded"
  | "invalid_api_key"
  | "forbidden"
  | "not_found"
  | "model_not_found"
  | "method_not_allowed"
  | "request_timeout"
  | "payload_too_large"
  | "unsupported_media_type"
  | "upgrade_required"
  | "headers_too_large"
  | "overloaded"
  | "inference_failed"
  | "model_not_loaded"
  | "shutting_down";

/** An error as plain data, which can cross from the worker to the server. */
export interface WireError {
  readonly kind: ErrorKind;
  readonly message: string;
  readonly param?: string | undefined;
  /** The server's setting that the error is about, if the message does not name it yet. */
  readonly setting?: Setting;
}

/** An error whose message is meant for the client. */
export class HearthError extends Error {
  override readonly name = "HearthError";
  readonly kind: ErrorKind;
  /** Path of the invalid field in the request (`messages[0].content`) or in its task (`logitBias["7"]`). */
  readonly param: string | undefined;
  /** The server's setting that the error is about. */
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

  /** Converts the error to an object that can cross a message port. */
  toWire(): WireError {
    const { kind, message, param, setting } = this;
    return { kind, message, param, ...setting && { setting } };
  }

  /**
   * Converts any thrown value to a `HearthError`. A value that is not one becomes `inference_failed`, with the original
   * as `cause` for the log.
   */
  static from(error: unknown): HearthError {
    if (error instanceof HearthError) return error;
    return new HearthError(
      "inference_failed",
      "The model failed on this request; the server's log says why.",
      { cause: error },
    );
  }
}

/** The error for media that cannot be read. */
export function invalidMedia(message: string, cause?: unknown): HearthError {
  return new HearthError("invalid_media", message, { cause });
}

/** The settings that decide whether a model can be loaded, or a request served. */
export type Setting =
  | "device"
  | "dtype"
  | "kind"
  | "kvCacheDtype"
  | "kvCacheMb"
  | "maxBatchTokens"
  | "maxModelLength"
  | "offline"
  | "speakerEncoderFolder"
  | "vadFolder";

/** The names under which users know settings: flags of the command line. */
export type SettingNames = Readonly<Record<Setting, string>>;

/** An error that ends a command: the message and the setting go to standard error, and the process exits with 1. */
export class StartupError extends Error {
  override readonly name = "StartupError";
  /** The setting that the error is about. */
  readonly setting: Setting | undefined;

  constructor(message: string, options: { cause?: unknown; setting?: Setting | undefined } = {}) {
    super(message, { cause: options.cause });
    this.setting = options.setting;
  }
}

/** Whether the operating system reported the error. The message of such an error says what was refused and why. */
export function isSystemError(error: unknown): error is Error {
  return error instanceof Error && /\(os error \d+\)/.test(error.message);
}

/**
 * Runs one step of starting up.
 *
 * @param explain converts the message of an error that the step throws to a message for the user.
 * @throws {StartupError} with that message.
 */
export async function runStartupStep<T>(
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

/** The reason why something is refused, and the setting that would allow it. */
export interface Refusal {
  readonly message: string;
  readonly setting?: Setting | undefined;
}

/** Makes the message of a refusal, with the name under which the user knows the setting. */
export function formatRefusal({ message, setting }: Refusal, names: SettingNames): string {
  return setting === undefined ? message : `${message} (${names[setting]})`;
}
