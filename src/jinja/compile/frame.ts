/**
 * The context in which a template is compiled, its state while it is rendered, and code that reads and writes
 * variables.
 *
 * @module
 */
import type { Expression, Statement, Target } from "../syntax/nodes.ts";
import type { FunctionSlots, Load, Reference, Scope } from "./symbols.ts";
import { requireShort } from "../meter.ts";
import { Namespace, raise, type Value } from "../python/values.ts";
import { iterate } from "../python/collections.ts";

/** The context in which an expression is compiled. */
export interface ExpressionContext {
  readonly scope: Scope;
  /** Whether the expression may never run. An unknown filter or test is then an error only when it is applied. */
  readonly isConditional: boolean;
  /** Counts a node of the syntax tree. */
  readonly count: () => void;
}

/** The context in which a statement is compiled. */
export interface BodyContext {
  readonly scope: Scope;
  /** Whether names that the statement assigns become variables of the template. */
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
 * Compiles the statements of a body. A function that compiles one statement gets this function for the statement's
 * body.
 */
export type CompileBody = (body: readonly Statement[], context: BodyContext) => Execute;

/** The variables that a template is rendered with, the globals, and the variables that it sets at its top level. */
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

/** The text that a template, or a part of it, has written. */
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

export type Evaluate = (frame: Frame) => Value;

/** What runs after a statement: the next one (`undefined`), the code after the loop, or the loop's next iteration. */
export type Signal = undefined | "break" | "continue";

export type Execute = (frame: Frame) => Signal;

/** Makes a function that reads a variable, or returns `undefined` if the variable has no value. */
export function compileRead({ owner, slot }: Reference): (frame: Frame) => Value | undefined {
  return (frame) => {
    let holder = frame;
    while (holder.owner !== owner) holder = holder.parent!;
    return holder.slots[slot];
  };
}

export function compileWrite(
  { owner, slot }: Reference,
): (frame: Frame, value: Value | undefined) => void {
  return (frame, value) => {
    let holder = frame;
    while (holder.owner !== owner) holder = holder.parent!;
    holder.slots[slot] = value;
  };
}

/** Compiles the initialisation of a scope's variables. */
export function compileEnter(scope: Scope): (frame: Frame) => void {
  const loads = scope.loads.flatMap(([reference, load]) => compileLoad(reference, load) ?? []);
  return (frame) => {
    for (const load of loads) load(frame);
  };
}

function compileLoad(reference: Reference, load: Load): ((frame: Frame) => void) | undefined {
  if (load.kind === "parameter") return undefined;
  const write = compileWrite(reference);
  if (load.kind === "undefined") return (frame) => write(frame, undefined);
  if (load.kind === "variable") return (frame) => write(frame, frame.variables.get(load.name));
  const read = compileRead(load.reference);
  return (frame) => write(frame, read(frame));
}

/** Compiles an assignment of a value. */
export function compileAssign(
  target: Target | Expression,
  context: BodyContext,
): (frame: Frame, value: Value) => void {
  if (target.kind === "name") {
    const { name } = target;
    const write = compileWrite(context.scope.find(name)!);
    if (!context.isTop) return write;
    return (frame, value) => {
      write(frame, value);
      frame.variables.set(name, value);
    };
  }
  if (target.kind === "namespace") {
    const read = compileRead(context.scope.find(target.name)!);
    const { attribute } = target;
    return (frame, value) => {
      const namespace = read(frame);
      if (!(namespace instanceof Namespace)) {
        raise("TemplateRuntimeError", "cannot assign attribute on non-namespace object");
      }
      namespace.values.set(attribute, value);
    };
  }
  if (target.kind !== "tuple") throw new Error(`A ${target.kind} is no target.`);
  const all = target.items.map((each) => compileAssign(each, context));
  return (frame, value) => {
    const values = unpack(value, all.length);
    all.forEach((assign, index) => assign(frame, values[index]!));
  };
}

function unpack(value: Value, wanted: number): Value[] {
  const values: Value[] = [];
  for (const each of iterate(value)) {
    if (values.length === wanted) {
      raise("ValueError", `too many values to unpack (expected ${wanted})`);
    }
    values.push(each);
  }
  if (values.length < wanted) {
    raise("ValueError", `not enough values to unpack (expected ${wanted}, got ${values.length})`);
  }
  return values;
}
