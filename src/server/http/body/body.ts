/**
 * Reads request bodies, and enforces limits while the bytes arrive: on the size and shape of a body, on the memory that
 * all bodies hold together, and on the time that a body takes.
 *
 * @module
 */
import { ByteCollector } from "../../../base/bytes.ts";
import { HearthError } from "../../../base/errors.ts";
import { InlineMedia, keepInlineMedia } from "./inline_media.ts";
import { decodeBody } from "./decode_json.ts";
import { TextMeter } from "./text_meter.ts";

const MIB = 1024 * 1024;
const PACE_CHECK_MS = 1_000;
const encoder = new TextEncoder();

/** The memory budget that all bodies being read share. */
export class BodyBudget {
  readonly #maxBytes: number;
  #numBytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes held now. */
  get numBytes(): number {
    return this.#numBytes;
  }

  /** Whether memory is short, so that bodies must arrive faster. */
  get isShort(): boolean {
    return this.#numBytes > this.#maxBytes / 2;
  }

  /** Opens the share of one body. */
  open(): BodyShare {
    let held = 0;
    const add = (numBytes: number) => {
      held += numBytes;
      this.#numBytes += numBytes;
    };
    return {
      take: (numBytes) => {
        if (this.#numBytes + numBytes > this.#maxBytes) throw overBudgetError(this.#maxBytes);
        add(numBytes);
      },
      give: (numBytes) => add(-numBytes),
      [Symbol.dispose]: () => add(-held),
    };
  }
}

/** The part of the budget that one body holds until it is disposed of. */
export interface BodyShare extends Disposable {
  /** Adds bytes to the share. @throws {HearthError} `overloaded` when all bodies together would hold too much. */
  take(numBytes: number): void;
  /** Returns bytes to the budget. */
  give(numBytes: number): void;
}

function overBudgetError(maxBytes: number): HearthError {
  return new HearthError(
    "overloaded",
    `All request bodies together would hold more than the ${maxBytes / MIB} MiB that this server ` +
      "allows (--body-memory-mb). Try again later.",
  );
}

/** Limits on one body, and the memory budget of all bodies. */
export interface BodyLimits {
  readonly maxBytes: number;
  /** Maximum total size of the body's strings, without media, in decoded UTF-8 bytes. */
  readonly maxTextBytes: number;
  /** Maximum nesting depth of arrays and objects. */
  readonly maxDepth: number;
  /** Maximum number of values in all arrays and objects together. */
  readonly maxValues: number;
  /** Maximum number of objects: messages, content parts, documents. */
  readonly maxObjects: number;
  /** Maximum number of fields in one object. */
  readonly maxNames: number;
  /** Maximum time to wait for the next bytes. */
  readonly maxPauseMs: number;
  /** Maximum time to wait for the whole body. */
  readonly maxTotalMs: number;
  /** The memory budget that all bodies being read share. */
  readonly budget: BodyBudget;
}

/** The limits of the specification, and timeouts that slow but honest clients can meet. */
export const BODY_LIMITS: BodyLimits = {
  maxBytes: 100 * MIB,
  maxTextBytes: 5 * MIB,
  maxDepth: 100,
  maxValues: 1_000_000,
  maxObjects: 20_000,
  maxNames: 4096,
  maxPauseMs: 15_000,
  maxTotalMs: 300_000,
  budget: new BodyBudget(1024 * MIB),
};

/** Returns the usual limits, with `maxBytesOfAll` as the memory budget of all bodies. */
export function limitBodies(maxBytesOfAll: number): BodyLimits {
  return { ...BODY_LIMITS, budget: new BodyBudget(maxBytesOfAll) };
}

/**
 * Reads and decodes a JSON body. Media in it are decoded as they arrive, and `getInlineMedia()` returns them for the
 * request's signal.
 *
 * @throws {HearthError} `unsupported_media_type`, `payload_too_large`, `overloaded`, `request_timeout`, `invalid_json`.
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
  using share = limits.budget.open();
  try {
    return await decodeBody(await readText(request, { limits, share }));
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    const message = `The request body is not JSON: ${cause.message}`;
    throw new HearthError("invalid_json", message, { cause });
  }
}

/**
 * Refuses compressed bodies, because a few bytes could expand beyond any limit.
 *
 * @throws {HearthError} `unsupported_media_type`.
 */
export function requirePlain(request: Request): void {
  const encoding = request.headers.get("content-encoding") ?? "identity";
  if (encoding.toLowerCase() === "identity") return;
  throw new HearthError(
    "unsupported_media_type",
    `Content-Encoding: want none, saw ${encoding.slice(0, 100)}; send the body uncompressed.`,
  );
}

/** Whether the request declares its body as JSON. */
function isJson(request: Request): boolean {
  return /^application\/([\w.-]+\+)?json\s*(;|$)/i.test(request.headers.get("content-type") ?? "");
}

/**
 * Reads the body's JSON text, and replaces each string that holds media by a key.
 *
 * @throws {HearthError} as {@linkcode readJson} does.
 * @throws {SyntaxError} when a string that holds media is not valid JSON.
 */
async function readText(
  request: Request,
  { limits, share }: { readonly limits: BodyLimits; readonly share: BodyShare },
): Promise<Uint8Array<ArrayBuffer>> {
  const declared = Number(request.headers.get("content-length") ?? 0);
  requireAtMost(declared, limits.maxBytes, "request body");
  let left = declared > 0 ? declared : limits.maxBytes;
  const text = new ByteCollector({ maxBytes: left });
  const media = new InlineMedia({ maxTextBytes: limits.maxTextBytes });
  const meter = new TextMeter({
    onText: (bytes) => text.push(bytes),
    onMedia: (bytes, mayBeText) => {
      const key = media.push(bytes, { maxBytes: Math.ceil(left * 3 / 4), mayBeText });
      if (key !== undefined) text.push(encoder.encode(key));
    },
    onMediaEnd: () => media.end(),
  });
  let numBytes = 0;
  for await (const chunk of readInTime(request.body, { limits, share })) {
    requireAtMost(numBytes += chunk.length, limits.maxBytes, "request body");
    meter.feed(chunk);
    requireWithinLimits(meter, limits);
    left -= chunk.length;
  }
  if (!media.isEmpty) keepInlineMedia(request.signal, media);
  return text.finish();
}

/** Checks the part of a body that was read so far. @throws {HearthError} `payload_too_large`, `invalid_json`. */
function requireWithinLimits(meter: TextMeter, limits: BodyLimits): void {
  requireAtMost(meter.textBytes, limits.maxTextBytes, "strings in a request body, media aside,");
  if (meter.maxDepth > limits.maxDepth) {
    throw new HearthError(
      "invalid_json",
      `The request body nests arrays and objects more than ${limits.maxDepth} deep.`,
    );
  }
  requireFew(meter.numValues, limits.maxValues, { what: "values" });
  requireFew(meter.numObjects, limits.maxObjects, { what: "objects" });
  requireFew(meter.maxNames, limits.maxNames, {
    where: "An object in the request body",
    what: "fields",
  });
}

function requireFew(
  count: number,
  max: number,
  { where = "The request body", what }: { readonly where?: string; readonly what: string },
): void {
  if (count <= max) return;
  throw new HearthError("payload_too_large", `${where} may have at most ${max} ${what}.`);
}

/** Checks the size of `what`. @throws {HearthError} `payload_too_large`, naming the limit. */
export function requireAtMost(bytes: number, maxBytes: number, what: string): void {
  if (bytes <= maxBytes) return;
  const limit = maxBytes % MIB === 0 ? `${maxBytes / MIB} MiB` : `${maxBytes} bytes`;
  throw new HearthError("payload_too_large", `The ${what} may have at most ${limit}.`);
}

/**
 * Yields the chunks of a body. The body is cancelled if the iteration ends early, or the body arrives too slowly.
 *
 * @throws {HearthError} `request_timeout`, `overloaded`.
 */
export async function* readInTime(
  body: ReadableStream<Uint8Array> | null,
  { limits, share }: { readonly limits: BodyLimits; readonly share: BodyShare },
): AsyncGenerator<Uint8Array> {
  if (body === null) return;
  const reader = body.getReader();
  const pace = new BodyPace(performance.now());
  let fault: HearthError | undefined;
  const giveUp = (error: HearthError) => {
    fault = error;
    // After this, the pending read resolves without a chunk.
    reader.cancel().catch(() => {});
  };
  const totalTimer = setTimeout(() => giveUp(lateError(limits)), limits.maxTotalMs);
  const paceTimer = setInterval(() => {
    if (pace.isTooSlow(performance.now(), limits.budget)) giveUp(slowError());
  }, PACE_CHECK_MS);
  try {
    for (;;) {
      const pauseTimer = setTimeout(() => giveUp(lateError(limits)), limits.maxPauseMs);
      const { done, value } = await reader.read().catch(throwDisconnected)
        .finally(() => clearTimeout(pauseTimer));
      if (fault !== undefined) throw fault;
      if (done) return;
      pace.add(value.length);
      share.take(value.length);
      yield value;
    }
  } finally {
    clearTimeout(totalTimer);
    clearInterval(paceTimer);
    reader.cancel().catch(() => {});
  }
}

function throwDisconnected(cause: unknown): never {
  throw new DOMException(`The request body ended early: ${cause}`, "AbortError");
}

function lateError({ maxPauseMs, maxTotalMs }: BodyLimits): HearthError {
  return new HearthError(
    "request_timeout",
    `The request body did not arrive in time: at most ${maxPauseMs / 1000} s may pass between ` +
      `its bytes, and ${maxTotalMs / 1000} s until the last.`,
  );
}

function slowError(): HearthError {
  return new HearthError(
    "request_timeout",
    "The request body arrived too slowly for the memory that it held. Send it faster, or in smaller requests.",
  );
}

/** Bodies up to this size may be arbitrarily slow. */
const HARMLESS_BYTES = 64 * 1024;

/** Minimum number of bytes that must arrive within a window. */
interface Pace {
  readonly windowMs: number;
  readonly minBytes: number;
}

/** The rate that is usually required: 8 KiB/s, only a little more than a dial-up modem has. */
const EASY: Pace = { windowMs: 20_000, minBytes: 20 * 8 * 1024 };
/** The rate that is required while the memory budget is short: 128 KiB/s. */
const URGENT: Pace = { windowMs: 5_000, minBytes: 5 * 128 * 1024 };

/** Watches the rate at which one body arrives. */
export class BodyPace {
  #numBytes = 0;
  #windowStartMs: number;
  #bytesInWindow = 0;

  constructor(nowMs: number) {
    this.#windowStartMs = nowMs;
  }

  add(numBytes: number): void {
    this.#numBytes += numBytes;
    this.#bytesInWindow += numBytes;
  }

  /** Whether the body is too slow at `nowMs`. Call it regularly: a window ends at the first call after its time. */
  isTooSlow(nowMs: number, { isShort }: { readonly isShort: boolean }): boolean {
    const { windowMs, minBytes } = isShort ? URGENT : EASY;
    if (nowMs - this.#windowStartMs < windowMs) return false;
    const isSlow = this.#bytesInWindow < minBytes && this.#numBytes > HARMLESS_BYTES;
    this.#windowStartMs = nowMs;
    this.#bytesInWindow = 0;
    return isSlow;
  }
}
