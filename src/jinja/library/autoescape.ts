/**
 * Whether printed text is escaped for HTML, which it is only within `{% autoescape true %}`. Rendering is synchronous,
 * so one setting serves the whole thread.
 *
 * @module
 */
import { str } from "../python/repr.ts";
import { escapeHtml } from "../python/text.ts";
import { Markup, type Value } from "../python/values.ts";

let isOn = false;

export function isAutoescaping(): boolean {
  return isOn;
}

/**
 * Switches escaping on or off.
 *
 * @returns the previous setting.
 */
export function setAutoescape(isWanted: boolean): boolean {
  const before = isOn;
  isOn = isWanted;
  return before;
}

/** A value's text, escaped for HTML. */
export function escape(value: Value): string {
  return value instanceof Markup ? value.text : escapeHtml(str(value));
}

/** Marks a text as HTML if escaping is on. */
export function markIfEscaping(text: string): Value {
  return isOn ? new Markup(text) : text;
}

/** A value's text as it is printed. */
export function toPrinted(value: Value): string {
  return isOn ? escape(value) : str(value);
}
