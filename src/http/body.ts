/**
 * Reads request bodies, with their limits enforced while the bytes arrive.
 *
 * @module
 */
import { HearthError } from "../errors.ts";
import { joinBytes } from "../join_bytes.ts";
import { TextMeter } from "./text_meter.ts";

const MIB = 1024 * 1024;

/** What a request body may be. */
export interface BodyLimits {
  readonly maxBytes: number;
  /** Of these, bytes that are not media. */
  readonly maxTextBytes: number;
  /** Arrays and objects within one another. */
  readonly maxDepth: number;
  /** Longest wait for the next bytes. */
  readonly maxPauseMs: number;
  /** Longest wait for all of them. */
  readonly maxTotalMs: number;
}

/** The specification's limits, and times that a slow but honest client keeps. */
export const BODY_LIMITS: BodyLimits = {
  maxBytes: 100 * MIB,
  maxTextBytes: 5 * MIB,
  maxDepth: 100,
  maxPauseMs: 15_000,
  maxTotalMs: 300_000,
};

/**
 * Reads and decodes a JSON body.
 *
 * @throws {HearthError} `unsupported_media_type`, `payload_too_large`, `request_timeout`, `invalid_json`.
 */
export async function readJson(
  request: Request,
  limits: BodyLimits = BODY_LIMITS,
): Promise<unknown> {
  if (!isJson(request)) {
    const seen = request.headers.get("content-type")?.slice(0, 100) ?? "none";
    throw new HearthError(
      "unsupported_media_type",
      `Content-Type: want application/json, saw ${seen}.`,
    );
  }
  requirePlain(request);
  const bytes = await readBytes(request, limits);
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    const why = cause instanceof SyntaxError ? cause.message : "it is not valid UTF-8";
    throw new HearthError("invalid_json", `The request body is not JSON: ${why}`, { cause });
  }
}

/**
 * Refuses bodies that come packed: a few of their bytes could stand for more than any limit.
 *
 * @throws {HearthError} `unsupported_media_type`.
 */
export function requirePlain(request: Request): void {
  const encoding = request.headers.get("content-encoding") ?? "identity";
  if (encoding.toLowerCase() === "identity") return;
  throw new HearthError(
    "unsupported_media_type",
    `Content-Encoding: want none, saw ${encoding.slice(0, 100)}; send the body as it is.`,
  );
}

/** Whether the request says that its body is JSON. */
function isJson(request: Request): boolean {
  return /^application\/([\w.-]+\+)?json\s*(;|$)/i.test(request.headers.get("content-type") ?? "");
}

async function readBytes(request: Request, limits: BodyLimits): Promise<Uint8Array> {
  const declared = Number(request.headers.get("content-length") ?? 0);
  requireAtMost(declared, limits.maxBytes, "request body");
  const meter = new TextMeter();
  const chunks: Uint8Array[] = [];
  let numBytes = 0;
  for await (const chunk of readInTime(request.body, limits)) {
    numBytes += chunk.length;
    meter.feed(chunk);
    requireAtMost(numBytes, limits.maxBytes, "request body");
    requireAtMost(meter.textBytes, limits.maxTextBytes, "text in a request body, media aside,");
    if (meter.maxDepth > limits.maxDepth) {
      throw new HearthError(
        "invalid_json",
        `The request body nests arrays and objects more than ${limits.maxDepth} deep.`,
      );
    }
    chunks.push(chunk);
  }
  const [whole] = chunks;
  return whole !== undefined && chunks.length === 1 ? whole : joinBytes(chunks);
}

/** @throws {HearthError} `payload_too_large`, naming the limit. */
export function requireAtMost(bytes: number, maxBytes: number, what: string): void {
  if (bytes <= maxBytes) return;
  const limit = maxBytes % MIB === 0 ? `${maxBytes / MIB} MiB` : `${maxBytes} bytes`;
  throw new HearthError("payload_too_large", `The ${what} may have at most ${limit}.`);
}

/**
 * The chunks of a body; leaving early, or being too slow, cancels it.
 *
 * @throws {HearthError} `request_timeout`.
 */
export async function* readInTime(
  body: ReadableStream<Uint8Array> | null,
  limits: BodyLimits,
): AsyncGenerator<Uint8Array> {
  if (body === null) return;
  const reader = body.getReader();
  let isTooSlow = false;
  const giveUp = () => {
    isTooSlow = true;
    // A cancelled body makes the pending read come back empty.
    reader.cancel().catch(() => {});
  };
  const totalTimer = setTimeout(giveUp, limits.maxTotalMs);
  try {
    for (;;) {
      const pauseTimer = setTimeout(giveUp, limits.maxPauseMs);
      const { done, value } = await reader.read().catch(clientGone)
        .finally(() => clearTimeout(pauseTimer));
      if (isTooSlow) throw tooSlow(limits);
      if (done) return;
      yield value;
    }
  } finally {
    clearTimeout(totalTimer);
    reader.cancel().catch(() => {});
  }
}

function clientGone(cause: unknown): never {
  throw new DOMException(`The request body ended early: ${cause}`, "AbortError");
}

function tooSlow({ maxPauseMs, maxTotalMs }: BodyLimits): HearthError {
  return new HearthError(
    "request_timeout",
    `The request body did not arrive in time: at most ${maxPauseMs / 1000} s may pass between ` +
      `its bytes, and ${maxTotalMs / 1000} s until the last.`,
  );
}
