/**
 * Base64 to bytes, piece by piece.
 *
 * @module
 */
import { ByteCollector } from "../byte_collector.ts";
import { invalidMedia } from "./media_policy.ts";

/** What `Uint8Array.fromBase64` passes over (https://infra.spec.whatwg.org/#ascii-whitespace). */
const WHITESPACE = /[\t\n\f\r ]+/g;

/**
 * Decodes base64 of either alphabet, with or without padding, as it arrives.
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
  /** A letter was seen that the other alphabet lacks. */
  #isPlain = false;
  /** Letters that are not a whole group of four yet. */
  #rest = "";
  #isPadded = false;
  #fault: unknown;

  /** @param options.maxBytes of what is decoded. */
  constructor({ maxBytes }: { maxBytes: number }) {
    this.#bytes = new ByteCollector({ maxBytes });
  }

  /** Takes the next letters. */
  push(text: string): void {
    if (this.#fault !== undefined) return;
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

  /** @throws {HearthError} `invalid_media` when it was not base64. */
  finish(): Uint8Array<ArrayBuffer> {
    if (this.#rest !== "") this.#decode(this.#rest, "loose");
    if (this.#fault !== undefined) throw invalidMedia("its data is not base64", this.#fault);
    return this.#bytes.finish();
  }

  /** @returns the letters read. */
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
