/**
 * The context in which a template is compiled, and its state while it is rendered.
 *
 * @module
 */
import type { Statement } from "../syntax/nodes.ts";
import type { FunctionSlots, Scope } from "./symbols.ts";
import { requireShort } from "../meter.ts";
import type { Value } from "../python/values.ts";

/** The context in which an expression is compiled. */
export interface ExpressionContext {
  readonly scope: Scope;
  /** Whether it may never run. An unknown filter is then an error only when it is called. */
  readonly isConditional: boolean;
  /** Counts a node of the template. */
  readonly count: () => void;
}

/** The context in which a statement is compiled. */
export interface BodyContext {
  readonly scope: Scope;
  /** Whether names that it assigns become variables of the template. */
  readonly isTop: boolean;
  readonly isInLoop: boolean;
  readonly isConditional: boolean;
  /** The template's blocks by name. */
  readonly blocks: Map<string, (frame: Frame) => string>;
  readonly counter: { count: number };
}

/** The context for the expressions of a statement. */
export function toExpressionContext(
  { scope, isConditional, counter }: BodyContext,
): ExpressionContext {
  return { scope, isConditional, count: () => counter.count++ };
}

/**
 * Compiles the statements of a body. It is passed to the functions that compile single statements, which need it for
 * their own bodies.
 */
export type CompileBody = (body: readonly Statement[], context: BodyContext) => Execute;

/** The variables that a template is rendered with, and those that it sets at its top level. */
export class Variables {
  readonly #given: ReadonlyMap<string, Value>;
  readonly #globals: ReadonlyMap<string, Value>;
  readonly #own: Map<string, Value>;

  constructor(
    given: ReadonlyMap<string, Value>,
    globals: ReadonlyMap<string, Value>,
    own: ReadonlyMap<string, Value> = new Map(),
  ) {
    this.#given = given;
    this.#globals = globals;
    this.#own = new Map(own);
  }

  get(name: string): Value | undefined {
    for (const values of [this.#own, this.#given, this.#globals]) {
      const value = values.get(name);
      if (value !== undefined) return value;
    }
    return undefined;
  }

  set(name: string, value: Value): void {
    this.#own.set(name, value);
  }

  /** These variables and some more, in a new object. */
  extend(more: ReadonlyMap<string, Value>): Variables {
    return new Variables(this.#given, this.#globals, new Map([...this.#own, ...more]));
  }
}

/** A running call of one of the template's functions. */
export class Frame {
  /** Values of the variables; `undefined` if a variable has no value. */
  readonly slots: (Value | undefined)[];
  readonly owner: FunctionSlots;
  readonly parent: Frame | undefined;
  readonly variables: Variables;
  output = new Output();

  constructor(owner: FunctionSlots, variables: Variables, parent?: Frame) {
    this.owner = owner;
    this.slots = new Array<Value | undefined>(owner.size).fill(undefined);
    this.variables = variables;
    this.parent = parent;
  }
}

/** The text that a template has written. */
export class Output {
  readonly #parts: string[] = [];
  #length = 0;

  write(text: string): void {
    requireShort(this.#length += text.length);
    this.#parts.push(text);
  }

  finish(): string {
    return this.#parts.join("");
  }
}

/** Evaluates an expression. */
export type Evaluate = (frame: Frame) => Value;

/** How a statement ends: it goes on, or it leaves the loop or its current iteration. */
export type Signal = undefined | "break" | "continue";

/** Runs a statement. */
export type Execute = (frame: Frame) => Signal;
