/**
 * Reads media references: `base64://`, `data:`, `file://`, `http://` and `https://`; and base64 chunk by chunk, as it
 * arrives.
 *
 * @module
 */
import { invalidMedia } from "../base/errors.ts";
import { isAbsolute, relative } from "node:path";
import { fetchMedia, type MediaPolicy, tooLargeMedia } from "./fetch.ts";
import { ByteCollector } from "../base/bytes.ts";

/**
 * Reads the bytes that a reference names. Aborting `signal` cancels it.
 *
 * @throws {HearthError} `invalid_media`. The message is a clause that says why, for the end of a sentence.
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

/** Resolves links and dots in a path; `undefined` if the file does not exist or is not accessible. */
async function findFile(path: string): Promise<string | undefined> {
  for (const candidate of readPaths(path)) {
    if (!isAbsolute(candidate)) continue;
    try {
      return await Deno.realPath(candidate);
    } catch {
      // Tries the next spelling: the file is missing or not accessible.
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

/** White space that `Uint8Array.fromBase64` ignores (https://infra.spec.whatwg.org/#ascii-whitespace). */
const WHITESPACE = /[\t\n\f\r ]+/g;

/** A percent escape at the end of a chunk, whose rest may come with the next one. */
const UNFINISHED_ESCAPE = /%[\da-f]?$/i;

/**
 * Decodes base64 of either alphabet, with or without padding, percent-encoded or not, as it arrives.
 *
 * @example
 * ```ts
 * import { Base64Decoder } from "./reference.ts";
 * import assert from "node:assert/strict";
 *
 * const decoder = new Base64Decoder({ maxBytes: 3 });
 * for (const chunk of ["Q", "UJ", "D"]) decoder.push(chunk);
 * assert.equal(new TextDecoder().decode(decoder.finish()), "ABC");
 * ```
 */
export class Base64Decoder {
  readonly #bytes: ByteCollector;
  #alphabet: "base64" | "base64url" = "base64";
  /** Whether a letter was seen that only the standard alphabet has. */
  #isPlain = false;
  /** Letters that do not form a whole group of four yet. */
  #rest = "";
  #isPadded = false;
  /** The unfinished escape at the end of the last chunk. */
  #escape = "";
  #fault: unknown;

  /** @param options.maxBytes maximum number of decoded bytes. */
  constructor({ maxBytes }: { maxBytes: number }) {
    this.#bytes = new ByteCollector({ maxBytes });
  }

  /** Takes the next chunk of letters. */
  push(encoded: string): void {
    if (this.#fault !== undefined) return;
    const text = this.#unescape(encoded);
    if (this.#isPadded && text.replaceAll(WHITESPACE, "") !== "") {
      this.#fault = new SyntaxError("there is more after the padding");
      return;
    }
    this.#isPlain ||= text.includes("+") || text.includes("/");
    const letters = this.#rest + text;
    const numRead = this.#decode(letters, "stop-before-partial");
    this.#rest = letters.slice(numRead).replaceAll(WHITESPACE, "");
    this.#isPadded = this.#rest === "" && (this.#isPadded || letters.includes("="));
  }

  /** @throws {HearthError} `invalid_media` if it was not base64. */
  finish(): Uint8Array<ArrayBuffer> {
    const rest = this.#rest + this.#escape;
    if (rest !== "") this.#decode(rest, "loose");
    if (this.#fault !== undefined) throw invalidMedia("its data is not base64", this.#fault);
    return this.#bytes.finish();
  }

  /** Resolves percent escapes: in URLs, `+`, `/` and `=` may be escaped. */
  #unescape(encoded: string): string {
    if (this.#escape === "" && !encoded.includes("%")) return encoded;
    const whole = this.#escape + encoded;
    this.#escape = UNFINISHED_ESCAPE.exec(whole)?.[0] ?? "";
    return whole.slice(0, whole.length - this.#escape.length)
      .replaceAll(/%([\da-f]{2})/gi, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
  }

  /** @returns the number of letters read. */
  #decode(letters: string, lastChunkHandling: "stop-before-partial" | "loose"): number {
    const room = this.#bytes.room(Math.ceil(letters.length / 4) * 3);
    try {
      const options = { alphabet: this.#alphabet, lastChunkHandling };
      const { read, written } = room.setFromBase64(letters, options);
      this.#bytes.advance(written);
      return read;
    } catch (error) {
      if (this.#alphabet === "base64" && !this.#isPlain) {
        this.#alphabet = "base64url";
        return this.#decode(letters, lastChunkHandling);
      }
      this.#fault = error;
      return letters.length;
    }
  }
}
