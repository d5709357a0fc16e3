/**
 * Python's values, as templates see them. Where JavaScript has the same value, it is used: strings, booleans, `null`
 * for None, arrays for lists, and integral numbers for ints (`bigint` beyond the safe ones).
 *
 * @module
 */
import { raise } from "../template_error.ts";

export type Value = string | number | bigint | boolean | null | Value[] | PyObject;

/** A value that JavaScript does not have. */
export abstract class PyObject {
  /** The name of its type in Python. */
  abstract readonly typeName: string;

  /** An attribute that it has by itself, methods of its type aside. */
  attribute(_name: string): Value | undefined {
    return undefined;
  }

  /** What it prints as, if that is special. */
  describe(): string | undefined {
    return undefined;
  }
}

export class Float extends PyObject {
  readonly typeName = "float";
  readonly value: number;

  constructor(value: number) {
    super();
    this.value = value;
  }
}

export class Tuple extends PyObject {
  readonly typeName: string = "tuple";
  readonly items: readonly Value[];

  constructor(items: readonly Value[]) {
    super();
    this.items = items;
  }
}

/** A group of `groupby`: a tuple with names. */
export class GroupTuple extends Tuple {
  override attribute(name: string): Value | undefined {
    if (name === "grouper") return this.items[0];
    return name === "list" ? this.items[1] : undefined;
  }
}

/** A string that is HTML already: what is added to it is escaped. */
export class Markup extends PyObject {
  readonly typeName = "Markup";
  readonly text: string;

  constructor(text: string) {
    super();
    this.text = text;
  }
}

export class Bytes extends PyObject {
  readonly typeName = "bytes";
  readonly bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    super();
    this.bytes = bytes;
  }
}

/** A name without a value. It prints as nothing, and fails when it is used otherwise. */
export class Undefined extends PyObject {
  readonly typeName = "Undefined";
  readonly message: string;
  readonly errorType: string;

  constructor(message: string, errorType = "UndefinedError") {
    super();
    this.message = message;
    this.errorType = errorType;
  }

  /** @throws {TemplateError} */
  fail(): never {
    return raise(this.errorType, this.message);
  }

  override attribute(name: string): Value | undefined {
    return UNSAFE_NAMES.has(name) ? undefined : this.fail();
  }
}

/** Names that everything has in Python, and the sandbox gives to nobody. */
export const UNSAFE_NAMES: ReadonlySet<string> = new Set([
  "__class__",
  "__dict__",
  "__dir__",
  "__doc__",
  "__eq__",
  "__format__",
  "__getattribute__",
  "__hash__",
  "__init__",
  "__init_subclass__",
  "__module__",
  "__ne__",
  "__new__",
  "__reduce__",
  "__reduce_ex__",
  "__repr__",
  "__setattr__",
  "__sizeof__",
  "__str__",
  "__subclasshook__",
]);

/** `namespace()`: variables that loops may assign to. */
export class Namespace extends PyObject {
  readonly typeName = "Namespace";
  readonly values: Map<string, Value>;

  constructor(values: Map<string, Value>) {
    super();
    this.values = values;
  }

  override attribute(name: string): Value | undefined {
    return this.values.get(name);
  }
}

export class Range extends PyObject {
  readonly typeName = "range";
  readonly start: number;
  readonly stop: number;
  readonly step: number;

  constructor(start: number, stop: number, step: number) {
    super();
    this.start = start;
    this.stop = stop;
    this.step = step;
  }

  get length(): number {
    return Math.max(0, Math.ceil((this.stop - this.start) / this.step));
  }

  override attribute(name: string): Value | undefined {
    return name === "start" || name === "stop" || name === "step" ? this[name] : undefined;
  }
}

/** What can be iterated over once: a generator, or an iterator over something. */
export class PyIterator extends PyObject {
  readonly typeName: string;
  readonly values: Iterator<Value>;

  constructor(values: Iterator<Value>, typeName = "generator") {
    super();
    this.values = values;
    this.typeName = typeName;
  }
}

export interface Arguments {
  readonly positional: readonly Value[];
  readonly named: ReadonlyMap<string, Value>;
}

export class Callable extends PyObject {
  readonly typeName: string;
  readonly name: string;
  readonly call: (args: Arguments) => Value;
  readonly #attributes: ReadonlyMap<string, Value> | undefined;

  constructor(
    name: string,
    call: (args: Arguments) => Value,
    options: {
      readonly typeName?: string;
      readonly attributes?: ReadonlyMap<string, Value>;
    } = {},
  ) {
    super();
    this.name = name;
    this.call = call;
    this.typeName = options.typeName ?? "function";
    this.#attributes = options.attributes;
  }

  override attribute(name: string): Value | undefined {
    return this.#attributes?.get(name);
  }
}

export const NO_NAMED: ReadonlyMap<string, Value> = new Map();

/** The value, or another where there is none. None is a value, which `??` does not know. */
export function valueOr(value: Value | undefined, otherwise: () => Value): Value {
  return value === undefined ? otherwise() : value;
}

/** The name of a value's type in Python. */
export function getTypeName(value: Value): string {
  if (value === null) return "NoneType";
  if (Array.isArray(value)) return "list";
  if (value instanceof PyObject) return value.typeName;
  if (typeof value === "string") return "str";
  return typeof value === "boolean" ? "bool" : "int";
}

/** The text of a str; `undefined` for other types. */
export function toText(value: Value): string | undefined {
  if (typeof value === "string") return value;
  return value instanceof Markup ? value.text : undefined;
}

/** The items of a list or tuple; `undefined` for other types. */
export function toItems(value: Value): readonly Value[] | undefined {
  if (Array.isArray(value)) return value;
  return value instanceof Tuple ? value.items : undefined;
}
