/**
 * Escapes in a chat template's strings, as Python reads them: Jinja's strings are Python's.
 *
 * @module
 */

/** A comment, or a tag; quotes within a tag may hold what ends it. */
const TAGS =
  /\{#[\s\S]*?#\}|\{[{%](?:"(?:\\[\s\S]|[^"\\])*"|'(?:\\[\s\S]|[^'\\])*'|[^"'])*?[%}]\}/g;

const ESCAPES =
  /\\(?:(x[\da-fA-F]{2}|u[\da-fA-F]{4}|[ntrbfv'"\\])|(\r?\n)|U([\da-fA-F]{8})|([0-7]{1,3})|([\s\S]))/g;

/**
 * The template with escapes that `@huggingface/jinja` refuses rewritten: a continued line (Mistral Small 3.1),
 * `\U0001f600`, `\0`, `\a`, and the backslash of unknown escapes.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * assert.equal(fitEscapes('{{ "a\\\nb" + "\\d" }}\\\n'), '{{ "ab" + "\\\\d" }}\\\n');
 * ```
 */
export function fitEscapes(template: string): string {
  return template.replace(
    TAGS,
    (tag) => tag.startsWith("{#") ? tag : tag.replace(ESCAPES, rewrite),
  );
}

function rewrite(
  escape: string,
  known?: string,
  line?: string,
  wide?: string,
  octal?: string,
  other?: string,
): string {
  if (known !== undefined) return escape;
  if (line !== undefined) return "";
  if (wide !== undefined) {
    return String.fromCodePoint(Math.min(0x10ffff, Number.parseInt(wide, 16)));
  }
  if (other === "a") return "\\x07";
  if (octal === undefined) return `\\\\${other}`;
  return `\\x${(Number.parseInt(octal, 8) & 0xff).toString(16).padStart(2, "0")}`;
}
