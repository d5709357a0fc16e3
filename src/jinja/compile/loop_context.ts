/**
 * The variable `loop` of a `for` loop.
 *
 * @module
 */
import { areEqual } from "../python/compare.ts";
import { getLength, iterate } from "../python/iterate.ts";
import {
  type Arguments,
  Callable,
  PyObject,
  Tuple,
  Undefined,
  type Value,
  valueOr,
} from "../python/values.ts";
import { raise } from "../template_error.ts";

interface Recursion {
  readonly depth: number;
  readonly recurse: (values: Value) => Value;
}

export class LoopContext extends PyObject {
  readonly typeName = "LoopContext";
  readonly #given: Value;
  #values: Iterator<Value>;
  readonly #recursion: Recursion | undefined;
  #index = -1;
  #length: number | undefined;
  /** The value after the current one, which has been read ahead. */
  #next: IteratorResult<Value> | undefined;
  #current: Value | undefined;
  #previous: Value | undefined;
  #changed: Tuple | undefined;

  constructor(values: Value, recursion: Recursion | undefined) {
    super();
    this.#given = values;
    this.#values = iterate(values);
    this.#recursion = recursion;
  }

  *iterations(): Generator<Value> {
    for (;;) {
      const next = this.#next ?? this.#values.next();
      this.#next = undefined;
      if (next.done === true) return;
      this.#index++;
      this.#previous = this.#current;
      this.#current = next.value;
      yield next.value;
    }
  }

  #peek(): IteratorResult<Value> {
    return this.#next ??= this.#values.next();
  }

  /** Counts the values. Iterators without a length are read to their end. */
  #countAll(): number {
    if (this.#length !== undefined) return this.#length;
    const known = getLength(this.#given);
    if (known !== undefined) return this.#length = known;
    const rest: Value[] = [];
    for (let next = this.#values.next(); next.done !== true; next = this.#values.next()) {
      rest.push(next.value);
    }
    this.#values = rest[Symbol.iterator]();
    const isPeeked = this.#next !== undefined && this.#next.done !== true;
    return this.#length = rest.length + this.#index + 1 + Number(isPeeked);
  }

  override describe(): string {
    return `<LoopContext ${this.#index + 1}/${this.#countAll()}>`;
  }

  override attribute(name: string): Value | undefined {
    switch (name) {
      case "index":
        return this.#index + 1;
      case "index0":
        return this.#index;
      case "length":
      case "__len__":
        return this.#countAll();
      case "revindex":
        return this.#countAll() - this.#index;
      case "revindex0":
        return this.#countAll() - this.#index - 1;
      case "first":
        return this.#index === 0;
      case "last":
        return this.#peek().done === true;
      case "depth":
        return (this.#recursion?.depth ?? 0) + 1;
      case "depth0":
        return this.#recursion?.depth ?? 0;
      case "previtem":
        return valueOr(this.#previous, () => new Undefined("there is no previous item"));
      case "nextitem": {
        const next = this.#peek();
        return next.done === true ? new Undefined("there is no next item") : next.value;
      }
      case "cycle":
        return new Callable("cycle", ({ positional }) => this.#cycle(positional));
      case "changed":
        return new Callable("changed", ({ positional }) => this.#hasChanged(positional));
      default:
        return undefined;
    }
  }

  #cycle(values: readonly Value[]): Value {
    if (values.length === 0) raise("TypeError", "no items for cycling given");
    return values[this.#index % values.length]!;
  }

  #hasChanged(values: readonly Value[]): boolean {
    const now = new Tuple(values);
    if (this.#changed !== undefined && areEqual(this.#changed, now)) return false;
    this.#changed = now;
    return true;
  }

  /** `loop(values)` in a recursive loop. */
  call({ positional }: Arguments): Value {
    if (this.#recursion === undefined) {
      raise("TypeError", "The loop must have the 'recursive' marker to be called recursively.");
    }
    if (positional.length !== 1) raise("TypeError", "loop() takes one argument");
    return this.#recursion!.recurse(positional[0]!);
  }
}
