import { JsonText } from "./json_text.ts";
import { charge, descend } from "./meter.ts";
import { Dict } from "./python/dict.ts";
import { Float, PyObject, type Value } from "./python/values.ts";

/** Converts a JSON value to Python's. A number without a fraction becomes an int. */
export function toValue(value: unknown): Value {
  charge(1);
  if (typeof value === "string" || typeof value === "boolean" || typeof value === "bigint") {
    return value;
  }
  if (typeof value === "number") return Number.isSafeInteger(value) ? value + 0 : new Float(value);
  if (value === null || value === undefined) return null;
  if (value instanceof PyObject) return value;
  if (value instanceof JsonText) return value.read();
  if (Array.isArray(value)) return descend(() => value.map(toValue));
  const entries = Object.entries(value as object).filter(([, each]) => each !== undefined);
  return descend(() => new Dict(entries.map(([key, each]) => [key, toValue(each)] as const)));
}
