/**
 * Resolves the escape sequences of string literals.
 *
 * @module
 */
import { escapeCode } from "../python/repr.ts";
import { raise } from "../template_error.ts";

const ESCAPE =
  /\\(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([0-7]{1,3})|(\n)|([xuUN])|([^\0-\x7f])|([^]))/gu;

const SHORT: Readonly<Record<string, string>> = {
  "\\": "\\",
  "'": "'",
  '"': '"',
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};

/**
 * The text of a literal, as Python's `unicode-escape` reads it.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * assert.equal(unescapeText("a\\n\\d\\u00e9"), "a\n\\d\u00e9");
 * ```
 * @throws {TemplateError} `TemplateSyntaxError` for an escape that is cut short.
 */
export function unescapeText(text: string): string {
  if (!text.includes("\\")) return text;
  return text.replaceAll(
    ESCAPE,
    (escape, byte, short, long, octal, line, broken, wide, other: string | undefined) => {
      const hex = byte ?? short ?? long;
      if (hex !== undefined) return toChar(Number.parseInt(hex, 16));
      if (octal !== undefined) return toChar(Number.parseInt(octal, 8));
      if (line !== undefined) return "";
      if (broken !== undefined) {
        return raise("TemplateSyntaxError", `truncated or unknown escape '${escape}'`);
      }
      // Python first replaces these characters by escapes, so a backslash before one escapes that escape.
      if (wide !== undefined) return escapeCode((wide as string).codePointAt(0)!);
      return SHORT[other ?? ""] ?? escape as string;
    },
  );
}

function toChar(code: number): string {
  if (code > 0x10ffff) return raise("TemplateSyntaxError", "illegal Unicode character");
  return String.fromCodePoint(code);
}
