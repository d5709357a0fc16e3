/**
 * API keys, each with a label that names it in the log.
 *
 * @module
 */
import { createHash, timingSafeEqual } from "node:crypto";
import type { ApiKey } from "../../base/config.ts";
import { HearthError } from "../../base/errors.ts";

/** Browsers cannot send headers with a WebSocket: OpenAI's client has them send the key as a sub-protocol. */
const KEY_PROTOCOL = /(?:^|[\s,])openai-insecure-api-key\.([^\s,]+)/;

/**
 * Checks a request's key: its bearer token, `x-api-key`, or a WebSocket's sub-protocol.
 *
 * @returns the key's label; `undefined` if no key is required.
 * @throws {HearthError} `invalid_api_key` when keys are set and the request shows none of them.
 */
export function checkApiKey(request: Request, apiKeys: readonly ApiKey[]): string | undefined {
  if (apiKeys.length === 0) return undefined;
  const shown = shownKey(request);
  const found = findKey(shown, apiKeys);
  if (found !== undefined) return found.label;
  throw new HearthError(
    "invalid_api_key",
    shown === undefined
      ? "This server requires an API key: send it as Authorization: Bearer <key>."
      : "The API key is not one that this server knows.",
  );
}

/** Whether a request shows one of the keys. */
export function showsKey(request: Request, apiKeys: readonly ApiKey[]): boolean {
  return findKey(shownKey(request), apiKeys) !== undefined;
}

function shownKey({ headers }: Request): string | undefined {
  return headers.get("authorization")?.match(/^Bearer +(.+)$/i)?.[1] ??
    headers.get("x-api-key") ??
    headers.get("sec-websocket-protocol")?.match(KEY_PROTOCOL)?.[1];
}

/** Compares all keys, so that the time taken does not reveal which one matched. */
function findKey(shown: string | undefined, apiKeys: readonly ApiKey[]): ApiKey | undefined {
  if (shown === undefined) return undefined;
  const given = digest(shown);
  return apiKeys.filter(({ key }) => timingSafeEqual(given, digest(key)))[0];
}

/** Both sides are hashed, so that their lengths are not revealed either. */
function digest(text: string): Uint8Array {
  return createHash("sha256").update(text).digest();
}
