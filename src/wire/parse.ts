/**
 * Parses a decoded body into a request, or an error that names the field, the value seen and the value wanted. Errors
 * about a task's fields are translated to the request's.
 *
 * @module
 */
import type { z } from "zod";
import { HearthError, type WireError } from "../base/errors.ts";

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
 * import { parseRequest } from "./parse.ts";
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
  const seen = describeValue(isName ? path.at(-1) : valueAt(body, path));
  throw new HearthError("invalid_value", `${subject}: want ${wanted}, saw ${seen}.`, { param });
}

interface Fault {
  readonly path: Path;
  readonly wanted: string;
  /** Whether the last name of the path is itself invalid, rather than its value. */
  readonly isName?: boolean;
}

/**
 * Finds the innermost error. In a union, follows the alternative whose type matched: its error is about a length, or
 * lies deeper.
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

function valueAt(body: unknown, path: Path): unknown {
  return path.reduce<unknown>((value, key) => {
    const isInside = typeof value === "object" && value !== null && Object.hasOwn(value, key);
    return isInside ? (value as Record<PropertyKey, unknown>)[key] : undefined;
  }, body);
}

function formatPath(path: Path): string {
  return path.map((key, index) => {
    if (typeof key === "number") return `[${key}]`;
    const name = shorten(String(key));
    // Names with brackets: forms write lists as include[].
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

/** Names of request fields, by those of task fields that are named differently. */
const REQUEST_FIELDS: Readonly<Record<string, string>> = {
  continuesFinalMessage: "continue_final_message",
  logitBias: "logit_bias",
  promptName: "prompt_name",
  stopTokenIds: "stop_token_ids",
  timesWords: "timestamp_granularities",
  truncation: "truncate_prompt_tokens",
};

/**
 * Translates a model's error whose `param` is a task's field to the field of the request, whose name then also begins
 * its message. Errors that already name a request's field are unchanged.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const error = { kind: "invalid_value", message: "there is no token 7.", param: 'logitBias["7"]' } as const;
 * const { param, message } = inRequestFields(error);
 * assert.deepEqual([param, message], ['logit_bias["7"]', 'logit_bias["7"]: there is no token 7.']);
 * ```
 */
export function inRequestFields(error: WireError): WireError {
  const [own = ""] = /^\w+/.exec(error.param ?? "") ?? [];
  const field = REQUEST_FIELDS[own];
  if (field === undefined) return error;
  const param = field + error.param!.slice(own.length);
  return { ...error, param, message: `${param}: ${error.message}` };
}
