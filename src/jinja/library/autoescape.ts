/**
 * Whether texts are escaped for HTML: only within `{% autoescape true %}`. Rendering is synchronous, so one setting
 * serves the thread.
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

/** Switches it, and says what it was. */
export function setAutoescape(isWanted: boolean): boolean {
  const before = isOn;
  isOn = isWanted;
  return before;
}

/** The value's text as HTML. */
export function escape(value: Value): string {
  return value instanceof Markup ? value.text : escapeHtml(str(value));
}

/** The text as HTML, if it is to be escaped. */
export function markIfEscaping(text: string): Value {
  return isOn ? new Markup(text) : text;
}

/** What is printed of a value. */
export function printed(value: Value): string {
  return isOn ? escape(value) : str(value);
}
