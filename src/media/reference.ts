/**
 * Reads media references: `base64://`, `data:`, `file://`, `http://` and `https://`.
 *
 * @module
 */
import { isAbsolute, relative } from "node:path";
import { Base64Decoder } from "./base64_decoder.ts";
import { fetchMedia } from "./fetch.ts";
import { invalidMedia, type MediaPolicy, tooLargeMedia } from "./media_policy.ts";

/**
 * Reads the bytes that a reference names. Aborting `signal` cancels it.
 *
 * @throws {HearthError} `invalid_media`, saying why it cannot be read.
 */
export async function readMedia(
  reference: string,
  { policy, signal }: { policy: MediaPolicy; signal: AbortSignal },
): Promise<Uint8Array<ArrayBuffer>> {
  return requireSize(await read(reference, policy, signal), policy);
}

/** @throws {HearthError} `invalid_media` when there are more bytes than media may have. */
export function requireSize(
  bytes: Uint8Array<ArrayBuffer>,
  policy: MediaPolicy,
): Uint8Array<ArrayBuffer> {
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

/** Decodes base64 of either alphabet, with or without padding. */
export function decodeBase64(text: string): Uint8Array<ArrayBuffer> {
  const decoder = new Base64Decoder({ maxBytes: Math.ceil(text.length / 4) * 3 });
  decoder.push(text);
  return decoder.finish();
}

/**
 * Reads a file. Callers on this machine may read any file, others only files in the media folder.
 *
 * @param path what follows `file://`; percent signs need not be escaped.
 * @throws {HearthError} `invalid_media` when reading it is not allowed or fails. A caller who may not read a file does
 * not learn whether it exists.
 */
async function readMediaFile(
  path: string,
  policy: MediaPolicy,
): Promise<Uint8Array<ArrayBuffer>> {
  const { isLocal, mediaDir } = policy;
  if (!isLocal && mediaDir === undefined) {
    throw invalidMedia("this server reads no files: start it with --media-dir to name a folder");
  }
  const real = await findFile(path);
  if (!isLocal && (real === undefined || !await isBelow(real, mediaDir!))) {
    throw invalidMedia("the file is not below the folder of --media-dir");
  }
  if (real === undefined) {
    throw invalidMedia(
      readPaths(path).some(isAbsolute)
        ? "there is no such file"
        : "want the absolute path of a file after file://, such as file:///home/me/a.png",
    );
  }
  const { isFile, size } = await Deno.stat(real);
  // Reading a device or a pipe may never end.
  if (!isFile) throw invalidMedia("it is not a file");
  if (size > policy.maxBytes) throw tooLargeMedia(policy);
  try {
    return await Deno.readFile(real);
  } catch (error) {
    throw invalidMedia("the file cannot be read", error);
  }
}

/** Resolves links and dots in a path; `undefined` if it does not exist. */
async function findFile(path: string): Promise<string | undefined> {
  for (const candidate of readPaths(path)) {
    if (!isAbsolute(candidate)) continue;
    try {
      return await Deno.realPath(candidate);
    } catch {
      // The file is missing or not accessible.
    }
  }
  return undefined;
}

/**
 * The paths that a `file://` reference may mean: first as it is written, then percent-decoded.
 *
 * @param rest what follows `file://`: a path, perhaps after the host `localhost`; `/C:/…` on Windows.
 * @see https://www.rfc-editor.org/rfc/rfc8089
 */
export function readPaths(rest: string, os: string = Deno.build.os): string[] {
  const path = rest.replace(/^localhost(?=\/)/, "");
  const own = os === "windows" ? path.replace(/^\/(?=[a-z]:)/i, "") : path;
  const decoded = decode(own);
  return decoded === undefined || decoded === own ? [own] : [own, decoded];
}

function decode(path: string): string | undefined {
  try {
    return decodeURIComponent(path);
  } catch {
    return undefined;
  }
}

async function isBelow(real: string, folder: string): Promise<boolean> {
  const steps = relative(await Deno.realPath(folder), real);
  return steps !== "" && !isAbsolute(steps) && !/^\.\.([/\\]|$)/.test(steps);
}
