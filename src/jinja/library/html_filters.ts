/**
 * Filters that write or remove HTML, or write URLs.
 *
 * @module
 */
import { chargeText } from "../meter.ts";
import { Dict } from "../python/dict.ts";
import { isTrue, iterate, toList, tryIterate } from "../python/iterate.ts";
import { str } from "../python/repr.ts";
import { type Native, native } from "../python/signature.ts";
import { requireText } from "../python/string_methods.ts";
import { SPACE_RUN, strip } from "../python/text.ts";
import { Markup, toItems, toText, type Value } from "../python/values.ts";
import { raise } from "../template_error.ts";
import { escape, markIfEscaping } from "./autoescape.ts";

export const HTML_FILTERS: Readonly<Record<string, Native>> = {
  e: native("s", (value: Value) => new Markup(escape(value))),
  escape: native("s", (value: Value) => new Markup(escape(value))),
  forceescape: native("value", (value: Value) => new Markup(escape(str(value)))),
  striptags: native("value", (value: Value) => stripTags(str(value))),
  urlencode: native("value", urlEncode),
  xmlattr: native("d, autospace", (value: Value, hasSpace: Value = true) => {
    if (!(value instanceof Dict)) return raise("AttributeError", "xmlattr takes a mapping");
    const pairs = Array.from(value.entries()).filter(([, each]) =>
      each !== null &&
      !(typeof each === "object" && !Array.isArray(each) && each.typeName === "Undefined")
    );
    for (const [key] of pairs) {
      if (/[\t-\r />=]/.test(requireText(key))) {
        raise("ValueError", `Invalid character in attribute name: ${str(key)}`);
      }
    }
    const text = pairs.map(([key, each]) => `${escape(key)}="${escape(each)}"`).join(" ");
    return markIfEscaping(isTrue(hasSpace) && text !== "" ? ` ${text}` : text);
  }),
};

const ENTITIES: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\xa0",
  raquo: "»",
  laquo: "«",
  copy: "©",
  hellip: "…",
  mdash: "—",
  ndash: "–",
};

function removeBetween(html: string, open: string, close: string): string {
  const kept: string[] = [];
  let at = 0;
  for (;;) {
    const start = html.indexOf(open, at);
    const end = start < 0 ? -1 : html.indexOf(close, start);
    if (end < 0) break;
    kept.push(html.slice(at, start));
    at = end + close.length;
  }
  return kept.join("") + html.slice(at);
}

function stripTags(html: string): string {
  chargeText(html.length);
  const text = removeBetween(removeBetween(html, "<!--", "-->"), "<", ">");
  const spaced = strip(text.replaceAll(SPACE_RUN, " "));
  return spaced.replaceAll(
    /&(?:#(\d{1,7})|#x([\da-f]{1,6})|(\w+));/gi,
    (entity, decimal, hex, name) => {
      if (name !== undefined) return ENTITIES[name as string] ?? entity as string;
      const code = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal);
      return code > 0x10ffff ? "\ufffd" : String.fromCodePoint(code);
    },
  );
}

function urlEncode(value: Value): string {
  if (toText(value) !== undefined || tryIterate(value) === undefined) return quoteUrl(value, false);
  const pairs = value instanceof Dict ? value.entries() : Array.from(iterate(value), toPair);
  return Array.from(pairs, ([key, each]) => `${quoteUrl(key, true)}=${quoteUrl(each, true)}`).join(
    "&",
  );
}

function toPair(value: Value): readonly [Value, Value] {
  const items = toItems(value) ?? toList(value);
  if (items.length !== 2) raise("ValueError", "urlencode takes pairs");
  return [items[0]!, items[1]!];
}

function quoteUrl(value: Value, isQuery: boolean): string {
  const text = str(value);
  chargeText(text.length * 8);
  const quoted = encodeURIComponent(text.toWellFormed())
    .replaceAll(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
  return isQuery ? quoted.replaceAll("%20", "+") : quoted.replaceAll("%2F", "/");
}
