/**
 * Finds the field `model` of a `multipart/form-data` body (RFC 7578) while its bytes arrive. It checks nothing else.
 *
 * @module
 */
import type { NameScanner } from "./json_model_name.ts";

/** Most bytes read of a part's headers, or of the field. */
const MAX_FIELD_LENGTH = 16 * 1024;

const decoder = new TextDecoder("latin1");

/** Finds the model's name in a form. */
export class FormModelName implements NameScanner {
  name: string | undefined;
  /** The line break and boundary that end a part. */
  readonly #end: string;
  /** Text that was read and may be part of something incomplete; as Latin-1, so that each byte is one character. */
  #text = "\r\n";
  #place: "content" | "headers" | "field" = "content";
  #isOver = false;

  constructor(contentType: string) {
    const [, quoted, plain] = /boundary=(?:"([^"]*)"|([^\s;]+))/i.exec(contentType) ?? [];
    this.#end = `\r\n--${quoted ?? plain ?? ""}`;
  }

  push(chunk: Uint8Array): boolean {
    this.#text += decoder.decode(chunk);
    while (!this.#isOver && this.#step());
    return this.#isOver;
  }

  /** Reads one part of the form. @returns whether it was complete. */
  #step(): boolean {
    if (this.#place === "headers") return this.#readHeaders();
    const at = this.#text.indexOf(this.#end);
    if (at < 0) {
      if (this.#place === "content") this.#text = this.#text.slice(-this.#end.length);
      else this.#isOver = this.#text.length > MAX_FIELD_LENGTH;
      return false;
    }
    if (this.#place === "field") {
      this.name = fromLatin1(this.#text.slice(0, at));
      this.#isOver = true;
    }
    this.#text = this.#text.slice(at + this.#end.length);
    this.#place = "headers";
    return true;
  }

  #readHeaders(): boolean {
    // After the last boundary come two dashes instead of headers.
    if (this.#text.startsWith("--")) this.#isOver = true;
    const at = this.#text.indexOf("\r\n\r\n");
    if (at < 0) {
      if (this.#text.length > MAX_FIELD_LENGTH) this.#isOver = true;
      return false;
    }
    const isModel = /^content-disposition:.*;\s*name=("model"|model(?=[\s;]|$))/im
      .test(this.#text.slice(0, at));
    // An empty field ends with the same line break that ends its headers.
    this.#text = this.#text.slice(at + (isModel ? "\r\n\r\n" : "\r\n").length);
    this.#place = isModel ? "field" : "content";
    return true;
  }
}

function fromLatin1(text: string): string {
  return new TextDecoder().decode(Uint8Array.from(text, (letter) => letter.charCodeAt(0)));
}
