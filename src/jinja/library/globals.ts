/**
 * The functions available in every template: Jinja2's, and those that transformers adds.
 *
 * @module
 */
import { makeRange } from "../python/arithmetic.ts";
import { getAttribute } from "../python/attributes.ts";
import { Dict } from "../python/dict.ts";
import { iterate, toList } from "../python/iterate.ts";
import { str } from "../python/repr.ts";
import { callNative, native } from "../python/signature.ts";
import { formatTime } from "../python/strftime.ts";
import { requireText } from "../python/string_methods.ts";
import {
  type Arguments,
  Callable,
  Namespace,
  PyObject,
  Tuple,
  type Value,
} from "../python/values.ts";
import { raise } from "../template_error.ts";

/** @param now the time for `strftime_now`. */
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
