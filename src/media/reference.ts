/**
 * Media references to bytes: `base64://`, `data:`, `file://`, `http://` and `https://`.
 *
 * @module
 */
import { fetchMedia } from "./fetch.ts";
import { readMediaFile } from "./media_file.ts";
import { invalidMedia, type MediaPolicy, tooLargeMedia } from "./media_policy.ts";

/**
 * Reads what a reference names. Aborting `signal` cancels it.
 *
 * @throws {HearthError} `invalid_media`, saying why it cannot be read.
 */
export async function readMedia(
  reference: string,
  { policy, signal }: { policy: MediaPolicy; signal: AbortSignal },
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = await read(reference, policy, signal);
  if (bytes.length <= policy.maxBytes) return bytes;
  throw tooLargeMedia(policy);
}

function read(
  reference: string,
  policy: MediaPolicy,
  signal: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> | Uint8Array<ArrayBuffer> {
  const scheme = /^[a-z\d]+:/i.exec(reference)?.[0].toLowerCase();
  switch (scheme) {
    case "base64:":
      return decodeBase64(reference.slice("base64://".length));
    case "data:":
      return decodeDataUrl(reference);
    case "file:":
      return readMediaFile(reference.slice("file://".length), policy);
    case "http:":
    case "https:":
      return fetchMedia(reference, { policy, signal });
    default:
      throw invalidMedia("the reference has none of the schemes base64, data, file, http, https");
  }
}

function decodeDataUrl(url: string): Uint8Array<ArrayBuffer> {
  const comma = url.indexOf(",");
  if (comma < 0) throw invalidMedia("the data: reference has no comma before its data");
  const data = url.slice(comma + 1);
  if (/;\s*base64\s*$/i.test(url.slice(0, comma))) return decodeBase64(data);
  try {
    return new TextEncoder().encode(decodeURIComponent(data));
  } catch (error) {
    throw invalidMedia("the data: reference is not percent-encoded text", error);
  }
}

/** Base64 of either alphabet, with or without padding. */
export function decodeBase64(text: string): Uint8Array<ArrayBuffer> {
  const alphabet = /[-_]/.test(text) ? "base64url" : "base64";
  try {
    return Uint8Array.fromBase64(text, { alphabet });
  } catch (error) {
    throw invalidMedia("its data is not base64", error);
  }
}
