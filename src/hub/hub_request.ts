/**
 * Sends requests to the hub, retries them, and explains why the hub refuses one.
 *
 * @module
 */
import { StartupError } from "../base/errors.ts";
import { VERSION } from "../base/config.ts";
import type { HubSettings } from "./cache.ts";
import { sleep } from "../base/timing.ts";

/** Maximum number of bytes that are read from the body of a refusal. */
const MAX_REASON_BYTES = 64 * 2 ** 10;

/** An error of the hub, or of the connection to it. */
export class HubError extends StartupError {
  /** The HTTP status; `undefined` if there was no response. */
  readonly status: number | undefined;
  /** Milliseconds until the hub allows the next request (`Retry-After`). */
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    details: { status?: number | undefined; retryAfterMs?: number | undefined; cause?: unknown } =
      {},
  ) {
    super(message, { cause: details.cause });
    this.status = details.status;
    this.retryAfterMs = details.retryAfterMs;
  }

  /** Whether the same request may succeed later. */
  get isTransient(): boolean {
    const { status } = this;
    return status === undefined || status === 408 || status === 429 || status >= 500;
  }
}

/** Thrown for a hub model without any ONNX graph: asking again does not help. */
export class NoGraphsError extends StartupError {}

interface HubRequest {
  readonly url: string;
  /** The subject of the request in words, for messages. */
  readonly subject: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Sends a request to the hub. Redirects are followed; the token is sent to the hub's own host only.
 *
 * @returns a 2xx response, whose body the caller reads or cancels.
 * @throws {HubError} for any other response, with the hub's reason and what to do, and if there is no response.
 * @throws {StartupError} when `HF_ENDPOINT` is not a web address.
 */
export async function askHub(settings: HubSettings, request: HubRequest): Promise<Response> {
  const { url, subject, headers = {}, signal } = request;
  const { endpoint, token } = settings;
  if (!/^https?:\/\/[^/]/i.test(endpoint)) {
    throw new StartupError(
      `HF_ENDPOINT: want an address such as https://huggingface.co, saw "${endpoint}".`,
    );
  }
  let response: Response;
  try {
    response = await fetch(url, {
      headers: {
        "user-agent": `hearth/${VERSION}`,
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...headers,
      },
      ...(signal === undefined ? {} : { signal }),
    });
  } catch (error) {
    signal?.throwIfAborted();
    throw new HubError(
      `${endpoint} cannot be reached for ${subject}: ${describeError(error)}. ` +
        "Check the network, or name another hub with HF_ENDPOINT.",
      { cause: error },
    );
  }
  if (response.ok) return response;
  throw await explainRefusal(response, settings, subject);
}

/** Extracts the reason from an error of `fetch`, which has it in its cause, or after the address. */
function describeError(error: unknown): string {
  const { message, cause } = error as Error;
  const text = cause instanceof Error ? cause.message : message;
  return cleanText(
    text.replace(/^error sending request( from \S+)? for url \([^)]*\)(: )?/, "") || message,
  );
}

async function explainRefusal(
  response: Response,
  { endpoint, token }: HubSettings,
  subject: string,
): Promise<HubError> {
  const { status, headers } = response;
  const code = headers.get("x-error-code") ?? "";
  const reason = cleanText(headers.get("x-error-message") ?? await readReason(response));
  const says = reason === "" ? `${status}` : `${status}, "${reason}"`;
  return new HubError(
    `${endpoint} refuses ${subject}: ${says}. ${adviseOn({ status, code, token, endpoint })}`,
    { status, retryAfterMs: readRetryAfter(headers.get("retry-after")) },
  );
}

async function readReason(response: Response): Promise<string> {
  const { text } = await readBounded(response, MAX_REASON_BYTES).catch(() => ({ text: "" }));
  try {
    const { error } = JSON.parse(text);
    return typeof error === "string" ? error : "";
  } catch {
    // A proxy's error page has no one-line reason.
    return text.includes("<") ? "" : text;
  }
}

