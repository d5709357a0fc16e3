/**
 * The events of a live transcription session, in OpenAI's format.
 *
 * @module
 */
import { z } from "zod";
import { HearthError } from "../base/errors.ts";
import { nestedError } from "./error_body.ts";
import { parseRequest } from "./parse.ts";

/**
 * Most commas in an event. No event that is served has more values, and almost all of a long event is one string of
 * base64.
 */
const MAX_COMMAS = 1000;
const LONG_BYTES = 64 * 1024;

const ClientEvent = z.looseObject({
  type: z.string({ error: "a text" }),
  event_id: z.string({ error: "a text" }).optional(),
}, { error: "an object" });

const AppendEvent = z.object({ audio: z.string({ error: "the audio in base64" }) });

/** An event that a client sends. */
export type ClientEvent = z.output<typeof ClientEvent>;

/** Parses a client's event. @throws {HearthError} `invalid_json`, `invalid_value`, `payload_too_large`. */
export function parseClientEvent(bytes: Uint8Array): ClientEvent {
  if (bytes.length > LONG_BYTES) requireFewValues(bytes);
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder().decode(bytes));
  } catch (cause) {
    const { message } = cause as SyntaxError;
    throw new HearthError("invalid_json", `The event is not JSON: ${message}`, { cause });
  }
  return parseRequest(ClientEvent, value);
}

/** Refuses events with many values: small values take many times their length once they are decoded. */
function requireFewValues(bytes: Uint8Array): void {
  let numCommas = 0;
  for (let at = bytes.indexOf(0x2c); at >= 0; at = bytes.indexOf(0x2c, at + 1)) {
    if (++numCommas <= MAX_COMMAS) continue;
    throw new HearthError("payload_too_large", `An event may have at most ${MAX_COMMAS} values.`);
  }
}

/** Decodes the audio of `input_audio_buffer.append`. @throws {HearthError} `invalid_value`. */
export function decodeAppended(event: ClientEvent): Uint8Array<ArrayBuffer> {
  const { audio } = parseRequest(AppendEvent, event);
  try {
    return Uint8Array.fromBase64(audio);
  } catch {
    throw new HearthError("invalid_value", "audio: want base64, saw something else.", {
      param: "audio",
    });
  }
}

/** An event that the server sends, before it has an id. */
export type ServerEvent = { readonly type: string } & Readonly<Record<string, unknown>>;

/** Builds an event about the text of a turn. */
export function transcriptionEvent(
  type: "delta" | "completed" | "failed",
  itemId: string,
  fields: Readonly<Record<string, unknown>>,
): ServerEvent {
  const name = `conversation.item.input_audio_transcription.${type}`;
  const logprobs = type === "failed" ? {} : { logprobs: null };
  return { type: name, item_id: itemId, content_index: 0, ...fields, ...logprobs };
}

/** Builds the event for a client's mistake, or for a failure of the server. The session continues. */
export function errorEvent(error: HearthError, eventId: string | undefined): ServerEvent {
  return { type: "error", error: { ...describeError(error), event_id: eventId ?? null } };
}

/** Describes an error inside an event. */
export function describeError(error: HearthError): Record<string, unknown> {
  return { param: null, ...nestedError(error).error };
}
