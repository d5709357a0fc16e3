/**
 * Translates errors about a task's fields to the request's fields.
 *
 * @module
 */
import type { WireError } from "../base/errors.ts";

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
