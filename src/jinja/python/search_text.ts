/**
 * Finds, splits and replaces within strings.
 *
 * @module
 */
import { charge, chargeText, requireShort } from "../meter.ts";
import { countChars, isWide, sliceChars, SPACE_RUN, stripEnd, stripStart } from "./text.ts";

/** Python's `text.find(part, start, end)`, with bounds within the text; -1 if it is not found. */
export function findText(
  text: string,
  part: string,
  { start, end, fromEnd }: {
    readonly start: number;
    readonly end: number;
    readonly fromEnd: boolean;
  },
): number {
  if (start > end) return -1;
  chargeText(text.length);
  const searched = sliceChars(text, start, end);
  const at = fromEnd ? searched.lastIndexOf(part) : searched.indexOf(part);
  if (at < 0) return -1;
  return start + (isWide(searched) ? countChars(searched.slice(0, at)) : at);
}

/** Python's `text.replace(old, by, count)`; a negative count replaces all. */
export function replaceText(
  text: string,
  old: string,
  { by, count }: { readonly by: string; readonly count: number },
): string {
  chargeText(text.length);
  if (old === "") return insertBetween(text, by, count);
  const parts = count < 0 ? text.split(old) : splitText(text, old, count);
  charge(parts.length);
  requireShort(text.length + (parts.length - 1) * (by.length - old.length));
  const replaced = parts.join(by);
  chargeText(replaced.length);
  return replaced;
}

function insertBetween(text: string, by: string, count: number): string {
  const chars = Array.from(text);
  const most = count < 0 ? chars.length + 1 : Math.min(count, chars.length + 1);
  requireShort(text.length + most * by.length);
  chargeText(text.length * 8 + most * by.length);
  const between = chars.map((char, index) => (index < most ? by : "") + char).join("");
  return most > chars.length ? between + by : between;
}

/** Python's `text.split(separator, most)`; without a separator it splits at white space. */
export function splitText(text: string, separator: string | undefined, most: number): string[] {
  chargeText(text.length);
  if (separator === undefined) return splitAtSpace(text, most);
  const parts = limitedSplit(text, separator, most);
  charge(parts.length);
  return parts;
}

function limitedSplit(text: string, separator: string, most: number): string[] {
  if (most < 0) return text.split(separator);
  const parts: string[] = [];
  let start = 0;
  while (parts.length < most) {
    const at = text.indexOf(separator, start);
    if (at < 0) break;
    parts.push(text.slice(start, at));
    start = at + separator.length;
  }
  parts.push(text.slice(start));
  return parts;
}

function splitAtSpace(text: string, most: number): string[] {
  const parts: string[] = [];
  let start = text.length - stripStart(text).length;
  for (const { 0: space, index } of text.matchAll(SPACE_RUN)) {
    if (index < start) continue;
    if (most >= 0 && parts.length >= most) break;
    parts.push(text.slice(start, index));
    start = index + space.length;
  }
  charge(parts.length);
  if (start < text.length) parts.push(text.slice(start));
  return parts;
}

/** Python's `text.rsplit(separator, most)`. */
export function splitTextFromEnd(
  text: string,
  separator: string | undefined,
  most: number,
): string[] {
  if (most < 0) return splitText(text, separator, most);
  chargeText(text.length);
  if (separator === undefined) return splitAtSpaceFromEnd(text, most);
  const parts: string[] = [];
  let end = text.length;
  while (parts.length < most) {
    const at = end < separator.length ? -1 : text.lastIndexOf(separator, end - separator.length);
    if (at < 0) break;
    parts.push(text.slice(at + separator.length, end));
    end = at;
  }
  parts.push(text.slice(0, end));
  charge(parts.length);
  return parts.reverse();
}

function splitAtSpaceFromEnd(text: string, most: number): string[] {
  const parts: string[] = [];
  let rest = stripEnd(text);
  const spaces = [...rest.matchAll(SPACE_RUN)].filter(({ index }) => index > 0);
  for (const { 0: space, index } of spaces.reverse()) {
    if (parts.length === most) break;
    parts.push(rest.slice(index + space.length));
    rest = rest.slice(0, index);
  }
  charge(parts.length);
  // White space at the start is only kept if the limit of splits was reached.
  const first = stripStart(rest);
  if (first !== "") parts.push(parts.length === most ? rest : first);
  return parts.reverse();
}
