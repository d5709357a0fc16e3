/**
 * The functions available in every template: Jinja2's, and those that transformers adds.
 *
 * @module
 */
import { makeRange } from "../python/arithmetic.ts";
import { getAttribute } from "../python/attributes.ts";
import { Dict, iterate, toList } from "../python/collections.ts";
import { str } from "../python/repr.ts";
import { callNative, native } from "../python/call.ts";
import { requireText } from "../python/string_methods.ts";
import { fill } from "../python/text.ts";
import {
  type Arguments,
  Callable,
  Namespace,
  PyObject,
  raise,
  Tuple,
  Undefined,
  type Value,
} from "../python/values.ts";

/** @param now gives the time for `strftime_now`. */
export function makeGlobals(now: () => Date): ReadonlyMap<string, Value> {
  const strftime = native("format", (format: Value) => formatTime(requireText(format), now()));
  const raiseException = native(
    "message",
    (message: Value) => raise("TemplateError", str(message)),
  );
  const globals = [
    new Callable("range", ({ positional }) => makeRange(positional), { typeName: "type" }),
    new Callable("dict", makeDict, {
      typeName: "type",
      attributes: new Map([["fromkeys", getAttribute(new Dict(), "fromkeys")]]),
    }),
    new Callable("namespace", makeNamespace, { typeName: "type" }),
    new Callable("cycler", ({ positional }) => new Cycler(positional), { typeName: "type" }),
    new Callable("joiner", (args) => callNative("joiner", JOINER, args), { typeName: "type" }),
    new Callable("strftime_now", (args) => callNative("strftime_now", strftime, args)),
    new Callable("raise_exception", (args) => callNative("raise_exception", raiseException, args)),
  ];
  return new Map(globals.map((each) => [each.name, each] as const));
}

/** Implements `dict(pairs, **values)`. */
function makeDict({ positional, named }: Arguments): Dict {
  const [first, second] = positional;
  if (second !== undefined) raise("TypeError", "dict expected at most 1 argument");
  if (first instanceof Undefined) first.fail();
  const pairs = first === undefined ? [] : first instanceof Dict ? first.entries() : toPairs(first);
  return new Dict([...pairs, ...named]);
}

function toPairs(values: Value): (readonly [Value, Value])[] {
  return Array.from(iterate(values), (each) => {
    const pair = toList(each);
    if (pair.length !== 2) raise("ValueError", "dictionary update sequence element is no pair");
    return [pair[0]!, pair[1]!] as const;
  });
}

function makeNamespace(args: Arguments): Namespace {
  const entries = Array.from(
    makeDict(args).entries(),
    ([key, value]) => [str(key), value] as const,
  );
  return new Namespace(new Map(entries));
}

class Cycler extends PyObject {
  readonly typeName = "Cycler";
  readonly #values: readonly Value[];
  #at = 0;

  constructor(values: readonly Value[]) {
    super();
    if (values.length === 0) raise("RuntimeError", "at least one item has to be provided");
    this.#values = values;
  }

