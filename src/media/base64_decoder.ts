/**
 * Decodes base64 chunk by chunk.
 *
 * @module
 */
import { ByteCollector } from "../base/byte_collector.ts";
import { invalidMedia } from "./media_policy.ts";

/** White space that `Uint8Array.fromBase64` ignores (https://infra.spec.whatwg.org/#ascii-whitespace). */
const WHITESPACE = /[\t\n\f\r ]+/g;

/** A percent escape at the end of a chunk, whose rest may come with the next one. */
const UNFINISHED_ESCAPE = /%[\da-f]?$/i;

/**
 * Decodes base64 of either alphabet, with or without padding, percent-encoded or not, as it arrives.
 *
 * @example
 * ```ts
 * import { Base64Decoder } from "./base64_decoder.ts";
 * import assert from "node:assert/strict";
 *
 * const decoder = new Base64Decoder({ maxBytes: 3 });
 * for (const piece of ["Q", "UJ", "D"]) decoder.push(piece);
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

  /** @param options.maxBytes most decoded bytes. */
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
