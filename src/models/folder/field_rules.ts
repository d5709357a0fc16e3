/**
 * Checks the fields of a folder's JSON files: an absurd value ends the start with an error that names the file and the
 * field.
 *
 * @module
 */
import { isRecord } from "../../base/json.ts";
import { StartupError } from "../../base/errors.ts";
import type { Json } from "../../hub/model_folder.ts";

/** What is wrong with a value: the path within it to the faulty part, and what is wanted there. */
export interface FieldFault {
  readonly path: string;
  readonly wanted: string;
  readonly seen: unknown;
}

/** Finds what is wrong with a value. */
export type FieldRule = (value: unknown) => FieldFault | undefined;

const MAX_SHOWN_CHARS = 80;

/** A rule for values that pass a test. */
function passing(wanted: string, test: (value: unknown) => boolean): FieldRule {
  return (seen) => test(seen) ? undefined : { path: "", wanted, seen };
}

/** A whole number. */
export function whole(min: number, max: number): FieldRule {
  return passing(
    `a whole number from ${min} to ${max}`,
    (value) => Number.isInteger(value) && (value as number) >= min && (value as number) <= max,
  );
}

/** A number that is not 0, and no larger than `max`. */
export function nonZero(max: number): FieldRule {
  return passing(
    `a number other than 0, up to ${max}`,
    (value) => typeof value === "number" && value !== 0 && Math.abs(value) <= max,
  );
}

/** A number, of either sign. */
export function number(max: number): FieldRule {
  return passing(
    `a number from -${max} to ${max}`,
    (value) => typeof value === "number" && Math.abs(value) <= max,
  );
}

export const FLAG = passing("true or false", (value) => typeof value === "boolean");

export const TEXT = passing("a string", (value) => typeof value === "string");

/** A rule for one value or a list of values. */
export function oneOrMany(rule: FieldRule): FieldRule {
  return (value) => Array.isArray(value) ? listRule(rule)(value) : rule(value);
}

/** A rule for a list, whose items follow a rule. */
export function listRule(rule: FieldRule): FieldRule {
  return (value) => {
    if (!Array.isArray(value)) return { path: "", wanted: "an array", seen: value };
    for (const [index, item] of value.entries()) {
      const fault = rule(item);
      if (fault !== undefined) return { ...fault, path: `[${index}]${fault.path}` };
    }
    return undefined;
  };
}

/** A rule for an object: its fields follow rules if they are present and not `null`. */
export function fields(
  rules: Readonly<Record<string, FieldRule>>,
  options: { readonly required?: readonly string[] } = {},
): FieldRule {
  return (value) => {
    if (!isRecord(value)) return { path: "", wanted: "an object", seen: value };
    for (const [name, rule] of Object.entries(rules)) {
      const found = value[name] ?? undefined;
      if (found === undefined && !options.required?.includes(name)) continue;
      const fault = rule(found);
      if (fault !== undefined) return { ...fault, path: `.${name}${fault.path}` };
    }
    return undefined;
  };
}

/** A rule for a value of one of several types: a test for each type, and its rule. */
export function either(
  wanted: string,
  ...choices: readonly (readonly [(value: unknown) => boolean, FieldRule])[]
): FieldRule {
  return (value) => {
    const found = choices.find(([test]) => test(value));
    return found === undefined ? { path: "", wanted, seen: value } : found[1](value);
  };
}

/**
 * Checks a file's content.
 *
 * @param file its path.
 * @throws {StartupError} naming the file, the field, the value and what is wanted.
 */
export function requireFields(json: Json, rule: FieldRule, file: string): void {
  const fault = rule(json);
  if (fault === undefined) return;
  const shown = JSON.stringify(fault.seen) ?? "nothing";
  const seen = shown.length <= MAX_SHOWN_CHARS ? shown : `${shown.slice(0, MAX_SHOWN_CHARS)}…`;
  throw new StartupError(`${file}: ${fault.path.slice(1)}: want ${fault.wanted}, saw ${seen}.`);
}
