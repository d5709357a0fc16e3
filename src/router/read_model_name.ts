/**
 * Reads as much of a request's body as is needed to find the model's name.
 *
 * @module
 */
import { HearthError } from "../base/errors.ts";
import { type BodyLimits, requireAtMost } from "../server/http/body/body.ts";
import type { BodyShare } from "../server/http/body/body_memory.ts";
import { joinBytes } from "../base/join_bytes.ts";
import { FormModelName } from "./form_model_name.ts";
import { JsonModelName } from "./json_model_name.ts";

/** Bodies up to this size are read completely, and forwarded at once with their length. */
const SMALL_BYTES = 64 * 1024;

/** A body, and the model that it names. */
export interface NamedBody {
  /** `undefined` if the body names no model. */
  readonly name: string | undefined;
  /** The whole body: what was read, then the rest, which is read while it is forwarded. */
  readonly body: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null;
}

/**
 * Reads the model's name from JSON or a form. If it comes after a large file or large media, these are held in memory
 * until then, within `limits` and the budget for all bodies.
 *
 * @param share the body's share of that budget.
 * @throws {HearthError} `payload_too_large`, `overloaded`, `request_timeout`.
 */
export async function readModelName(
  request: Request,
  { limits, share, isWhole = false }: {
    readonly limits: BodyLimits;
    readonly share: BodyShare;
    /** Whether the whole body has arrived. */
    readonly isWhole?: boolean | undefined;
  },
): Promise<NamedBody> {
  const { headers } = request;
  const contentType = headers.get("content-type") ?? "";
  const isForm = /^multipart\/form-data\s*(;|$)/i.test(contentType);
  // A form holds a file, and text around it.
  const maxBytes = limits.maxBytes + (isForm ? limits.maxTextBytes : 0);
  const declaredBytes = Number(headers.get("content-length") ?? Infinity);
  if (Number.isFinite(declaredBytes)) requireAtMost(declaredBytes, maxBytes, "request body");
  const scanner = isForm ? new FormModelName(contentType) : new JsonModelName();
  if (isWhole) {
    // Reading a small body as a stream would take longer than everything else here.
    const bytes = await request.bytes();
    if (bytes.length === 0) return { name: undefined, body: null };
    share.take(bytes.length);
    scanner.push(bytes);
    return { name: scanner.name, body: bytes };
  }
  const { body } = request;
  if (body === null) return { name: undefined, body };
  const reader = body.getReader();
  const chunks: Uint8Array[] = [];
  let numBytes = 0;
  let isKnown = false;
  while (!isKnown || declaredBytes <= SMALL_BYTES) {
    const { done, value } = await readInTime(reader, limits);
    if (done) return { name: scanner.name, body: joinBytes(chunks) };
    share.take(value.length);
    requireAtMost(numBytes += value.length, maxBytes, "request body");
    chunks.push(value);
    isKnown ||= scanner.push(value);
  }
  return { name: scanner.name, body: continueBody(chunks, reader) };
}

async function readInTime(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  { maxPauseMs }: BodyLimits,
): Promise<ReadableStreamReadResult<Uint8Array>> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    const message = `No bytes of the request body arrived for ${maxPauseMs / 1000} s.`;
    late.reject(new HearthError("request_timeout", message));
    reader.cancel().catch(() => {});
  }, maxPauseMs);
  try {
    return await Promise.race([reader.read(), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Returns the body from its beginning: `chunks`, then what `reader` yields, one chunk at a time. */
function continueBody(
  chunks: Uint8Array[],
  reader: ReadableStreamDefaultReader<Uint8Array>,
): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const held = chunks.shift();
      if (held !== undefined) return controller.enqueue(held);
      const { done, value } = await reader.read();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 });
}
