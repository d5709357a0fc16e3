/**
 * Python's values as templates see them. JavaScript's own values are used where they are equivalent: strings, booleans,
 * `null` for None, arrays for lists, and whole numbers for ints (`bigint` if a number is not exact).
 *
 * @module
 */

/** An error of a template. Most messages are those of Jinja2 or Python. */
export class TemplateError extends Error {
  override readonly name = "TemplateError";
  /** The name of Python's exception; some filters catch certain exceptions. */
  readonly type: string;

  constructor(message: string, type = "TemplateError") {
    super(message);
    this.type = type;
  }
}

/** Throws a Python exception. */
export function raise(type: string, message: string): never {
  throw new TemplateError(message, type);
}

/** Whether an error is one of these Python exceptions. */
export function isRaised(error: unknown, ...types: readonly string[]): boolean {
  return error instanceof TemplateError && types.includes(error.type);
}

export type Value = string | number | bigint | boolean | null | Value[] | PyObject;

/** A value for which JavaScript has no equivalent. */
export abstract class PyObject {
  /** The name of its Python type. */
  abstract readonly typeName: string;

  /** Finds an attribute of this value. The methods of Python's built-in types are found elsewhere (`attributes.ts`). */
  attribute(_name: string): Value | undefined {
    return undefined;
  }

  /** The text that it prints as, if its type has a special one. */
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

/** A group made by `groupby`: a tuple whose items also have names. */
export class GroupTuple extends Tuple {
  override attribute(name: string): Value | undefined {
    if (name === "grouper") return this.items[0];
    return name === "list" ? this.items[1] : undefined;
  }
}

/** A string that is already HTML. Text that is added to it is escaped. */
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

/** The value of a name or an attribute that does not exist. It prints as nothing; most other uses fail. */
export class Undefined extends PyObject {
  readonly typeName = "Undefined";
  readonly message: string;
  readonly errorType: string;

  constructor(message: string, errorType = "UndefinedError") {
    super();
    this.message = message;
    this.errorType = errorType;
  }

  /** Fails as Jinja2 does for this value. */
  fail(): never {
    return raise(this.errorType, this.message);
  }

  override attribute(name: string): Value | undefined {
    return UNSAFE_NAMES.has(name) ? undefined : this.fail();
  }
}

/** Attributes that Python's values have but the sandbox hides. */
export const UNSAFE_NAMES: ReadonlySet<string> = new Set(
  `__class__ __dict__ __dir__ __doc__ __eq__ __format__ __getattribute__ __hash__ __init__
  __init_subclass__ __module__ __ne__ __new__ __reduce__ __reduce_ex__ __repr__ __setattr__
  __sizeof__ __str__ __subclasshook__`.split(/\s+/),
);

/** The value of `namespace()`. Its variables keep what is assigned within a loop. */
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

/** A value that can be iterated over only once: a generator or an iterator. */
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

/** The value, or a default if there is none. Unlike `??`, it keeps None. */
export function valueOr(value: Value | undefined, otherwise: () => Value): Value {
  return value === undefined ? otherwise() : value;
}

/** The name of a value's Python type. */
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
