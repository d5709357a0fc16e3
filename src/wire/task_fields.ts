/**
 * What is wrong with a task, told of the request that it was made from.
 *
 * @module
 */
import type { WireError } from "../base/errors.ts";

/** Fields of requests, by those of tasks that they are called otherwise than. */
const REQUEST_FIELDS: Readonly<Record<string, string>> = {
  continuesFinalMessage: "continue_final_message",
  logitBias: "logit_bias",
  promptName: "prompt_name",
  stopTokenIds: "stop_token_ids",
  timesWords: "timestamp_granularities",
  truncation: "truncate_prompt_tokens",
};

/**
 * An error of a model, whose `param` is a task's field where no field of a request came with the task, in the request's
 * words: its message begins with the request's field then.
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
