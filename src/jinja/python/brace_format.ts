/**
 * Python's `str.format`: `"{} is {n:>4}".format(…)`.
 *
 * @module
 */
import { chargeText, requireShort } from "../meter.ts";
import { type Arguments, Markup, raise, type Value, valueOr } from "./values.ts";
import { formatValue } from "./format_spec.ts";
import { toAscii } from "./percent_format.ts";
import { repr, str } from "./repr.ts";
import { escapeHtml } from "./text.ts";

const MAX_NESTING = 2;
/** An attribute or an item in a field, which follow its name. */
const PATH = /\.([^.[]*)|\[([^\]]*)\]/y;

/** How fields access attributes and items: by the sandbox's rules. */
export interface FieldAccess {
  attribute(value: Value, name: string): Value;
  item(value: Value, key: Value): Value;
}

interface Formatting {
  readonly args: Arguments;
  readonly access: FieldAccess;
  readonly isMarkup: boolean;
  /** Index of the next automatic field; `manual` after a field with a number. */
  next: number | "manual";
}

/** Implements `format.format(*args)`. */
export function formatBraces(
  format: string,
  options: { readonly args: Arguments; readonly access: FieldAccess; readonly isMarkup: boolean },
): string {
  return formatText(format, { ...options, next: 0 }, MAX_NESTING);
}

function formatText(format: string, formatting: Formatting, depth: number): string {
  if (depth < 0) raise("ValueError", "Max string recursion exceeded");
  chargeText(format.length);
  const parts: string[] = [];
  let length = 0;
  let at = 0;
  while (at < format.length) {
    const next = format.slice(at).search(/[{}]/);
    const part = next < 0 ? format.slice(at) : format.slice(at, at + next);
    parts.push(part);
    if (next < 0) break;
    at += next;
    const char = format[at]!;
    if (format[at + 1] === char) {
      parts.push(char);
      at += 2;
      continue;
    }
    if (char === "}") raise("ValueError", "Single '}' encountered in format string");
    const end = findEnd(format, at);
    const field = formatField(format.slice(at + 1, end), formatting, depth);
    requireShort(length += field.length + part.length);
    parts.push(field);
    at = end + 1;
  }
  return parts.join("");
}

/** The end of the field that begins at `start`. */
function findEnd(format: string, start: number): number {
  let depth = 0;
  let isSpec = false;
  for (let i = start; i < format.length; i++) {
    const char = format[i];
    if (char === "{") depth++;
    else if (char === "}" && --depth === 0) return i;
    else if (char === ":") isSpec = true;
    else if (char === "[" && depth === 1 && !isSpec) {
      // Anything in brackets is a key.
      const close = format.indexOf("]", i);
      if (close < 0) break;
      i = close;
    }
  }
  return raise("ValueError", "expected '}' before end of string");
}

function formatField(field: string, formatting: Formatting, depth: number): string {
  const [, path = "", conversion, spec = ""] =
    /^((?:\[[^\]]*\]|[^:![])*)(?:!([^:]*))?(?::([^]*))?$/.exec(field) ?? [];
  const value = lookUp(path, formatting);
  const converted = convert(value, conversion);
  const format = formatText(spec, formatting, depth - 1);
  return formatEscaped(converted, format, formatting.isMarkup);
}

function formatEscaped(value: Value, spec: string, isMarkup: boolean): string {
  if (!isMarkup) return formatValue(value, spec);
  return value instanceof Markup && spec === "" ? value.text : escapeHtml(formatValue(value, spec));
}

function convert(value: Value, conversion: string | undefined): Value {
  if (conversion === undefined) return value;
  if (conversion === "s") return str(value);
  if (conversion === "r") return repr(value);
  if (conversion === "a") return toAscii(repr(value));
  return raise("ValueError", `Unknown conversion specifier '${conversion}'`);
}

function lookUp(path: string, formatting: Formatting): Value {
  const { args, access } = formatting;
  const name = /^[^.[]*/.exec(path)![0];
  let value = findArgument(name, formatting, args);
  PATH.lastIndex = name.length;
  while (PATH.lastIndex < path.length) {
    const match = PATH.exec(path) ??
      raise("ValueError", "Only '.' or '[' may follow ']' in format field specifier");
    const [, attribute, item = ""] = match;
    value = attribute !== undefined
      ? access.attribute(value, attribute)
      : access.item(value, /^\d+$/.test(item) ? Number(item) : item);
  }
  return value;
}

function findArgument(name: string, formatting: Formatting, args: Arguments): Value {
  if (name !== "" && !/^\d+$/.test(name)) {
    return valueOr(args.named.get(name), () => raise("KeyError", `'${name}'`));
  }
  const isManual = name !== "";
  if (formatting.next !== (isManual ? "manual" : formatting.next) && formatting.next !== 0) {
    raise(
      "ValueError",
      "cannot switch from automatic field numbering to manual field specification",
    );
  }
  if (!isManual && formatting.next === "manual") {
    raise(
      "ValueError",
      "cannot switch from manual field specification to automatic field numbering",
    );
  }
  const index = isManual ? Number(name) : formatting.next as number;
  formatting.next = isManual ? "manual" : index + 1;
  return valueOr(
    args.positional[index],
    () => raise("IndexError", `Replacement index ${index} out of range for positional args tuple`),
  );
}
