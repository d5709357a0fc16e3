import { charge } from "../meter.ts";
import { raise } from "../template_error.ts";
import {
  type Arguments,
  type Callable,
  getTypeName,
  PyObject,
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
 * @throws {TemplateError} when it is not a function.
 */
export function callValue(value: Value, args: Arguments): Value {
  charge(1);
  if (value instanceof Undefined) value.fail();
  if (!isCallable(value)) {
    return raise("TypeError", `'${getTypeName(value)}' object is not callable`);
  }
  return value.call(args);
}