function adviseOn(
  { status, code, token, endpoint }: {
    status: number;
    code: string;
    token: string | undefined;
    endpoint: string;
  },
): string {
  const tokens = `${endpoint}/settings/tokens`;
  if (code === "GatedRepo") {
    return token === undefined
      ? `Ask for access on the model's page, then set HF_TOKEN to a token of yours (${tokens}).`
      : "Ask for access on the model's page with the account that HF_TOKEN belongs to.";
  }
  if (code === "RevisionNotFound") {
    return "After the @, name a branch, a tag or a commit that the model has.";
  }
  if (status === 401 || status === 403 || status === 404) {
    return token === undefined
      ? `Check the name; if the model is private, set HF_TOKEN to a token of yours (${tokens}).`
      : "Check the name, and that HF_TOKEN is valid and may read the model.";
  }
  if (status === 429) return "Wait a while. With HF_TOKEN set, the hub allows more requests.";
  return "Try again later.";
}

/** Converts a `Retry-After` header, which gives seconds or a date, to milliseconds from now. */
function readRetryAfter(value: string | null): number | undefined {
  if (value === null) return undefined;
  const seconds = Number(value);
  const ms = Number.isNaN(seconds) ? Date.parse(value) - Date.now() : seconds * 1000;
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}

const MAX_SHOWN = 300;
/**
 * Control and format characters, which terminals interpret: escapes, line breaks, marks that change the writing
 * direction.
 */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]+/gu;

/**
 * Reads a response's body as UTF-8, `maxBytes` at most; the rest is not received.
 *
 * @returns the text, and whether that is all of it.
 */
export async function readBounded(
  response: Response,
  maxBytes: number,
): Promise<{ readonly text: string; readonly isWhole: boolean }> {
  const decoder = new TextDecoder();
  let text = "";
  let numBytes = 0;
  for await (const chunk of response.body ?? []) {
    const room = maxBytes - numBytes;
    text += decoder.decode(chunk.subarray(0, room), { stream: true });
    // Leaving the loop cancels the body.
    if (chunk.length > room) return { text, isWhole: false };
    numBytes += chunk.length;
  }
  return { text: text + decoder.decode(), isWhole: true };
}

/** Shortens a text to one line for a message, without characters that a terminal would interpret. */
export function cleanText(text: string): string {
  // Cut first, so that the steps below do not process a long text.
  const clean = text.slice(0, 4 * MAX_SHOWN).replaceAll(UNSEEN, " ").trim();
  const points = [...clean];
  return points.length <= MAX_SHOWN ? clean : `${points.slice(0, MAX_SHOWN).join("")}…`;
}

/** Whether a name has no characters that a terminal would interpret. */
export function isPlainName(name: string): boolean {
  return name.search(UNSEEN) < 0;
}

const MAX_FAILURES = 5;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 60_000;

export interface RetryOptions {
  readonly signal?: AbortSignal | undefined;
  /** Consecutive failures after which to give up; 5 if absent. */
  readonly maxFailures?: number | undefined;
  readonly pause?: typeof sleep | undefined;
}

/** Counts the consecutive failures of one operation. */
export class Retries {
  readonly #options: RetryOptions;
  #numFailures = 0;

  constructor(options: RetryOptions) {
    this.#options = options;
  }

  /** Forgets earlier failures after a success. */
  reset(): void {
    this.#numFailures = 0;
  }

  /**
   * Waits before the next attempt: half a second, then one, two and four seconds, with jitter, or as long as the hub
   * asks for.
   *
   * @throws the error itself if it must not be retried, or after too many consecutive failures.
   */
  async waitAfter(error: unknown): Promise<void> {
    const { signal, maxFailures = MAX_FAILURES, pause = sleep } = this.#options;
    signal?.throwIfAborted();
    this.#numFailures++;
    if (!(error instanceof HubError && error.isTransient)) throw error;
    if (this.#numFailures >= maxFailures) throw error;
    const grown = FIRST_PAUSE_MS * 2 ** (this.#numFailures - 1) * (0.75 + Math.random() / 2);
    await pause(Math.min(error.retryAfterMs ?? grown, LONGEST_PAUSE_MS), signal);
  }
}

/**
 * Repeats `act` until it succeeds.
 *
 * @throws the last error of `act`, when it must not be retried or has failed too often.
 */
export async function withRetries<T>(act: () => Promise<T>, options: RetryOptions): Promise<T> {
  const retries = new Retries(options);
  while (true) {
    try {
      return await act();
    } catch (error) {
      await retries.waitAfter(error);
    }
  }
}
