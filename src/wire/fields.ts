/**
 * Field types of requests, each with an error that says what is expected, and the parser of requests, whose errors name
 * the field, the value seen and the value wanted.
 *
 * @module
 */
import { z } from "zod";
import { getMember, isRecord } from "../base/json.ts";
import { HearthError } from "../base/errors.ts";

/** Matches a decimal number, as in forms and settings. */
const DECIMAL = /^[+-]?(\d{1,400}(\.\d{0,400})?|\.\d{1,400})(e[+-]?\d{1,3})?$/i;

/** Accepts a number or its text: many clients send what their users typed, or the value of an environment variable. */
export function orText<T extends z.ZodType>(number: T): z.ZodPreprocess<T> {
  return z.preprocess(
    (value) => typeof value === "string" && DECIMAL.test(value.trim()) ? Number(value) : value,
    number,
  );
}

/** A finite number from `min` to `max`, or its text. */
export function numberFrom(min: number, max: number): z.ZodPreprocess<z.ZodNumber> {
  const error = `a number from ${min} to ${max}`;
  return orText(z.number({ error }).min(min, { error }).max(max, { error }));
}

/** A whole number from `min` to `max`; no upper limit if `max` is the largest safe integer. */
function wholeNumber(min: number, max: number): z.ZodInt {
  const end = max === Number.MAX_SAFE_INTEGER ? "up" : `to ${max}`;
  const error = `a whole number from ${min} ${end}`;
  return z.int({ error }).min(min, { error }).max(max, { error });
}

/** A whole number from `min` to `max`, or its text; no upper limit if `max` is absent. */
export function integerFrom(
  min: number,
  max: number = Number.MAX_SAFE_INTEGER,
): z.ZodPreprocess<z.ZodInt> {
  return orText(wholeNumber(min, max));
}

/** A token id. Its text is not accepted: where a field takes text or token ids, every string is text. */
export function tokenId(): z.ZodInt {
  return wholeNumber(0, 2 ** 31 - 1);
}

/** A token limit of at least `min`; -1 (llama.cpp's value) means no limit. */
export function tokenLimit(min: 0 | 1): z.ZodPreprocess<z.ZodInt> {
  const error = `a whole number from ${min} up, or -1 for no limit`;
  const isLimit = (value: number) => value === -1 || value >= min;
  return orText(z.int({ error }).min(-1, { error }).refine(isLimit, { error }));
}

/** True or false, or its text: LM Studio's documentation sends `"strict": "true"`. */
export function flag(): z.ZodPreprocess<z.ZodBoolean> {
  return z.preprocess(
    (value) => value === "true" || (value === "false" ? false : value),
    z.boolean({ error: "true or false" }),
  );
}

export function anyText(): z.ZodString {
  return z.string({ error: "a string" });
}

/** A string that is not empty. */
export function text(what = "a string that is not empty"): z.ZodString {
  return z.string({ error: what }).min(1, { error: what });
}

/** Maximum length of a stop string. Longer ones are of no use, and it takes time to prepare the search for them. */
const MAX_STOP_CHARACTERS = 1024;
/** Maximum number of stop strings; code editors send about two dozen. */
const MAX_STOP_STRINGS = 64;
/** Maximum number of characters of all stop strings together. It bounds the memory and time of preparing the search. */
const MAX_ALL_STOP_CHARACTERS = 16 * 1024;

/** A string that ends a completion; an empty string ends none. */
function stopString(): z.ZodString {
  const error = `a string of at most ${MAX_STOP_CHARACTERS} characters`;
  return z.string({ error }).max(MAX_STOP_CHARACTERS, { error });
}

/** Strings that end a completion. */
export function stopStrings(): z.ZodPreprocess<z.ZodArray<z.ZodString>> {
  return listSchema(stopString(), { max: MAX_STOP_STRINGS }).refine(
    (stops) => stops.reduce((sum, { length }) => sum + length, 0) <= MAX_ALL_STOP_CHARACTERS,
    { error: `strings of at most ${MAX_ALL_STOP_CHARACTERS} characters in all` },
  );
}

/** A stop string, or an array of them. */
export function stopField(): z.ZodUnion<[z.ZodString, ReturnType<typeof stopStrings>]> {
  const error = `a string of at most ${MAX_STOP_CHARACTERS} characters, or an array of at most ` +
    `${MAX_STOP_STRINGS} of them`;
  return z.union([stopString(), stopStrings()], { error });
}

/** An array of `min` to `max` items. */
export function listSchema<T extends z.ZodType>(
  item: T,
  options: { min?: number; max?: number } = {},
): z.ZodPreprocess<z.ZodArray<T>> {
  const { min = 0, max = Infinity } = options;
  const error = max < Infinity
    ? `an array of ${min} to ${max} items`
    : `an array${min > 0 ? " that is not empty" : ""}`;
  const array = z.array(item, { error }).min(min, { error });
  return cutAtFirstBad(item, max < Infinity ? array.max(max, { error }) : array, max);
}

