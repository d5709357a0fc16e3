/**
 * Calls of values, and of TypeScript functions with Python's arguments.
 *
 * @module
 */
import { charge } from "../meter.ts";
import {
  type Arguments,
  type Callable,
  getTypeName,
  PyObject,
  raise,
  Undefined,
  type Value,
} from "./values.ts";

/** Whether a value can be called. */
export function isCallable(value: Value): value is Callable {
  return value instanceof PyObject && "call" in value;
}

/**
 * Calls `value(…)`.
 *
 * @throws {TemplateError} when the value cannot be called.
 */
export function callValue(value: Value, args: Arguments): Value {
  charge(1);
  if (value instanceof Undefined) value.fail();
  if (!isCallable(value)) {
    return raise("TypeError", `'${getTypeName(value)}' object is not callable`);
  }
  return value.call(args);
}

/**
 * A function that takes its arguments by position. Absent arguments are `undefined`, so that TypeScript's defaults
 * apply.
 */
// deno-lint-ignore no-explicit-any
export type Implementation = (...values: any[]) => Value;

export interface Native {
  /** Names of the parameters. A parameter whose name begins with `_` can only be given by position. */
  readonly params: readonly string[];
  readonly numRequired: number;
  readonly run: Implementation;
}

/**
 * Declares a function and the names of its parameters. A parameter is optional if it has a default in TypeScript or a
 * `?` after its name.
 */
export function native(params: string, run: Implementation): Native {
  const names = params === "" ? [] : params.split(", ");
  const optional = names.findIndex((name) => name.endsWith("?"));
  return {
    params: names.map((name) => name.replace("?", "")),
    numRequired: optional < 0 ? run.length : Math.min(run.length, optional),
    run,
  };
}

/**
 * Calls a function.
 *
 * @throws {TemplateError} when the arguments do not fit its parameters.
 */
export function callNative(
  name: string,
  { params, numRequired, run }: Native,
  { positional, named }: Arguments,
): Value {
  if (positional.length > params.length) {
    raise(
      "TypeError",
      `${name}() takes at most ${params.length} arguments (${positional.length} given)`,
    );
  }
  if (named.size === 0 && positional.length >= numRequired) return run(...positional);
  const values: (Value | undefined)[] = [...positional];
  for (const [key, value] of named) {
    const index = params.indexOf(key);
    if (index < 0) raise("TypeError", `${name}() got an unexpected keyword argument '${key}'`);
    if (index < positional.length) {
      raise("TypeError", `${name}() got multiple values for argument '${key}'`);
    }
    values[index] = value;
  }
  for (let i = 0; i < numRequired; i++) {
    if (values[i] === undefined) {
      raise("TypeError", `${name}() missing required argument: '${params[i]}'`);
    }
  }
  return run(...values);
}
