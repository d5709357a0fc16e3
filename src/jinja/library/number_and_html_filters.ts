/**
 * The filters for numbers, for HTML and URLs, and `default`.
 *
 * @module
 */
import { chargeText } from "../meter.ts";
import { Dict, isTrue, iterate, toList, tryIterate } from "../python/collections.ts";
import { escape, markIfEscaping, str } from "../python/repr.ts";
import { type Native, native } from "../python/call.ts";
import { requireText } from "../python/string_methods.ts";
import { countChars, escapeHtml, sliceChars, SPACE_RUN, strip } from "../python/text.ts";
import {
  Float,
  getTypeName,
  isRaised,
  Markup,
  raise,
  toItems,
  toText,
  Undefined,
  type Value,
} from "../python/values.ts";
import {
  asInt,
  asNumber,
  numberToInt,
  parseFloat,
  parseInteger,
  requireIndex,
  roundFloat,
  toFixed,
  toInt,
} from "../python/numbers.ts";

export const HTML_FILTERS: Readonly<Record<string, Native>> = {
  e: native("s", (value: Value) => new Markup(escape(value))),
  escape: native("s", (value: Value) => new Markup(escape(value))),
  forceescape: native("value", (value: Value) => new Markup(escape(str(value)))),
  striptags: native("value", (value: Value) => stripTags(str(value))),
  urlencode: native("value", urlEncode),
  urlize: native(
    "value, trim_url_limit, nofollow, target, rel, extra_schemes",
    (
      value: Value,
      limit: Value = null,
      noFollow: Value = false,
      target: Value = null,
      rel: Value = null,
      schemes: Value = null,
    ) => {
      const relations = new Set(
        (rel === null ? "" : requireText(rel)).split(/\s+/).filter(Boolean),
      );
      if (isTrue(noFollow)) relations.add("nofollow");
      relations.add("noopener");
      const all = schemes === null ? [] : toList(schemes).map((each) => requireText(each));
      const bad = all.find((scheme) => !/^[\w.+-]{2,}:\/{0,2}$/.test(scheme));
      if (bad !== undefined) {
        raise("FilterArgumentError", `'${bad}' is not a valid URI scheme prefix.`);
      }
      return markIfEscaping(linkAll(escape(value), {
        maxChars: limit === null ? Infinity : requireIndex(limit),
        attributes: ` rel="${escapeHtml([...relations].sort().join(" "))}"` +
          (target === null ? "" : ` target="${escape(target)}"`),
        schemes: all,
      }));
    },
  ),
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
      if (name !== undefined) return ENTITIES[name as string] ?? entity;
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

const HTTP =
  /^(?:(?:https?:\/\/|www\.)(?:[\w%-]+\.)+[a-z]{2,63}|(?:[\w%-]{2,63}\.)+(?:com|net|int|edu|gov|org|info|mil)|https?:\/\/(?:(?:[\d]{1,3})(?:\.[\d]{1,3}){3}|\[(?:(?:[\da-f]{0,4}:){2}(?:[\da-f]{0,4}:?){1,6})\]))(?::\d{1,5})?(?:[/?#]\S*)?$/i;
const EMAIL = /^\S+@\w[\w.-]*\.\w+$/;
const PAIRS = [["(", ")"], ["<", ">"], ["&lt;", "&gt;"]] as const;

interface LinkOptions {
  readonly maxChars: number;
  /** HTML attributes of the links. */
  readonly attributes: string;
  readonly schemes: readonly string[];
}

function linkAll(html: string, options: LinkOptions): string {
  chargeText(html.length * 8);
  return html.split(/(\s+)/).map((word) => linkWord(word, options)).join("");
}

function linkWord(word: string, options: LinkOptions): string {
  const head = /^(?:[(<]|&lt;)+/.exec(word)?.[0] ?? "";
  const end = findTail(word, head.length);
  let middle = word.slice(head.length, end);
  let tail = word.slice(end);
  for (const [open, close] of PAIRS) {
    const numOpen = middle.split(open).length - 1;
    if (numOpen <= middle.split(close).length - 1) continue;
    // A closing bracket belongs to the address if the address contains the opening one.
    for (let i = Math.min(numOpen, tail.split(close).length - 1); i > 0; i--) {
      const end = tail.indexOf(close) + close.length;
      middle += tail.slice(0, end);
      tail = tail.slice(end);
    }
  }
  return head + link(middle, options) + tail;
}

/** Finds where the punctuation at the end of a word begins: at `start` or after it. */
function findTail(word: string, start: number): number {
  let end = word.length;
  for (;;) {
    const length = /[)>.,\n]/.test(word.slice(end - 1, end))
      ? 1
      : word.endsWith("&gt;", end)
      ? 4
      : 0;
    if (length === 0 || end - length < start) return end;
    end -= length;
  }
}

function link(text: string, { maxChars, attributes, schemes }: LinkOptions): string {
  const shown = countChars(text) > maxChars ? `${sliceChars(text, 0, maxChars)}...` : text;
  if (HTTP.test(text)) {
    const address = /^https?:\/\//.test(text) ? text : `https://${text}`;
    return `<a href="${address}"${attributes}>${shown}</a>`;
  }
  if (text.startsWith("mailto:") && EMAIL.test(text.slice(7))) {
    return `<a href="${text}">${text.slice(7)}</a>`;
  }
  if (EMAIL.test(text) && !text.startsWith("www.") && !text.includes(":")) {
    return `<a href="mailto:${text}">${text}</a>`;
  }
  const scheme = schemes.find((each) => text !== each && text.startsWith(each));
  return scheme === undefined ? text : `<a href="${text}"${attributes}>${text}</a>`;
}

const defaultValue = native(
  "value, default_value, boolean",
  (value: Value, other: Value = "", isBoolean: Value = false) =>
    value instanceof Undefined || (isTrue(isBoolean) && !isTrue(value)) ? other : value,
);

export const NUMBER_FILTERS: Readonly<Record<string, Native>> = {
  abs: native("x", (value: Value) => {
    if (value instanceof Float) return new Float(Math.abs(value.value));
    const int = asInt(value);
    if (int !== undefined) return int < 0 ? toInt(-BigInt(int)) : int;
    return raise("TypeError", `bad operand type for abs(): '${getTypeName(value)}'`);
  }),
  d: defaultValue,
  default: defaultValue,
  filesizeformat: native(
    "value, binary",
    (value: Value, isBinary: Value = false) => formatSize(toNumber(value), isTrue(isBinary)),
  ),
  float: native("value, default", (value: Value, other: Value = new Float(0)) => {
    const number = tryNumber(value);
    return number === undefined ? other : new Float(number);
  }),
  int: native(
    "value, default, base",
    (value: Value, other: Value = 0, base: Value = 10) =>
      toInteger(value, requireIndex(base)) ?? other,
  ),
  round: native(
    "value, precision, method",
    (value: Value, precision: Value = 0, method: Value = "common") => {
      if (method !== "common" && method !== "ceil" && method !== "floor") {
        raise("FilterArgumentError", "method must be common, ceil or floor");
      }
      const digits = requireIndex(precision);
      const number = asNumber(value) ??
        raise("TypeError", `type ${getTypeName(value)} doesn't define __round__ method`);
      if (method === "common") {
        const int = asInt(value);
        if (int === undefined) return new Float(roundFloat(number, digits));
        return digits >= 0 ? int : roundInt(BigInt(int), digits);
      }
      if (asInt(value) !== undefined && digits >= 0) return new Float(number);
      const unit = 10 ** digits;
      const whole = method === "ceil" ? Math.ceil(number * unit) : Math.floor(number * unit);
      return new Float(Number(numberToInt(whole)) / unit);
    },
  ),
};

function roundInt(value: bigint, digits: number): Value {
  if (digits < -400) return 0;
  const unit = 10n ** BigInt(-digits);
  const size = value < 0n ? -value : value;
  const [down, rest] = [size / unit, size % unit * 2n];
  const rounded = (rest > unit || (rest === unit && down % 2n === 1n) ? down + 1n : down) * unit;
  return toInt(value < 0n ? -rounded : rounded);
}

/** Python's `float(value)`; `undefined` where that raises a TypeError or a ValueError. */
function tryNumber(value: Value): number | undefined {
  if (value instanceof Undefined) value.fail();
  const text = toText(value);
  return text === undefined ? asNumber(value) : parseFloat(text);
}

function toNumber(value: Value): number {
  return tryNumber(value) ?? raise("ValueError", "could not convert to float");
}

function toInteger(value: Value, base: number): Value | undefined {
  if (value instanceof Undefined) value.fail();
  const text = toText(value);
  const int = text === undefined ? asInt(value) : parseInteger(text, base);
  if (int !== undefined) return int;
  const number = tryNumber(value);
  if (number === undefined) return undefined;
  try {
    return numberToInt(Math.trunc(number));
  } catch (error) {
    if (isRaised(error, "ValueError")) return undefined;
    throw error;
  }
}

function formatSize(bytes: number, isBinary: boolean): string {
  const base = isBinary ? 1024 : 1000;
  if (bytes === 1) return "1 Byte";
  if (bytes < base) return `${numberToInt(Math.trunc(bytes))} Bytes`;
  const letters = isBinary ? "KMGTPEZY" : "kMGTPEZY";
  const power = Array.from(letters).findIndex((_, index) => bytes < base ** (index + 2));
  const at = power < 0 ? letters.length - 1 : power;
  return `${toFixed(base * bytes / base ** (at + 2), 1)} ${letters[at]}${isBinary ? "iB" : "B"}`;
}