  override attribute(name: string): Value | undefined {
    if (name === "current") return this.#values[this.#at]!;
    if (name === "items") return new Tuple(this.#values);
    if (name === "pos") return this.#at;
    if (name === "next") {
      return new Callable("next", () => {
        const value = this.#values[this.#at]!;
        this.#at = (this.#at + 1) % this.#values.length;
        return value;
      });
    }
    if (name !== "reset") return undefined;
    return new Callable("reset", () => {
      this.#at = 0;
      return null;
    });
  }
}

const JOINER = native("sep", (separator: Value = ", ") => {
  let isUsed = false;
  return new Callable("joiner", () => {
    const text = isUsed ? separator : "";
    isUsed = true;
    return text;
  }, { typeName: "Joiner" });
});

const DAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday".split(" ");
const MONTHS =
  "January February March April May June July August September October November December"
    .split(" ");

const DAY_MS = 86_400_000;

/** Formats a date like glibc's `strftime`, with its flags and widths. Unknown directives are copied unchanged. */
function formatTime(format: string, date: Date): string {
  return format.replaceAll(
    /%([-_0^#]*)(\d*)(?:E(?=[cCxXyY])|O(?![aAcDFxXY]))?([A-Za-z%])/g,
    (directive, flags: string, width: string, code: string) => {
      const text = FIELDS[code]?.(date);
      return text === undefined
        ? directive
        : flagField(text, { flags, width: Number(width), code });
    },
  );
}

/** Applies flags and a width to a field: `-`, `_` and `0` set the padding, `^` and `#` the case of letters. */
function flagField(
  text: string,
  { flags, width, code }: { readonly flags: string; readonly width: number; readonly code: string },
): string {
  if (code === "z") return text;
  if (flags.includes("#") && code === "p") text = text.toLowerCase();
  else if (
    (flags.includes("^") && code !== "P") || (flags.includes("#") && "aAbBh".includes(code))
  ) {
    text = text.toUpperCase();
  }
  const [padding] = /[-_0](?=[^-_0]*$)/.exec(flags) ?? [];
  const digits = /^[0 ]*(\d+)$/.exec(text)?.[1];
  if (digits === undefined) return padText(text, width, padding === "0" ? "0" : " ");
  const char = padding === "_" || (padding === undefined && text.startsWith(" ")) ? " " : "0";
  return padding === "-"
    ? padText(digits, width, " ")
    : padText(digits, Math.max(width, text.length), char);
}

function padText(text: string, width: number, char: string): string {
  return fill(width - text.length, char) + text;
}

const pad = (value: number, width = 2, char = "0") => String(value).padStart(width, char);
const hour12 = (date: Date) => date.getHours() % 12 || 12;

/** Day of the year, counted from 0. */
function dayOfYear(date: Date): number {
  const start = Date.UTC(date.getFullYear(), 0, 1);
  return (Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) - start) / DAY_MS;
}

/** The year and week by ISO 8601. */
function isoWeek(date: Date): { readonly year: number; readonly week: number } {
  const thursday = new Date(Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()));
  thursday.setUTCDate(thursday.getUTCDate() + 4 - (thursday.getUTCDay() || 7));
  const year = thursday.getUTCFullYear();
  return { year, week: Math.ceil(((+thursday - Date.UTC(year, 0, 1)) / DAY_MS + 1) / 7) };
}

const weekFrom = (firstDay: number) => (date: Date) =>
  pad(Math.floor((dayOfYear(date) + 7 - (date.getDay() + 7 - firstDay) % 7) / 7));

const FIELDS: Readonly<Record<string, (date: Date) => string>> = {
  "%": () => "%",
  a: (date) => DAYS[date.getDay()]!.slice(0, 3),
  A: (date) => DAYS[date.getDay()]!,
  b: (date) => MONTHS[date.getMonth()]!.slice(0, 3),
  B: (date) => MONTHS[date.getMonth()]!,
  c: (date) => formatTime("%a %b %e %H:%M:%S %Y", date),
  C: (date) => pad(Math.floor(date.getFullYear() / 100)),
  d: (date) => pad(date.getDate()),
  D: (date) => formatTime("%m/%d/%y", date),
  e: (date) => pad(date.getDate(), 2, " "),
  f: (date) => pad(date.getMilliseconds() * 1000, 6),
  F: (date) => formatTime("%Y-%m-%d", date),
  g: (date) => pad(isoWeek(date).year % 100),
  G: (date) => pad(isoWeek(date).year, 4),
  h: (date) => formatTime("%b", date),
  H: (date) => pad(date.getHours()),
  I: (date) => pad(hour12(date)),
  j: (date) => pad(dayOfYear(date) + 1, 3),
  k: (date) => pad(date.getHours(), 2, " "),
  l: (date) => pad(hour12(date), 2, " "),
  m: (date) => pad(date.getMonth() + 1),
  M: (date) => pad(date.getMinutes()),
  n: () => "\n",
  p: (date) => date.getHours() < 12 ? "AM" : "PM",
  P: (date) => date.getHours() < 12 ? "am" : "pm",
  r: (date) => formatTime("%I:%M:%S %p", date),
  R: (date) => formatTime("%H:%M", date),
  s: (date) => String(Math.floor(+date / 1000)),
  S: (date) => pad(date.getSeconds()),
  t: () => "\t",
  T: (date) => formatTime("%H:%M:%S", date),
  u: (date) => String(date.getDay() || 7),
  U: weekFrom(0),
  V: (date) => pad(isoWeek(date).week),
  w: (date) => String(date.getDay()),
  W: weekFrom(1),
  x: (date) => formatTime("%m/%d/%y", date),
  X: (date) => formatTime("%H:%M:%S", date),
  y: (date) => pad(date.getFullYear() % 100),
  Y: (date) => String(date.getFullYear()),
  // `datetime.now()` has no time zone.
  z: () => "",
  Z: () => "",
};