/**
 * Cuts an array after its first bad item, and after `max` + 1 items, before `schema` checks it. Zod reports every bad
 * item, and a request of a few megabytes can hold so many of them that the reports exhaust the memory.
 */
export function cutAtFirstBad<T extends z.ZodType>(
  item: z.ZodType,
  schema: T,
  max = Infinity,
): z.ZodPreprocess<T> {
  return z.preprocess((value) => {
    if (!Array.isArray(value)) return value;
    const items = value.length > max ? value.slice(0, max + 1) : value;
    const firstBad = items.findIndex((each) => !item.safeParse(each).success);
    return firstBad < 0 ? items : items.slice(0, firstBad + 1);
  }, schema);
}

export function functionName(): z.ZodString {
  const error = "a name of 1 to 128 letters, digits, _ - . : /";
  return z.string({ error }).regex(/^[\w.:/-]{1,128}$/, { error });
}

/** A JSON schema. Only its type is checked here; its content is checked when it is compiled. */
export function jsonSchema(): z.ZodType {
  const isSchema = (value: unknown) => typeof value === "boolean" || isRecord(value);
  return z.unknown().refine(isSchema, { error: SCHEMA_WANTED }).meta({
    type: ["object", "boolean"],
  });
}

/** The values that are JSON schemas, for error messages. */
export const SCHEMA_WANTED = "a JSON schema: an object, true or false";

/** A field that must be absent, `null` or false. @param instead says what the client can do instead. */
export function notServed(instead?: string): z.ZodOptional<z.ZodType> {
  const hint = instead === undefined ? "" : `; ${instead}`;
  const error = `no value, because it is not supported${hint}`;
  return z.union([z.null(), z.literal(false)], { error }).optional();
}

/** An object with any fields. It is not copied, because its original JSON is stored under the object as the key. */
export function openObject(
  error: string,
): z.ZodCustom<Record<string, unknown>, Record<string, unknown>> {
  return z.custom<Record<string, unknown>>(isRecord, { error })
    .meta({ type: "object", additionalProperties: {} });
}

const MAX_SHOWN_CHARS = 40;

type Path = readonly PropertyKey[];

/**
 * Checks `body` against `schema`.
 *
 * @throws {HearthError} `invalid_value` for the first invalid field, its path in `param`.
 *
 * @example
 * ```ts
 * import { z } from "zod";
 * import { parseRequest } from "./fields.ts";
 * const schema = z.object({ n: z.number({ error: "a number" }) });
 * parseRequest(schema, { n: 1 });
 * ```
 */
export function parseRequest<T extends z.ZodType>(schema: T, body: unknown): z.output<T> {
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  const { path, wanted, isName } = findFault(result.error.issues[0]!, []);
  const param = path.length === 0 ? undefined : formatPath(path);
  const subject = param ?? "The request body";
  const seen = describeValue(isName ? path.at(-1) : path.reduce<unknown>(getMember, body));
  throw new HearthError("invalid_value", `${subject}: want ${wanted}, saw ${seen}.`, { param });
}

interface Fault {
  readonly path: Path;
  readonly wanted: string;
  /** Whether the last name of the path is itself invalid, rather than its value. */
  readonly isName?: boolean;
}

/**
 * Finds the innermost error. In a union, follows the alternative whose type matched: the one whose error is about a
 * length, or about a value inside.
 */
function findFault(issue: z.core.$ZodIssue, parents: Path): Fault {
  const path = [...parents, ...issue.path];
  if (issue.code === "invalid_key") {
    return { path, wanted: issue.issues[0]?.message ?? issue.message, isName: true };
  }
  if (issue.code === "invalid_union") {
    const fitting = issue.errors.find(([first]) =>
      first?.code === "too_big" && first.path.length === 0
    ) ?? issue.errors.find((issues) => issues.every((each) => each.path.length > 0));
    if (fitting?.[0] !== undefined) return findFault(fitting[0], path);
  }
  return { path, wanted: issue.message };
}

function formatPath(path: Path): string {
  return path.map((key, index) => {
    if (typeof key === "number") return `[${key}]`;
    const name = shorten(String(key));
    // In forms, the names of lists may end in brackets: include[].
    if (!/^[A-Za-z_]\w*(\[\])?$/.test(name)) return `[${JSON.stringify(name)}]`;
    return index === 0 ? name : `.${name}`;
  }).join("");
}

function describeValue(value: unknown): string {
  if (value === undefined) return "nothing";
  if (typeof value === "string") return JSON.stringify(shorten(value));
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === "object" && value !== null) return "an object";
  return String(value);
}

function shorten(value: string): string {
  return value.length <= MAX_SHOWN_CHARS ? value : `${value.slice(0, MAX_SHOWN_CHARS)}…`;
}
